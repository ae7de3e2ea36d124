//! The request for a lock, for async callers.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Backoff, BoxFuture, HolderInfo, Misuse};

use super::drive::{OnWait, Terms, acquire};
use super::guard::Guard;
use super::holding::Held;
use crate::error::{HoldError, LockError};
use crate::locks::Askers;

/// A request for a lock. It does nothing until it is awaited.
///
/// # Cancel safety
///
/// If the future is dropped at any point, the request is given up in the background: no lock is
/// left behind. If the store is unreachable, a lock may be left that expires with its TTL. A new
/// request starts from the beginning.
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is awaited"]
pub struct Acquire {
    /// Kept until the guard exists, because a request may outlive the locks that it came from.
    askers: Arc<Askers>,
    /// Boxed, because a future keeps what it was made from.
    terms: Result<Box<Terms>, Misuse>,
}

impl Acquire {
    pub(crate) fn new(askers: Arc<Askers>, terms: Result<Terms, Misuse>) -> Self {
        Self { askers, terms: terms.map(Box::new) }
    }

    /// Limits the wait for a holder; zero is one try, whose error says who holds the lock. Without
    /// a limit, the request waits for as long as it takes.
    ///
    /// The wait for a store that does not answer never exceeds the outage limit.
    pub fn within(mut self, limit: Duration) -> Self {
        if let Ok(terms) = &mut self.terms {
            terms.patience.within = Some(limit);
        }
        self
    }

    /// Limits the queue: if that many requests wait already, this one ends at once with
    /// [`LockError::LineFull`]. This is for services that reject work rather than let it pile up.
    /// Without it, the queue may grow without a limit.
    pub fn line_limit(mut self, waiters: u64) -> Self {
        if let Ok(terms) = &mut self.terms {
            terms.line_limit = Some(waiters);
        }
        self
    }

    /// Sets the pauses between retries, for stores without a queue.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        if let Ok(terms) = &mut self.terms {
            terms.patience.backoff = backoff;
        }
        self
    }

    /// Calls this function each time the store has refused and the request keeps waiting, for
    /// example to print who holds the lock. It is called between two requests to the store, so it
    /// must return soon and must not block. A single try never waits, and so never calls it.
    ///
    /// ```
    /// # async fn example(locks: leasehold::Locks) -> Result<(), leasehold::LockError> {
    /// let request = locks.mutex("deploy").lock();
    /// let guard = request.on_wait(|waiting| eprintln!("held by {}", waiting.held_by)).await?;
    /// # drop(guard); Ok(()) }
    /// ```
    pub fn on_wait(mut self, tell: impl Fn(&WaitStatus) + Send + Sync + 'static) -> Self {
        if let Ok(terms) = &mut self.terms {
            terms.on_wait = Some(OnWait(Arc::new(tell)));
        }
        self
    }

    /// Acquires the lock, runs `work` under it, and releases it. The work is stopped at an await
    /// when the lease is lost.
    ///
    /// What the work returns is never lost. If the store is unreachable for the release, the result
    /// is still a success: the work had the lock to its end, and the lease expires on its own.
    ///
    /// # Errors
    ///
    /// [`HoldError::NotTaken`] if the work did not start; [`HoldError::Lost`] if it was stopped;
    /// [`HoldError::LostUnnoticed`] if the release found that the lock had been lost before: that
    /// error carries what the work returned.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases the lock in the background.
    pub async fn hold<T, Work>(self, work: impl FnOnce(Held) -> Work) -> Result<T, HoldError<T>>
    where
        Work: Future<Output = T>,
    {
        let guard = self.await.map_err(HoldError::NotTaken)?;
        let done = tokio::select! {
            biased;
            done = work(guard.held()) => done,
            loss = guard.lost() => return Err(HoldError::Lost(loss)),
        };
        let held = guard.held();
        let released = guard.release().await;
        match held.loss() {
            Some(loss) if released.is_err() => Err(HoldError::LostUnnoticed { value: done, loss }),
            _ => Ok(done),
        }
    }

    /// One try: `None` if somebody else holds the lock.
    pub(crate) async fn once(self) -> Result<Option<Guard>, LockError> {
        match self.within(Duration::ZERO).await {
            Ok(guard) => Ok(Some(guard)),
            Err(LockError::TimedOut { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The state of a waiting request at the store's last answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitStatus {
    /// The holder of the requested lock.
    pub held_by: HolderInfo,
    /// The position in the queue, 1 being next; `None` if the request is not in a queue.
    pub place: Option<u64>,
}

impl IntoFuture for Acquire {
    type Output = Result<Guard, LockError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { askers, terms } = self;
        match terms {
            Ok(terms) => Box::pin(acquire(askers, terms)),
            // A separate future, so that waiting requests do not reserve space for it.
            Err(misuse) => Box::pin(std::future::ready(Err(misuse.into()))),
        }
    }
}
