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

    /// Limits the wait for a holder; zero is one try, whose error says who holds the lock. Without
    /// a limit, the request waits for as long as it takes.
    ///
    /// The wait for a store that does not answer never exceeds the [outage
    /// limit](Self::outage_limit).
    #[doc(alias = "timeout")]
    pub fn within(self, limit: Duration) -> Self {
        Self(self.0.within(limit), PhantomData)
    }

    /// Limits the wait for a store that does not answer, for this request instead of
    /// [all](crate::LocksBuilder::outage_limit).
    pub fn outage_limit(self, limit: Duration) -> Self {
        Self(self.0.outage_limit(limit), PhantomData)
    }

    /// Limits how often the store is asked again after somebody else had the lock. Such a request
    /// polls, as [`leasehold::Acquire::retries`](crate::Acquire::retries) says.
    #[doc(alias = "retryCount")]
    #[doc(alias = "tries")]
    pub fn retries(self, count: u32) -> Self {
        Self(self.0.retries(count), PhantomData)
    }

    /// Sets how much earlier than the store the holder stops relying on its lease, for this request
    /// and its guard instead of [all](crate::LocksBuilder::drift). With less than the store needs,
    /// two guards of a key may consider themselves valid at once.
    #[doc(alias = "driftFactor")]
    pub fn drift(self, drift: Drift) -> Self {
        Self(self.0.drift(drift), PhantomData)
    }

    /// Limits the queue: if that many requests wait already, this one ends at once with
    /// [`LockError::QueueFull`].
    pub fn queue_limit(self, waiters: u64) -> Self {
        Self(self.0.queue_limit(waiters), PhantomData)
    }

    /// Sets the pauses between retries, for stores without a queue and for requests with a number
    /// of [retries](Self::retries).
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self(self.0.backoff(backoff), PhantomData)
    }

    /// Calls this function each time the store has refused and the request keeps waiting, for
    /// example to print who holds the lock. It is called on the waiting thread.
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
