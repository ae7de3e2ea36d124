//! A lock with one holder at a time, for callers that block.

use std::time::Duration;

use super::acquire::Acquire;
use super::guard::Guard;
use super::{lock_settings, wait};
use crate::{Backoff, InspectError, LockError};

/// A lock with one holder at a time, as [`leasehold::Mutex`](crate::Mutex): it describes what to
/// acquire. Making and cloning it does no I/O.
///
/// ```
/// use leasehold::blocking::Locks;
///
/// let locks = Locks::in_memory()?;
/// let guard = locks.mutex("invoice:42").lock().wait()?;
/// assert!(locks.mutex("invoice:42").is_locked()?);
/// guard.release()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a description takes nothing: call lock() or try_lock()"]
pub struct Mutex(pub(super) crate::Mutex);

impl Mutex {
    lock_settings!();

    /// A request for the lock; [`Acquire::wait`] waits for it, as long as it takes.
    pub fn lock(&self) -> Acquire {
        Acquire::new(self.0.lock())
    }

    /// Acquires the lock if it is free; `None` if somebody else holds it. Blocks for one answer of
    /// the store.
    ///
    /// # Errors
    ///
    /// [`LockError`] if the store did not answer within the outage limit or refuses, or the request
    /// is invalid. A lock that is held is not an error.
    pub fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        Ok(wait(self.0.try_lock())?.map(Guard))
    }

    /// Returns true if somebody holds the lock, or one of its keys, in this or another program. The
    /// answer may change a moment later.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses, or the name cannot be a key.
    pub fn is_locked(&self) -> Result<bool, InspectError> {
        wait(self.0.is_locked())
    }

    /// Waits until nobody holds the lock, without acquiring it and without joining its queue.
    pub fn unlocked(&self) -> Unlocked {
        Unlocked(self.0.unlocked())
    }
}

/// A wait until a lock is free, as [`leasehold::Unlocked`](crate::Unlocked). It does nothing until
/// [`wait`](Self::wait) is called.
///
/// ```
/// use leasehold::blocking::Locks;
/// use std::time::Duration;
///
/// let locks = Locks::in_memory()?;
/// let migration = locks.mutex("migration").lock().wait()?;
/// assert!(locks.mutex("migration").unlocked().within(Duration::from_millis(20)).wait().is_err());
/// migration.release()?;
/// locks.mutex("migration").unlocked().wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a wait does nothing until it is waited for"]
pub struct Unlocked(crate::Unlocked);

impl Unlocked {
    /// Limits the wait; zero checks once. Without a limit, it waits for as long as it takes.
    pub fn within(self, limit: Duration) -> Self {
        Self(self.0.within(limit))
    }

    /// Limits the wait for a store that does not answer, for this wait instead of
    /// [all](crate::LocksBuilder::outage_limit).
    pub fn outage_limit(self, limit: Duration) -> Self {
        Self(self.0.outage_limit(limit))
    }

    /// Sets the pauses between checks.
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self(self.0.backoff(backoff))
    }

    /// Blocks until nobody holds the lock.
    ///
    /// # Errors
    ///
    /// [`LockError`]; on a timeout it says who holds the lock.
    pub fn wait(self) -> Result<(), LockError> {
        wait(self.0)
    }
}
