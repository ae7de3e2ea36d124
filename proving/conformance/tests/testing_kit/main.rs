//! The kit for tests of programs that use locks: each of its verbs shows, and time stands still
//! unless it is moved.

mod out_of_reach;
mod taken_away;
mod time;

use std::time::Duration;

use tokio::runtime::Builder;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// What a lease lasts if nothing is said.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// Runs a test on a runtime of one thread and on one of several. They have no timers, so that
/// nothing can sleep.
pub(crate) fn on_each_runtime(test: impl AsyncFn()) {
    Builder::new_current_thread().build().unwrap().block_on(test());
    Builder::new_multi_thread().worker_threads(3).build().unwrap().block_on(test());
}
