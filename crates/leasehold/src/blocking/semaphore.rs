//! A semaphore: a limited number of permits, for callers that block.

use super::acquire::Acquire;
use super::guard::{Guard, SemaphorePermit};
use super::{lock_settings, wait};
use crate::{InspectError, LockError};

/// A number of permits, each with one holder at a time, as
/// [`leasehold::Semaphore`](crate::Semaphore): it describes what to acquire. Making and cloning it
/// does no I/O. All users of a semaphore must name the same number.
///
/// ```
/// use leasehold::blocking::Locks;
///
/// let gpus = Locks::in_memory()?.semaphore("gpus", 4);
/// let permit = gpus.acquire().wait()?;
/// assert_eq!(gpus.available()?, 3);
/// # drop(permit);
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a description takes nothing: call acquire() or try_acquire()"]
pub struct Semaphore(pub(super) crate::Semaphore);

impl Semaphore {
    lock_settings!();

    /// A request for a permit; [`Acquire::wait`] waits for it, as long as it takes.
    pub fn acquire(&self) -> Acquire<SemaphorePermit> {
        Acquire::new(self.0.acquire())
    }

    /// A request for several permits together. Waiting for it returns a [`Misuse`](crate::Misuse)
    /// if the number is zero or greater than the number of all permits.
    pub fn acquire_many(&self, permits: u32) -> Acquire<SemaphorePermit> {
        Acquire::new(self.0.acquire_many(permits))
    }

    /// Acquires a permit if one is free and nobody waits for one; `None` otherwise. Blocks for one
    /// answer of the store.
    ///
    /// # Errors
    ///
    /// [`LockError`] if the store did not answer within the outage limit or refuses, or the request
    /// is invalid. That no permit is free is not an error.
    pub fn try_acquire(&self) -> Result<Option<SemaphorePermit>, LockError> {
        self.try_acquire_many(1)
    }

    /// Acquires several permits together if they are free and nobody waits for any; `None`
    /// otherwise. Blocks for one answer of the store.
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`try_acquire`](Self::try_acquire); a [`Misuse`](crate::Misuse) if the
    /// number is zero or greater than the number of all permits.
    pub fn try_acquire_many(&self, permits: u32) -> Result<Option<SemaphorePermit>, LockError> {
        Ok(wait(self.0.try_acquire_many(permits))?.map(|guard| SemaphorePermit(Guard(guard.into()))))
    }

    /// Returns how many permits nobody holds: of several keys, the number at the key that has the
    /// fewest. The answer may change a moment later, and waiters go first.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses, or the name cannot be a key.
    #[doc(alias = "available_permits")]
    pub fn available(&self) -> Result<u32, InspectError> {
        wait(self.0.available())
    }
}
