//! The default label of a holder: user, host, process and program.

use std::ffi::OsStr;
use std::path::Path;

use leasehold::Label;
use nix::unistd::{Uid, User};

/// `ada@web-3:4711 report`.
pub(crate) fn default_label(program: &OsStr) -> String {
    let user = Uid::effective();
    // If the user database does not know us, as in many containers, use the user's number.
    let name = User::from_uid(user).ok().flatten().map_or_else(|| user.to_string(), |entry| entry.name);
    label_of(user, &name, &rustix::system::uname().nodename().to_string_lossy(), program)
}

fn label_of(user: Uid, name: &str, host: &str, program: &OsStr) -> String {
    let process = std::process::id();
    let who = format!("{name}@{host}:{process}");
    // The kernel lets a host have any name.
    let who = if Label::new(&who).is_ok() { who } else { format!("{user}:{process}") };
    let program = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let room = Label::MAX_LEN.saturating_sub(who.len() + 1);
    let end = (0..=room).rev().find(|end| program.is_char_boundary(*end)).unwrap_or(0);
    let whole = format!("{who} {}", &program[..end]);
    // A program may have any name; one that is not a valid label is left out.
    if Label::new(&whole).is_ok() && !program.is_empty() { whole } else { who }
}

/// The program that runs `leasehold hold`: the script that reads its fence, or the shell.
pub(crate) fn starter() -> String {
    let parent = rustix::process::getppid().map(|parent| format!("/proc/{parent}/comm"));
    let name = parent.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    name.trim_end().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_named_without_its_directory_and_only_if_a_label_can_hold_it() {
        let of = |program: &str| default_label(OsStr::new(program));
        let who = of("");
        assert!(who.contains('@') && who.ends_with(&format!(":{}", std::process::id())), "{who}");
        assert_eq!(of("/usr/local/bin/report"), format!("{who} report"));
        assert_eq!(of("a\nb"), who);
        let long = of(&"ä".repeat(300));
        assert!(Label::new(&long).is_ok() && long.len() >= Label::MAX_LEN - 1, "{long}");
    }

    /// Every run on such a host was refused, with an error about a label that nobody had given.
    #[test]
    fn a_host_whose_name_a_label_cannot_hold_is_left_out() {
        let of = |host: &str| label_of(Uid::from_raw(7), "ada", host, OsStr::new("report"));
        let process = std::process::id();
        assert_eq!(of("web-3"), format!("ada@web-3:{process} report"));
        for host in ["web\n3", &"x".repeat(Label::MAX_LEN)] {
            assert_eq!(of(host), format!("7:{process} report"));
        }
    }
}
