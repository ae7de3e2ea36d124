//! A world to test programs in that use [`Locks`]: its time is moved by hand, and what can go wrong with locks goes wrong on
//! demand. Behind the feature `testing`, for `[dev-dependencies]`.
//!
//! A [`World`] has one store, in memory, and as many [processes](Process) as a test needs, which have their [`Locks`] there as they would
//! on a server. Time stands still until [`World::advance`] moves it on: then leases are renewed or end, and waiters are told or give
//! up, each at its time. Nothing sleeps, so an hour takes a moment, and is the same in every run.
//!
//! A job that stops when its lock is lost:
//!
//! ```
//! use std::time::Duration;
//! use leasehold::{HoldError, Locks, testing::World};
//!
//! /// What is under test: works until it loses its lock.
//! async fn job(locks: Locks) -> Result<(), HoldError> {
//!     locks.mutex("job").lock().hold(async |_| std::future::pending().await).await
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let world = World::new();
//! let running = tokio::spawn(job(world.locks()));
//! world.until_held("job").await;
//!
//! world.advance(Duration::from_secs(3600)).await;      // renewed all the time
//! assert!(!running.is_finished());
//!
//! world.lose("job");                                  // somebody deletes it
//! world.advance(Duration::from_secs(30)).await;       // the next renewal tells
//! assert!(matches!(running.await?, Err(HoldError::Lost(_))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What goes wrong
//!
//! | what | how |
//! |---|---|
//! | somebody else has the lock | [`World::locks`] once more, and take it there |
//! | the lease is deleted | [`World::lose`]: the next renewal tells, and until then the guard believes |
//! | an operator breaks the lease | [`World::break_lease`]: the guard is lost at once |
//! | the store restarts and has forgotten everything | [`World::forget`] |
//! | the process oversleeps its lease | [`Process::pause`], [`World::advance`], [`Process::resume`] |
//! | the process is killed | [`Process::pause`] for good: nothing is released, and the lease ends by itself |
//! | the store does not answer | [`Process::outage`] for one process, [`World::outage`] for all; then [`World::heal`] |
//!
//! # Time
//!
//! What is of the world goes by its clock: leases, fences, limits of waits, what [`Guard::held_for`](crate::Guard::held_for) says. The clock of the test goes on as
//! ever: a `tokio::time::sleep` in the program under test really sleeps, unless tokio's time is paused too, and then the two clocks still know
//! nothing of each other.
//!
//! Who waits for a lock needs time, and there is none while the test waits for nothing else: a `lock().await` whose lock is not free hangs. Let it wait in a
//! task of its own, or run it by [`World::within`], which lets as much time pass as it needs.
//!
//! When `advance` resolves, the locks have done all that was due. On a runtime of one thread, so have the tasks that were told of it, up to where they wait for
//! something else; on a runtime of several they are about to: await them, or what they do ([`World::until`]). There, a thread that a busy machine keeps from
//! the processor may find that time went on without it; what is to be the same in every run wants one thread, which `#[tokio::test]` has.
//!
//! # What this does not promise
//!
//! It is the memory store: the semantics of all stores, and the ways of none. How a server's failover shows is seen only there. A
//! process that is paused here is a process whose locks are: the program's own code runs on, so that a test can see what it does with a guard
//! that it had before.

mod hand;
mod link;
mod process;
mod stage;
mod watched;
mod world;

pub use link::Outage;
pub use process::Process;
pub use world::World;

#[cfg(doc)]
use crate::Locks;
