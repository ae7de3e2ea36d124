//! The kit for users' tests: each method has a visible effect, and time stands still unless moved.

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

/// Runs a test on a single-threaded runtime and on a multi-threaded one, with a world of its own on
/// each. They have no timers, so nothing can sleep.
pub(crate) fn in_a_world(test: impl AsyncFn(World)) {
    let begin = async || test(World::new()).await;
    Builder::new_current_thread().build().unwrap().block_on(begin());
    Builder::new_multi_thread().worker_threads(3).build().unwrap().block_on(begin());
}

/// The same, with the guard of a lock that its process holds.
pub(crate) fn while_holding(test: impl AsyncFn(World, Guard)) {
    in_a_world(async |world| {
        let guard = world.locks().mutex("k").lock().await.unwrap();
        test(world, guard).await;
    });
}
