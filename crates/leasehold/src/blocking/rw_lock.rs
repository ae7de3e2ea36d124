//! A lock that readers hold together and a writer alone.

use std::time::Duration;

use super::acquire::Acquire;
use super::guard::Guard;
use super::wait;
use crate::{LockError, Renewal};

/// A lock that readers hold together and a writer alone, as [`leasehold::RwLock`](crate::RwLock): the description of what to take.
/// Making and cloning it does no I/O.
#[derive(Clone, Debug)]
#[must_use = "a description takes nothing: call read() or write()"]
pub struct RwLock(pub(super) crate::RwLock);

impl RwLock {
    /// How long a lease lasts without renewal: how long a crashed holder keeps the others out. 10 ms to a year.
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

    /// A request to hold the lock together with the other readers; [`Acquire::wait`] waits for it, as long as it takes.
    pub fn read(&self) -> Acquire {
        Acquire(self.0.read())
    }

    /// Takes the lock together with the other readers, if no writer holds it or waits for it; `None` otherwise. Blocks for an answer
    /// of the store.
    ///
    /// # Errors
    ///
    /// [`LockError`], when the store did not answer within the outage limit or refuses, or the request makes no sense. That a
    /// writer holds the lock, or waits for it, is no error.
    pub fn try_read(&self) -> Result<Option<Guard>, LockError> {
        Ok(wait(self.0.try_read())?.map(Guard))
    }

    /// A request to hold the lock alone; [`Acquire::wait`] waits for it, as long as it takes.
    pub fn write(&self) -> Acquire {
        Acquire(self.0.write())
    }

    /// Takes the lock alone if nobody holds it; `None` when a reader or a writer does. Blocks for an answer of the store.
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`try_read`](Self::try_read).
    pub fn try_write(&self) -> Result<Option<Guard>, LockError> {
        Ok(wait(self.0.try_write())?.map(Guard))
    }
}
