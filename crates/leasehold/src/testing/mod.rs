//! A world for testing programs that use [`Locks`]: the test moves its time by hand, and causes
//! faults on demand. It needs the feature `testing`, for `[dev-dependencies]`.
//!
//! A [`World`] has one store, in memory, and as many [processes](Process) as a test needs, which
//! have their [`Locks`] in it as they would on a server. Time stops until [`World::advance`] moves
//! it on. Then leases are renewed or end, and waiters are notified or give up, each at its time.
//! Nothing sleeps, so an hour takes a moment, and is the same in every run.
//!
//! [`manual::testing`](crate::manual::testing) has the tests that a program needs most.
//!
//! # Causing faults
//!
//! | fault | how |
//! |---|---|
//! | somebody else has the lock | [`World::locks`] once more, and acquire it there |
//! | the lease is deleted | [`World::lose`]: the next renewal notices, and until then the guard considers itself valid |
//! | an operator breaks the lease | [`World::break_lease`]: the guard is lost at once |
//! | the store restarts and has forgotten everything | [`World::forget`] |
//! | the process sleeps past the end of its lease | [`Process::pause`], [`World::advance`], [`Process::resume`] |
//! | the process is killed | [`Process::pause`] without `resume`: nothing is released, and the lease expires |
//! | the store is slow | [`Process::outage`] or [`World::outage`] with [`Outage::Slow`] |
//! | the store does not answer | [`Process::outage`] for one process, [`World::outage`] for all; then [`World::heal`] |
//!
//! # Time
//!
//! The world's clock applies to leases, fences, time limits of waits, and
//! [`Guard::held_for`](crate::Guard::held_for). If tokio's clock is paused when the world is made
//! (`#[tokio::test(start_paused = true)]`), both are one clock: a job that sleeps by
//! `tokio::time::sleep` sees its loss in time, and time moves on by itself while the test waits.
//!
//! ```
//! # use std::time::Duration;
//! # use leasehold::{HoldError, testing::World};
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
//! let world = World::new();
//! let work = |_| tokio::time::sleep(Duration::from_secs(600));
//! let job = tokio::spawn(world.locks().mutex("job").lock().hold(work));
//! world.until_held("job").await;
//! world.lose("job");
//! assert!(matches!(job.await?, Err(HoldError::Lost(_))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! Otherwise the test's own clock is not affected: a `tokio::time::sleep` really sleeps.
//!
//! With separate clocks, waiting for a lock needs time, and no time passes while the test itself
//! waits: a `lock().await` whose lock is not free hangs. Run it in a separate task, or with
//! [`World::within`], which lets as much time pass as it needs.
//!
//! When `advance` resolves, the locks have done everything that was due. On a runtime with one
//! thread, so have the tasks that were notified, up to their next wait. On a runtime with several
//! threads these tasks are about to run: await them, or their effects ([`World::until`]). There, a
//! busy machine may delay a thread so long that time moves on without it. A test that must be the
//! same in every run needs one thread, which is the default of `#[tokio::test]`.
//!
//! # What this does not promise
//!
//! The store is the memory store: it has the semantics of all stores, but not the peculiarities of
//! any. The effects of a server's failover show only on that server. In a process that is paused
//! here, only the locks stop: the program's own code continues, so that a test can see what it does
//! with a guard that it had before.

mod link;
mod process;
mod world;
mod world_runtime;
mod world_state;

pub use process::Process;
pub use world::World;
pub use world_state::Outage;

#[cfg(doc)]
use crate::Locks;
