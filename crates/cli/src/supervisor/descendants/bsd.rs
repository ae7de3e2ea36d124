//! The processes below us on macOS and FreeBSD: the command's process group. Processes that leave
//! that group are not found, and we do not inherit orphans.

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

pub(crate) const fn are_found() -> bool {
    true
}

pub(crate) fn adopt_orphans() -> rustix::io::Result<()> {
    Ok(())
}

/// The command's group has no process that was there before the command.
#[derive(Debug, Default)]
pub(super) struct Earlier;

impl Earlier {
    pub(super) fn of_now() -> Self {
        Self
    }
}

/// Sends a signal to the command's group. No process is known to refuse it.
pub(super) fn signal(command: Pid, signal: Signal, _: &Earlier) -> Vec<Pid> {
    let _ = kill_process_group(command, signal);
    Vec::new()
}

/// The number of processes that the command left; unknown.
pub(in super::super) fn count() -> i32 {
    0
}

/// Returns true if the command's group still has a process that is not our child.
pub(super) fn is_left(command: Pid) -> bool {
    test_kill_process_group(command) != Err(rustix::io::Errno::SRCH)
}

/// The name of a process; unknown.
pub(super) fn name_of(_: Pid) -> String {
    String::new()
}

/// If the supervisor was killed, nobody knows the command's group, so there is nothing to wait for.
pub(super) fn are_left_after_reaping(_: &Earlier) -> bool {
    false
}

/// Returns true if a process was started by us or by a descendant of ours; unknown.
pub(crate) fn is_below_us(_: Pid) -> bool {
    false
}
