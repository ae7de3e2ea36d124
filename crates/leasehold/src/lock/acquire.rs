//! The request that a caller awaits.

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
/// Dropped at any point, it gives the request up in the background: no lock is left behind, or at worst one that ends with
/// its ttl, where the store is out of reach. A new request starts afresh.
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is awaited"]
pub struct Acquire {
    /// Kept until the guard is there: a request may outlive the locks that it came from.
    askers: Arc<Askers>,
    /// In a box, because a future keeps what it was made from.
    terms: Result<Box<Terms>, Misuse>,
}

impl Acquire {
    pub(crate) fn new(askers: Arc<Askers>, terms: Result<Terms, Misuse>) -> Self {
        Self { askers, terms: terms.map(Box::new) }
    }

    /// Waits for a holder no longer than this; zero is one try, whose error says who holds the lock. Without it, the request
    /// waits as long as it takes.
    ///
    /// For a store that does not answer it waits no longer than the outage limit in any case.
    pub fn within(mut self, limit: Duration) -> Self {
        if let Ok(terms) = &mut self.terms {
            terms.patience.within = Some(limit);
        }
        self
    }

    /// Does not join a line in which so many wait already: the request then ends at once with [`LockError::LineFull`]. For
    /// services that had rather turn work away than let it pile up. Without it, the line may be as long as it gets.
    pub fn line_limit(mut self, waiters: u64) -> Self {
        if let Ok(terms) = &mut self.terms {
            terms.line_limit = Some(waiters);
        }
        self
    }

    /// The rests between asks, where the store has no line.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        if let Ok(terms) = &mut self.terms {
            terms.patience.backoff = backoff;
        }
        self
    }

    /// Calls this each time the store has refused and the request goes on waiting: to say for whom. It is called between two
    /// asks, so it must return soon and not block. A single try never waits, and so never calls it.
    ///
    /// ```
    /// # async fn example(locks: leasehold::Locks) -> Result<(), leasehold::LockError> {
    /// let request = locks.mutex("deploy").lock();
    /// let guard = request.on_wait(|waiting| eprintln!("held by {}", waiting.held_by)).await?;
    /// # drop(guard); Ok(()) }
    /// ```
    pub fn on_wait(mut self, tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        if let Ok(terms) = &mut self.terms {
            terms.on_wait = Some(OnWait(Arc::new(tell)));
        }
        self
    }

    /// Takes the lock, runs `work` under it, and releases it. The work is stopped at an await when the lease is lost.
    ///
    /// What the work returns is never lost. A store that cannot be reached for the release changes nothing: the work had the lock to its
    /// end, and the lease ends by itself.
    ///
    /// # Errors
    ///
    /// [`HoldError::NotTaken`] when the work never began; [`HoldError::Lost`] when it was stopped;
    /// [`HoldError::LostUnnoticed`] when the release found that the lock had been lost before: the error carries what the work returned.
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

    /// One try: `None` when somebody else holds the lock.
    pub(crate) async fn once(self) -> Result<Option<Guard>, LockError> {
        match self.within(Duration::ZERO).await {
            Ok(guard) => Ok(Some(guard)),
            Err(LockError::TimedOut { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What a request that waits was last told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// Who holds what it asks for.
    pub held_by: HolderInfo,
    /// The place in line, 1 being the next to have the lock; `None` where it does not wait in line.
    pub place: Option<u64>,
}

impl IntoFuture for Acquire {
    type Output = Result<Guard, LockError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { askers, terms } = self;
        match terms {
            Ok(terms) => Box::pin(acquire(askers, terms)),
            // Apart, so that who waits does not keep room for it.
            Err(misuse) => Box::pin(std::future::ready(Err(misuse.into()))),
        }
    }
}
