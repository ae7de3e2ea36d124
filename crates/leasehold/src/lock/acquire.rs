//! The request for a lock, for async callers.

use std::fmt;
use std::future::pending;
use std::marker::PhantomData;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use leasehold_core::{Backoff, BoxFuture, Drift, Misuse};

use super::drive::acquire;
use super::guard::Guard;
use super::holding::Held;
use super::kinds::GuardKind;
use super::terms::{OnWait, Terms, WaitStatus};
use crate::error::{HoldError, LockError};
use crate::store_handle::Askers;

/// A request for a lock. It does nothing until it is awaited or polled.
///
/// It is a future that owns everything it needs, so `tokio::spawn(mutex.lock())` compiles. Its
/// settings have no effect after the first poll. `G` is the type of the guard.
///
/// Once it waits, keep polling it or drop it. While it is kept and not polled, requests behind it in
/// this process may not notice that the lease of a dead holder has ended.
///
/// # Cancel safety
///
/// If the future is dropped at any point, the request is given up in the background: no lock is
/// left behind. If the store is unreachable, a lock may be left that expires with its TTL. A new
/// request starts from the beginning.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use std::time::Duration;
///
/// let locks = leasehold::Locks::in_memory();
/// let guard = locks.mutex("invoice:42").lock().within(Duration::from_secs(5)).await?;
/// # guard.release().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a request does nothing until it is awaited"]
pub struct Acquire<G = Guard>(State, PhantomData<fn() -> G>);

enum State {
    /// Boxed, because there may be very many requests that wait.
    Asked(Box<Asked>),
    UnderWay(BoxFuture<'static, Result<Guard, LockError>>),
}

/// The requested keys and modes, and the store.
#[derive(Debug)]
struct Asked {
    askers: Arc<Askers>,
    terms: Result<Terms, Misuse>,
}

impl<G> Acquire<G> {
    pub(crate) fn new(askers: Arc<Askers>, terms: Result<Terms, Misuse>) -> Self {
        Self(State::Asked(Box::new(Asked { askers, terms })), PhantomData)
    }

    /// The same request for a plain [`Guard`], for code that acquires locks of all kinds.
    pub fn untyped(self) -> Acquire {
        Acquire(self.0, PhantomData)
    }

    /// Changes a valid request that has not been polled.
    fn with(mut self, change: impl FnOnce(&mut Terms)) -> Self {
        if let State::Asked(asked) = &mut self.0
            && let Ok(terms) = &mut asked.terms
        {
            change(terms);
        }
        self
    }

    /// Limits the wait for a holder; zero is one try, whose error says who holds the lock. Without
    /// a limit, the request waits for as long as it takes.
    ///
    /// The wait for a store that does not answer never exceeds the [outage
    /// limit](Self::outage_limit).
    #[doc(alias = "timeout")]
    pub fn within(self, limit: Duration) -> Self {
        self.with(|terms| terms.patience.within = Some(limit))
    }

    /// Limits the wait for a store that does not answer, for this request instead of
    /// [all](crate::LocksBuilder::outage_limit).
    pub fn outage_limit(self, limit: Duration) -> Self {
        self.with(|terms| terms.patience.outage_limit = limit)
    }

    /// Limits how often the store is asked again after somebody else had the lock: with 3, the
    /// fourth refusal is a [`LockError::TimedOut`]. The pauses are those of
    /// [`backoff`](Self::backoff).
    ///
    /// This is for programs that are ported from libraries that poll. Such a request polls too: it
    /// waits in no queue, so that others pass it. [`within`](Self::within) limits the wait without
    /// that.
    ///
    /// ```
    /// # async fn example(locks: leasehold::Locks) -> Result<(), Box<dyn std::error::Error>> {
    /// use leasehold::Backoff;
    /// use std::time::Duration;
    ///
    /// let pauses = Backoff::fixed(Duration::from_millis(200), Duration::from_millis(100))?;
    /// let guard = locks.mutex("invoice:42").lock().retries(10).backoff(pauses).await?;
    /// # drop(guard); Ok(()) }
    /// ```
    #[doc(alias = "retryCount")]
    #[doc(alias = "tries")]
    pub fn retries(self, count: u32) -> Self {
        self.with(|terms| terms.patience.retries = Some(count))
    }

    /// Sets how much earlier than the store the holder stops relying on its lease, for this request
    /// and its guard instead of [all](crate::LocksBuilder::drift). With less than the store needs,
    /// two guards of a key may consider themselves valid at once.
    #[doc(alias = "driftFactor")]
    pub fn drift(self, drift: Drift) -> Self {
        self.with(|terms| terms.drift = Some(drift))
    }

    /// Limits the queue: if that many requests wait already, this one ends at once with
    /// [`LockError::QueueFull`]. This is for services that reject work rather than let it pile up.
    /// Without it, the queue may grow without a limit. A request that polls is in no queue, and
    /// ignores this.
    pub fn queue_limit(self, waiters: u64) -> Self {
        self.with(|terms| terms.queue_limit = Some(waiters))
    }

    /// Sets the pauses between retries, for stores without a queue and for requests with a number
    /// of [retries](Self::retries).
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.with(|terms| terms.patience.backoff = backoff)
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
    pub fn on_wait(self, tell: impl Fn(&WaitStatus) + Send + Sync + 'static) -> Self {
        self.with(|terms| terms.on_wait = Some(OnWait(Arc::new(tell))))
    }

    /// Acquires the lock, runs `work` under it, and releases it. The work is stopped at an await
    /// when the lease is lost.
    ///
    /// The work's result is never lost. If the store is unreachable for the release, the call still
    /// succeeds: the work had the lock to its end, and the lease expires.
    ///
    /// # Errors
    ///
    /// [`HoldError::NotTaken`] if the work did not start; [`HoldError::Lost`] if it was stopped;
    /// [`HoldError::LostUnnoticed`] if the release found that the lock had been lost before: that
    /// error contains the work's result.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases the lock in the background.
    pub async fn hold<T, Work>(self, work: impl FnOnce(Held) -> Work) -> Result<T, HoldError<T>>
    where
        Work: Future<Output = T>,
    {
        let guard = self.untyped().await.map_err(HoldError::NotTaken)?;
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
}

impl<G: GuardKind> Acquire<G> {
    /// One try: `None` if somebody else holds the lock.
    pub(crate) async fn once(self) -> Result<Option<G>, LockError> {
        match self.within(Duration::ZERO).await {
            Ok(guard) => Ok(Some(guard)),
            Err(LockError::TimedOut { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl<G: GuardKind> Future for Acquire<G> {
    type Output = Result<G, LockError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut acquiring = match mem::replace(&mut self.0, State::UnderWay(Box::pin(pending()))) {
            State::Asked(asked) => Box::pin(acquire(asked.askers, asked.terms?)?),
            State::UnderWay(acquiring) => acquiring,
        };
        let polled = acquiring.as_mut().poll(context);
        if polled.is_pending() {
            self.0 = State::UnderWay(acquiring);
        }
        polled.map_ok(G::of)
    }
}

impl<G> fmt::Debug for Acquire<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            State::Asked(asked) => f.debug_tuple("Acquire").field(&asked.terms).finish(),
            State::UnderWay(_) => f.debug_tuple("Acquire").finish_non_exhaustive(),
        }
    }
}
