//! Linux counts how often each thread sleeps.

use nix::sys::resource::{UsageWho, getrusage};

/// How often the current thread has slept so far: for a disk, a lock or a timer, and not because
/// another thread used its processor. `None` if that is unknown.
pub(crate) fn sleeps() -> Option<i64> {
    getrusage(UsageWho::RUSAGE_THREAD).ok().map(|usage| usage.voluntary_context_switches())
}
