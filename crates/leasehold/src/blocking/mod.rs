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

/// The settings of a lock.
macro_rules! lock_settings {
    () => {
        /// As [`leasehold::Mutex::ttl`](crate::Mutex::ttl).
        pub fn ttl(self, ttl: std::time::Duration) -> Self {
            Self(self.0.ttl(ttl))
        }

        /// As [`leasehold::Mutex::label`](crate::Mutex::label).
        pub fn label(self, label: &str) -> Self {
            Self(self.0.label(label))
        }

        /// As [`leasehold::Mutex::renewal`](crate::Mutex::renewal). Another thread renews, so the
        /// program may block meanwhile.
        pub fn renewal(self, renewal: crate::Renewal) -> Self {
            Self(self.0.renewal(renewal))
        }
    };
}

use lock_settings;

/// The settings of a job.
macro_rules! job_settings {
    () => {
        /// As [`leasehold::Once::ttl`](crate::Once::ttl).
        pub fn ttl(self, ttl: std::time::Duration) -> Self {
            Self(self.0.ttl(ttl))
        }

        /// As [`leasehold::Once::label`](crate::Once::label).
        pub fn label(self, label: &str) -> Self {
            Self(self.0.label(label))
        }

        /// As [`leasehold::Once::at_most`](crate::Once::at_most), but blocking work is not stopped: it
        /// must check whether the lock is still held.
        pub fn at_most(self, limit: std::time::Duration) -> Self {
            Self(self.0.at_most(limit))
        }
    };
}
use job_settings;
