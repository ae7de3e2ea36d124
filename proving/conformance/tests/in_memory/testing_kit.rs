//! The kit for tests of programs that use locks: each of its methods has a visible effect, and time
//! stands still unless it is moved.

mod out_of_reach;
mod paused;
mod taken_away;
mod time;

use std::time::Duration;

use leasehold::Guard;
use leasehold::testing::World;
use tokio::runtime::Builder;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The default TTL.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// A world, and the guard of a lock that its process holds.
pub(crate) async fn holding() -> (World, Guard) {
    let world = World::new();
    let guard = world.locks().mutex("k").lock().await.unwrap();
    (world, guard)
}

/// Runs a test on a single-threaded runtime and on a multi-threaded one. They have no timers, so
/// nothing can sleep.
pub(crate) fn on_each_runtime(test: impl AsyncFn()) {
    Builder::new_current_thread().build().unwrap().block_on(test());
    Builder::new_multi_thread().worker_threads(3).build().unwrap().block_on(test());
}

/// The same, with a world of its own on each.
pub(crate) fn in_a_world(test: impl AsyncFn(World)) {
    on_each_runtime(async || test(World::new()).await);
}
