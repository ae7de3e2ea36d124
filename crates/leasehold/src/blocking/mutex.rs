//! A lock that one holder has at a time.

use std::time::Duration;

use super::acquire::Acquire;
use super::guard::Guard;
use super::wait;
use crate::{LockError, Renewal};

/// A lock that one holder has at a time, as [`leasehold::Mutex`](crate::Mutex): the description of what to take. Making and cloning
/// it does no I/O.
#[derive(Clone, Debug)]
#[must_use = "a description takes nothing: call lock() or try_lock()"]
pub struct Mutex(pub(super) crate::Mutex);

impl Mutex {
    /// How long the lease lasts without renewal: how long a crashed holder keeps the others out. 10 ms to a year.
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

    /// A request for the lock; [`Acquire::wait`] waits for it, as long as it takes.
    pub fn lock(&self) -> Acquire {
        Acquire(self.0.lock())
    }

    /// Takes the lock if it is free; `None` when somebody else holds it. Blocks for an answer of the store.
    ///
    /// # Errors
    ///
    /// [`LockError`], when the store did not answer within the outage limit or refuses, or the request makes no sense. That
    /// somebody holds the lock is no error.
    pub fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        Ok(wait(self.0.try_lock())?.map(Guard))
    }
}
