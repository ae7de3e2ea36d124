//! The same API without async, for programs and threads that block.
//!
//! A separate thread keeps the locks. So this API works outside an async runtime, and also inside
//! one: in `spawn_blocking`, in a callback, on a runtime with one thread. There it blocks that
//! thread, as any blocking call does.
//!
//! ```
//! use std::time::Duration;
//! use leasehold::blocking::Locks;
//!
//! let locks = Locks::in_memory()?;
//! let guard = locks.mutex("invoice:42").lock().within(Duration::from_secs(5)).wait()?;
//! println!("write with fence {}", guard.fence());
//! guard.release()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A blocking call cannot be cancelled, so limit the wait ([`Acquire::within`]) where somebody may
//! want to cancel. There is no `hold` here, because blocking work cannot be stopped when the lock
//! is lost. Such work must check ([`Guard::is_held`]) before each step that matters, and the fence
//! refuses a write that comes too late.

mod acquire;
mod election;
mod every;
mod guard;
mod job_guard;
mod locks;
mod mutex;
mod once;
mod rw_lock;
mod semaphore;
mod settings;
mod watch;

pub use acquire::Acquire;
pub use election::{Candidate, Election, Leaders};
pub use every::Every;
pub use guard::{Guard, RwLockReadGuard, RwLockWriteGuard, SemaphorePermit};
pub use job_guard::JobGuard;
pub use locks::Locks;
pub use mutex::{Mutex, Unlocked};
pub use once::Once;
pub use rw_lock::RwLock;
pub use semaphore::Semaphore;
pub use watch::{Events, Watch};

use crate::runtime::block_on;

/// Blocks this thread until `future` is ready.
///
/// The future is served by the locks' own thread. Within a task, tokio counts a future's operations
/// and makes it yield to other tasks after a while. A thread that blocks has no other tasks, so
/// that yield would never end.
fn wait<T>(future: impl Future<Output = T>) -> T {
    block_on(tokio::task::unconstrained(future))
}
