//! All processes below us: signalled, and waited for.

#[cfg_attr(target_os = "linux", path = "descendants/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "descendants/bsd.rs")]
mod kernel;

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, wait};

use self::kernel::Earlier;
pub(super) use self::kernel::count;
pub(crate) use self::kernel::{adopt_orphans, is_below_us};
use crate::exit::{End, Failure};
use crate::say;

/// Refuses to run a command whose processes could not be found when they must end.
pub(crate) fn check() -> Result<(), Failure> {
    const WHY: &str = "/proc does not show the processes of this namespace, so what the command starts could not be ended: \
        mount it here (mount -t proc proc /proc, or unshare --mount-proc)";
    if kernel::are_found() { Ok(()) } else { Err(Failure::new(End::CANNOT_EXECUTE, WHY)) }
}

pub(super) fn signal(command: Pid, signal: Signal) {
    kernel::signal(command, signal, &Earlier::default());
}

/// Kills all processes below us in rounds: a process created during one round is found by the next.
#[derive(Debug, Default)]
pub(crate) struct KillRounds {
    rounds: u32,
    spared: BTreeSet<i32>,
    earlier: Earlier,
}

impl KillRounds {
    /// Spares what is below us already, which the program that became us may have started.
    pub(crate) fn of_what_comes() -> Self {
        Self { earlier: Earlier::of_now(), ..Self::default() }
    }

    /// Kills all current processes, and reports each that it cannot. Returns how long to wait.
    pub(crate) fn round(&mut self, command: Pid) -> Duration {
        for id in kernel::signal(command, Signal::KILL, &self.earlier) {
            if self.spared.insert(id.as_raw_pid()) {
                say::line(format_args!(
                    "process {id} ({}) must end, but belongs to another user, so we cannot kill it: end it by hand \
                     (sudo kill {id}); this run waits for that",
                    kernel::name_of(id)
                ));
            }
        }
        self.rounds += 1;
        // A killed process is gone in about a millisecond, unless it waits for a broken disk.
        Duration::from_millis(u64::from(self.rounds.clamp(1, 50)))
    }

    /// Kills all processes below us, until none is left: those of a killed supervisor are our children
    /// now. Cancel safe: the next call continues.
    pub(crate) async fn until_none_is_left(&mut self, supervisor: Pid) {
        while kernel::are_left_after_reaping(&self.earlier) {
            tokio::time::sleep(self.round(supervisor)).await;
        }
    }
}

/// Reaps all children that have ended, and reports stops and continuations. True if none is left.
pub(super) fn reap(command: Pid, mut changed: impl FnMut(Pid, WaitStatus)) -> bool {
    let all = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
    reap_with(all, &mut changed) && !kernel::is_left(command)
}

fn reap_with(options: WaitOptions, changed: &mut dyn FnMut(Pid, WaitStatus)) -> bool {
    loop {
        match wait(options) {
            Ok(Some((id, status))) => changed(id, status),
            Ok(None) => return false,
            Err(Errno::INTR) => {}
            Err(_) => return true,
        }
    }
}
