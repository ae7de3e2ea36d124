//! Starts the supervisor, which starts the command.

use std::ffi::{CString, OsString};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use rustix::process::{Pid, getpid, setpgid, setsid};

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
