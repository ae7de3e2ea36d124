//! How the minder is started, and how it starts the command.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::process::{Pid, Signal, set_parent_process_death_signal};

use crate::signals::ignored;

/// The minder's own name, which nobody else's process has: who types it wants nothing of us.
const NAME: &str = "leasehold-minder";

pub(crate) fn is_minder(name: Option<&OsStr>) -> bool {
    name == Some(OsStr::new(NAME))
}

/// What the minder is started with. The program stands behind it as it was given, as everybody may see it.
#[derive(Debug)]
pub(crate) struct Start {
    /// From asking to killing, in nanoseconds.
    pub(super) grace: u64,
    /// The group that the command is to be in; `None` for one of its own.
    pub(super) group: Option<i32>,
    program: OsString,
    arguments: Vec<OsString>,
}

/// The minder's process, not started yet.
pub(crate) fn process(
    grace: Duration,
    group: Option<Pid>,
    program: &OsStr,
    arguments: &[OsString],
) -> Command {
    // Not by our path, where another version may lie by now.
    let mut process = Command::new("/proc/self/exe");
    let grace = u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX);
    process.arg0(NAME).arg(grace.to_string()).arg(group.map_or(0, Pid::as_raw_pid).to_string());
    process.arg(program).args(arguments);
    // What ends or stops our group, a terminal or a `kill -9` of all of it, must leave somebody to end the command.
    process.process_group(0);
    process
}

impl Start {
    pub(super) fn read(mut words: impl Iterator<Item = OsString>) -> Option<Self> {
        let grace = words.next()?.to_str()?.parse().ok()?;
        let group = words.next()?.to_str()?.parse().ok()?;
        let group = (group != 0).then_some(group);
        Some(Self { grace, group, program: words.next()?, arguments: words.collect() })
    }

    /// Starts the command.
    pub(super) fn command(&self, stdin: OwnedFd) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(stdin).process_group(self.group.unwrap_or(0));
        command.spawn()
    }
}

/// Survives what ends other processes, and is woken when the one that started us dies. Says whether that was done.
///
/// By handlers that do nothing, as a program begins with what its starter ignores but not with its handlers: the command must
/// not ignore what nobody had it ignore. What is ignored already stays so.
pub(super) fn outlive_us() -> bool {
    let deaf = Arc::new(AtomicBool::new(false));
    let ignored = ignored();
    let is_ignored = |signal: Signal| ignored >> (signal.as_raw() - 1) & 1 == 1;
    let deafened = SURVIVED
        .into_iter()
        .filter(|signal| !is_ignored(*signal))
        .all(|signal| signal_hook::flag::register(signal.as_raw(), deaf.clone()).is_ok());
    let _ = rustix::thread::set_name(c"minder");
    // Interrupts the nap. Without it the end of the connection does the same.
    let _ = set_parent_process_death_signal(Some(Signal::HUP));
    deafened
}

const SURVIVED: [Signal; 10] = [
    Signal::INT,
    Signal::QUIT,
    Signal::HUP,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::PIPE,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
];
