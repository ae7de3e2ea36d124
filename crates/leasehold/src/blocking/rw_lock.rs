//! A lock that is shared by readers and exclusive for a writer, for callers that block.

use super::acquire::Acquire;
use super::guard::{Guard, RwLockReadGuard, RwLockWriteGuard};
use super::{lock_settings, wait};
use crate::{InspectError, LockError};

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
    lock_settings!();

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
