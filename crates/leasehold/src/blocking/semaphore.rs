//! Permits of which there are so many.

use std::time::Duration;

use super::acquire::Acquire;
use super::guard::Guard;
use super::wait;
use crate::{LockError, Renewal};

/// A number of permits, each of which one holder has at a time, as [`leasehold::Semaphore`](crate::Semaphore): the description of what to
/// take. Making and cloning it does no I/O. All who use a semaphore must name the same number.
#[derive(Clone, Debug)]
#[must_use = "a description takes nothing: call acquire() or try_acquire()"]
pub struct Semaphore(pub(super) crate::Semaphore);

impl Semaphore {
    /// How long a lease lasts without renewal: how long a crashed holder keeps its permits from the others. 10 ms to a year.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// What the holder says of itself to those who ask: printable text of up to 256 bytes.
    pub fn label(self, label: &str) -> Self {
        Self(self.0.label(label))
    }

    /// Whether and for how long the lease is renewed while the guard lives. The program may block meanwhile: another thread renews.
    pub fn renewal(self, renewal: Renewal) -> Self {
        Self(self.0.renewal(renewal))
    }

    /// A request for a permit; [`Acquire::wait`] waits for it, as long as it takes.
    pub fn acquire(&self) -> Acquire {
        Acquire(self.0.acquire())
    }

    /// A request for so many permits together. Waiting for it gives a [`Misuse`](crate::Misuse) where that is none or more than there
    /// are.
    pub fn acquire_many(&self, permits: u32) -> Acquire {
        Acquire(self.0.acquire_many(permits))
    }

    /// Takes a permit if one is free and nobody waits for it; `None` otherwise. Blocks for an answer of the store.
    ///
    /// # Errors
    ///
    /// [`LockError`], when the store did not answer within the outage limit or refuses, or the request makes no sense. That there
    /// is no permit left is no error.
    pub fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        self.try_acquire_many(1)
    }

    /// Takes so many permits together if they are free and nobody waits for any; `None` otherwise. Blocks for an answer of the store.
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`try_acquire`](Self::try_acquire); a [`Misuse`](crate::Misuse) where that is none or more than there are.
    pub fn try_acquire_many(&self, permits: u32) -> Result<Option<Guard>, LockError> {
        Ok(wait(self.0.try_acquire_many(permits))?.map(Guard))
    }
}
