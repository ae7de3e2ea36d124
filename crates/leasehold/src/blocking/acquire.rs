//! The request for a lock, for callers that block.

use std::marker::PhantomData;
use std::time::Duration;

use super::guard::Guard;
use super::wait;
use crate::lock::GuardKind;
use crate::{Backoff, Drift, LockError, WaitStatus};

/// A request for a lock. It does nothing until [`wait`](Self::wait) is called. `G` is the type of
/// the guard.
///
/// ```
/// use leasehold::blocking::Locks;
/// use std::time::Duration;
///
/// let request = Locks::in_memory()?.mutex("invoice:42").lock();
/// let guard = request.within(Duration::from_secs(5)).on_wait(|it| println!("{}", it.held_by)).wait()?;
/// # drop(guard);
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a request does nothing until it is waited for"]
pub struct Acquire<G = Guard>(crate::Acquire, PhantomData<fn() -> G>);

impl<G> Acquire<G> {
    pub(super) fn new<Async>(request: crate::Acquire<Async>) -> Self {
        Self(request.untyped(), PhantomData)
    }

    /// The same request for a plain [`Guard`], for code that acquires locks of all kinds.
    pub fn untyped(self) -> Acquire {
        Acquire(self.0, PhantomData)
    }

    /// As [`leasehold::Acquire::within`](crate::Acquire::within).
    #[doc(alias = "timeout")]
    pub fn within(self, limit: Duration) -> Self {
        Self(self.0.within(limit), PhantomData)
    }

    /// As [`leasehold::Acquire::outage_limit`](crate::Acquire::outage_limit).
    pub fn outage_limit(self, limit: Duration) -> Self {
        Self(self.0.outage_limit(limit), PhantomData)
    }

    /// As [`leasehold::Acquire::retries`](crate::Acquire::retries): such a request polls.
    #[doc(alias = "retryCount")]
    #[doc(alias = "tries")]
    pub fn retries(self, count: u32) -> Self {
        Self(self.0.retries(count), PhantomData)
    }

    /// As [`leasehold::Acquire::drift`](crate::Acquire::drift).
    #[doc(alias = "driftFactor")]
    pub fn drift(self, drift: Drift) -> Self {
        Self(self.0.drift(drift), PhantomData)
    }

    /// As [`leasehold::Acquire::queue_limit`](crate::Acquire::queue_limit).
    pub fn queue_limit(self, waiters: u64) -> Self {
        Self(self.0.queue_limit(waiters), PhantomData)
    }

    /// As [`leasehold::Acquire::backoff`](crate::Acquire::backoff).
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self(self.0.backoff(backoff), PhantomData)
    }

    /// As [`leasehold::Acquire::on_wait`](crate::Acquire::on_wait). The function is called on the
    /// waiting thread.
    pub fn on_wait(self, tell: impl Fn(&WaitStatus) + Send + Sync + 'static) -> Self {
        Self(self.0.on_wait(tell), PhantomData)
    }

    /// Blocks until the lock is acquired.
    ///
    /// # Errors
    ///
    /// [`LockError`]: the lock was not free within the limit, the store did not answer or refuses,
    /// or the request is invalid.
    pub fn wait(self) -> Result<G, LockError>
    where
        G: GuardKind<Guard>,
    {
        wait(self.0).map(Guard).map(G::of)
    }
}
