//! The launcher: a process between the supervisor and the command, which has the kernel kill it
//! when the supervisor dies, and becomes the command. So the command ends even if we and the
//! supervisor are killed at once. The kernel drops this request if the program is setuid, setgid or
//! has capabilities (`sudo`), and children of the command do not inherit it.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::errno::Errno;
use nix::unistd::execv;
use rustix::process::{Pid, Signal, getppid};

use super::{kernel, link};

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
