//! The request that a caller waits for.

use std::time::Duration;

use super::guard::Guard;
use super::wait;
use crate::{Backoff, LockError, Waiting};

/// A request for a lock. It does nothing until it is waited for.
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is waited for"]
pub struct Acquire(pub(super) crate::Acquire);

impl Acquire {
    /// Waits for a holder no longer than this; zero is one try, whose error says who holds the lock. Without it, the request
    /// waits as long as it takes.
    ///
    /// For a store that does not answer it waits no longer than the outage limit in any case.
    pub fn within(self, limit: Duration) -> Self {
        Self(self.0.within(limit))
    }

    /// Does not join a line in which so many wait already: the request then ends at once with [`LockError::LineFull`].
    pub fn line_limit(self, waiters: u64) -> Self {
        Self(self.0.line_limit(waiters))
    }

    /// The rests between asks, where the store has no line.
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self(self.0.backoff(backoff))
    }

    /// Calls this each time the store has refused and the request goes on waiting: to say for whom. It is called on the thread that
    /// waits.
    pub fn on_wait(self, tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        Self(self.0.on_wait(tell))
    }

    /// Blocks until the lock is had.
    ///
    /// # Errors
    ///
    /// [`LockError`]: not free within the limit, a store that did not answer or refuses, or a request that makes no sense.
    pub fn wait(self) -> Result<Guard, LockError> {
        wait(self.0.into_future()).map(Guard)
    }
}
