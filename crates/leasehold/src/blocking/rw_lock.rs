//! A lock that is shared by readers and exclusive for a writer, for callers that block.

use std::time::Duration;

use super::acquire::Acquire;
use super::guard::{Guard, RwLockReadGuard, RwLockWriteGuard};
use super::wait;
use crate::{InspectError, LockError, Renewal};

/// A lock that is shared by readers and exclusive for a writer, as
/// [`leasehold::RwLock`](crate::RwLock): it describes what to acquire. Making and cloning it does
/// no I/O.
///
/// ```
/// use leasehold::blocking::Locks;
///
/// let lock = Locks::in_memory()?.rw_lock("doc:7");
/// let (one, other) = (lock.read().wait()?, lock.read().wait()?);
/// assert!(lock.try_write()?.is_none());
/// # drop((one, other));
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a description takes nothing: call read() or write()"]
pub struct RwLock(pub(super) crate::RwLock);

impl RwLock {
    /// Sets the TTL: how long a lease lasts without renewal, and so how long a crashed holder keeps
    /// others out. 10 ms to a year.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// Sets what the holder says about itself to observers: printable text of up to 256 bytes.
    pub fn label(self, label: &str) -> Self {
        Self(self.0.label(label))
    }

    /// Sets whether and for how long the lease is renewed while the guard exists. The program may
    /// block meanwhile: another thread renews.
    pub fn renewal(self, renewal: Renewal) -> Self {
        Self(self.0.renewal(renewal))
    }

    /// A request for shared access; [`Acquire::wait`] waits for it, for as long as it takes.
    pub fn read(&self) -> Acquire<RwLockReadGuard> {
        Acquire::new(self.0.read())
    }

    /// Acquires shared access if no writer holds the lock or waits for it; `None` otherwise. Blocks
    /// for one answer of the store.
    ///
    /// # Errors
    ///
    /// [`LockError`] if the store did not answer within the outage limit or refuses, or the request
    /// is invalid. A writer that holds the lock or waits for it is not an error.
    pub fn try_read(&self) -> Result<Option<RwLockReadGuard>, LockError> {
        Ok(wait(self.0.try_read())?.map(|guard| RwLockReadGuard(Guard(guard.into()))))
    }

    /// A request for exclusive access; [`Acquire::wait`] waits for it, for as long as it takes.
    pub fn write(&self) -> Acquire<RwLockWriteGuard> {
        Acquire::new(self.0.write())
    }

    /// Acquires exclusive access if nobody holds the lock; `None` if a reader or a writer does.
    /// Blocks for one answer of the store.
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`try_read`](Self::try_read).
    pub fn try_write(&self) -> Result<Option<RwLockWriteGuard>, LockError> {
        Ok(wait(self.0.try_write())?.map(|guard| RwLockWriteGuard(Guard(guard.into()))))
    }

    /// Returns whether a reader or a writer holds the lock, or one of its keys, in this or another
    /// program. The answer may change a moment later.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses, or the name cannot be a key.
    pub fn is_locked(&self) -> Result<bool, InspectError> {
        wait(self.0.is_locked())
    }
}
