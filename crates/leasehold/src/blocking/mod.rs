//! The same nouns without async, for programs and threads that block.
//!
//! The locks are kept on a thread of their own, so this works outside of an async runtime, and inside of one too: in
//! `spawn_blocking`, in a callback, on a runtime of one thread. There it blocks that thread, as anything that blocks does.
//!
//! ```
//! use std::time::Duration;
//! use leasehold::blocking::Locks;
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = Locks::in_memory()?;
//! let guard = locks.mutex("invoice:42").lock().within(Duration::from_secs(5)).wait()?;
//! println!("write with fence {}", guard.fence());
//! guard.release()?;
//! # Ok(())
//! # }
//! # example().unwrap();
//! ```
//!
//! A call that waits cannot be cancelled, so bound the wait ([`Acquire::within`]) where somebody may want to. There is no `hold` here: work
//! that blocks cannot be stopped when the lock is lost. It has to look ([`Guard::is_held`]) before whatever counts, and the fence
//! refuses what comes too late.

mod acquire;
mod doing;
mod election;
mod events;
mod every;
mod guard;
mod locks;
mod mutex;
mod once;
mod rw_lock;
mod semaphore;
mod survey;

pub use acquire::Acquire;
pub use doing::Doing;
pub use election::{Candidate, Election, Leaders};
pub use events::Events;
pub use every::Every;
pub use guard::Guard;
pub use locks::Locks;
pub use mutex::{Mutex, Unlocked};
pub use once::Once;
pub use rw_lock::RwLock;
pub use semaphore::Semaphore;
pub use survey::Survey;

/// Waits for `future` on this thread.
///
/// What it waits for happens on the locks' own thread. Within a task, tokio counts what a future does and makes it pause for the
/// others after a while; there are no others on a thread that blocks, and the pause would never end.
fn wait<T>(future: impl Future<Output = T>) -> T {
    pollster::block_on(tokio::task::unconstrained(future))
}
