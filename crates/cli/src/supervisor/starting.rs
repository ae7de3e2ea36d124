//! Starts the supervisor, and the command by a launcher.
//!
//! The launcher is a process between the supervisor and the command, which has the kernel kill it
//! when the supervisor dies, and becomes the command. So the command ends even if we and the
//! supervisor are killed at once. The kernel drops this request if the program is setuid, setgid or
//! has capabilities (`sudo`), and children of the command do not inherit it.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::unistd::execv;
use rustix::process::{Pid, Signal, getpid, getppid, setpgid, setsid};

use super::{kernel, link};
use crate::signals::set_of;

/// The names under which our processes run that the user did not start. `pkill -9 -f leasehold`
/// leaves the supervisor, which then ends everything that the command started.
pub(super) const SUPERVISOR: &str = "lease-supervise";
pub(super) const LAUNCHER: &str = "lease-launcher";

/// The arguments of the supervisor. The command follows them unchanged, so that everybody can see it.
#[derive(Debug)]
pub(crate) struct Start {
    /// From asking to killing, in nanoseconds.
    pub(crate) grace: u64,
    /// The process group of the command; `None` for its own.
    pub(crate) group: Option<Pid>,
    /// The signals that it starts with blocked.
    pub(crate) blocked: u64,
    /// True to wait for everything that the command started.
    pub(crate) wait_for_all: bool,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
}

impl Start {
    pub(crate) fn process(self) -> Command {
        let mut process = Command::new(kernel::ourselves());
        let group = self.group.map_or(0, Pid::as_raw_pid);
        process.arg0(SUPERVISOR).args([
            self.grace.to_string(),
            group.to_string(),
            self.blocked.to_string(),
            self.wait_for_all.to_string(),
        ]);
        process.arg(self.program).args(self.arguments);
        // A signal to our group must leave the supervisor alive to end the command.
        process.process_group(0);
        process
    }

    pub(super) fn read(mut words: impl Iterator<Item = OsString>) -> Option<Self> {
        Some(Self {
            grace: words.next()?.to_str()?.parse().ok()?,
            group: Pid::from_raw(words.next()?.to_str()?.parse().ok()?),
            blocked: words.next()?.to_str()?.parse().ok()?,
            wait_for_all: words.next()?.to_str()?.parse().ok()?,
            program: words.next()?,
            arguments: words.collect(),
        })
    }

    /// Starts the command by its launcher, and not by the standard library, which would unblock all
    /// signals. Returns its process, and where the launcher reports why it could not become the
    /// command.
    pub(super) fn command(&self, stdin: OwnedFd) -> io::Result<(Pid, OwnedFd)> {
        let (link, theirs) = kernel::pair()?;
        link::lend_stdin(&link, &stdin)?;
        let mut files = PosixSpawnFileActions::init()?;
        files.add_dup2(theirs.as_raw_fd(), io::stdin().as_raw_fd())?;
        let mut attributes = PosixSpawnAttr::init()?;
        attributes.set_pgroup(nix::unistd::Pid::from_raw(self.group.map_or(0, Pid::as_raw_pid)))?;
        attributes.set_sigmask(&set_of(self.blocked))?;
        attributes
            .set_flags(PosixSpawnFlags::POSIX_SPAWN_SETPGROUP | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK)?;
        let launcher = [LAUNCHER.into(), getpid().to_string().into()];
        let words = launcher.into_iter().chain([self.program.clone()]).chain(self.arguments.iter().cloned());
        let words = words.map(text).collect::<io::Result<Vec<_>>>()?;
        let variables = std::env::vars_os().map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            text(name)
        });
        let variables = variables.collect::<io::Result<Vec<_>>>()?;
        let id = posix_spawn(&kernel::ourselves(), &files, &attributes, &words, &variables)?;
        Ok((Pid::from_raw(id.as_raw()).ok_or(ErrorKind::Other)?, link))
    }
}

fn text(word: OsString) -> io::Result<CString> {
    CString::new(word.into_vec()).map_err(|_| ErrorKind::InvalidInput.into())
}

/// Leaves the session of the command. On Ctrl-Z, the kernel stops a process group only if one of
/// its parents is elsewhere in the session and could continue it. With `ssh -t host COMMAND` and in
/// a container there may be none, and the supervisor must not count as one.
pub(super) fn leave_the_session(command: Pid) {
    // The leader of a group cannot leave it, so it joins the command's, unless that has its own.
    if let Ok(group) = rustix::process::getpgid(Some(command)) {
        let _ = setpgid(None, Some(group));
        let _ = setsid();
    }
}

/// Becomes the command. Returns only if that fails; then the supervisor knows why.
pub(super) fn launch(mut words: impl Iterator<Item = OsString>) {
    let supervisor = words.next().and_then(|number| number.to_str()?.parse().ok()).and_then(Pid::from_raw);
    kernel::when_parent_dies(Signal::KILL);
    // If the supervisor died before the request, nobody will ever send the signal.
    if supervisor.is_none() || getppid() != supervisor {
        return;
    }
    match begin_as_the_command_does() {
        Ok(link) => link::send_error(&link, become_program(&words.collect::<Vec<_>>()) as i32),
        Err(error) => link::send_error(io::stdin(), error.raw_os_error()),
    }
}

/// Replaces the connection on stdin by the command's stdin, and returns it: exec closes it.
fn begin_as_the_command_does() -> rustix::io::Result<OwnedFd> {
    // The standard library makes us ignore SIGPIPE; exec would keep that, but no handler.
    let _ = signal_hook::flag::register(Signal::PIPE.as_raw(), Arc::new(AtomicBool::new(false)));
    let link = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    let stdin = link::receive_stdin(&link).ok_or(rustix::io::Errno::PIPE)?;
    rustix::stdio::dup2_stdin(&stdin)?;
    Ok(link)
}

/// Searches the directories of PATH, as a shell does; but a file without a `#!` line is never run
/// by a shell.
fn become_program(words: &[OsString]) -> Errno {
    const DIRECTORIES: &str = "/bin:/usr/bin";
    let texts: Result<Vec<_>, _> = words.iter().map(|word| CString::new(word.clone().into_vec())).collect();
    let (Some(program), Ok(texts)) = (words.first(), texts) else { return Errno::EINVAL };
    let try_at = |path: PathBuf| match CString::new(path.into_os_string().into_vec()) {
        Ok(path) => execv(&path, &texts).unwrap_err(),
        Err(_) => Errno::EINVAL,
    };
    if program.is_empty() || program.as_encoded_bytes().contains(&b'/') {
        return try_at(program.into());
    }
    let directories = std::env::var_os("PATH").unwrap_or_else(|| OsStr::new(DIRECTORIES).into());
    let mut why = Errno::ENOENT;
    for directory in std::env::split_paths(&directories) {
        match try_at(directory.join(program)) {
            Errno::EACCES => why = Errno::EACCES,
            Errno::ENOENT | Errno::ENOTDIR | Errno::ENAMETOOLONG | Errno::ESTALE | Errno::ENODEV => {}
            error => return error,
        }
    }
    why
}
