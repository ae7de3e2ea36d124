//! A lock that one holder has at a time.

use std::time::Duration;

use super::acquire::Acquire;
use super::guard::Guard;
use super::wait;
use crate::{Backoff, InspectError, LockError, Renewal};

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

    /// Whether somebody holds the lock, or one of its keys; also another program. A moment later it may be different.
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer or refuses, or the name cannot be a key.
    pub fn is_locked(&self) -> Result<bool, InspectError> {
        wait(self.0.is_locked())
    }

    /// A wait until nobody holds the lock, which neither takes it nor stands in its line.
    pub fn unlocked(&self) -> Unlocked {
        Unlocked(self.0.unlocked())
    }
}

/// A wait until a lock is free, as [`leasehold::Unlocked`](crate::Unlocked). It does nothing until it is waited for.
#[derive(Clone, Debug)]
#[must_use = "a wait does nothing until it is waited for"]
pub struct Unlocked(crate::Unlocked);

impl Unlocked {
    /// Waits no longer than this; zero is one look. Without it, it waits as long as it takes.
    pub fn within(self, limit: Duration) -> Self {
        Self(self.0.within(limit))
    }

    /// The rests between looks.
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self(self.0.backoff(backoff))
    }

    /// Blocks until nobody holds the lock.
    ///
    /// # Errors
    ///
    /// [`LockError`]; when the time is up it says who holds the lock.
    pub fn wait(self) -> Result<(), LockError> {
        wait(self.0.into_future())
    }
}
