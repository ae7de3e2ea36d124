//! What is done under a lock, and marked when it was done.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Claim, FaultKind, Key, Label, Mark, Marked, Misuse, Renewal, Stamp, Ttl};

use super::error::{BeginError, JobError, MarkError};
use crate::defaults::Defaults;
use crate::error::InspectError;
use crate::lock::{Acquire, Guard, Held};
use crate::locks::Askers;
use crate::mutex::Mutex;
use crate::place::rest;

/// Something that may have been done: the lock under which it is, and the mark that says that it was.
#[derive(Clone, Debug)]
pub(super) struct Job {
    askers: Arc<Askers>,
    claim: Result<Claim, Misuse>,
    pub(super) defaults: Defaults,
}

impl Job {
    pub(super) const fn new(askers: Arc<Askers>, claim: Result<Claim, Misuse>, defaults: Defaults) -> Self {
        Self { askers, claim, defaults }
    }

    pub(super) fn ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = Ttl::new(ttl);
        self
    }

    pub(super) fn label(mut self, label: &str) -> Self {
        self.defaults.label = Label::new(label).map(Some);
        self
    }

    pub(super) fn renewal(mut self, renewal: Renewal) -> Self {
        self.defaults.renewal = renewal;
        self
    }

    pub(super) fn key(&self) -> Result<Key, Misuse> {
        Ok(self.claim.clone()?.first_key().clone())
    }

    /// The request for its lock.
    pub(super) fn lock(&self) -> Acquire {
        Mutex::new(self.askers.clone(), self.claim.clone(), self.defaults.clone()).lock()
    }

    /// The mark, and what time it is at the store; waits for a store that is silent as long as a request would.
    pub(super) async fn marked(&self) -> Result<Marked, InspectError> {
        let (key, place) = (self.key()?, self.askers.place());
        let runtime = &*place.runtime;
        let end = runtime.now() + self.defaults.outage_limit;
        let mut tries = 0;
        loop {
            let fault = match async { place.store.marks()?.marked(&key).await }.await {
                Ok(marked) => return Ok(marked),
                Err(fault) => fault,
            };
            let again = runtime.now() + rest(tries, runtime);
            if fault.kind == FaultKind::Lasting || again >= end {
                return Err(InspectError::Store(fault));
            }
            tries += 1;
            runtime.sleep_until(again).await;
        }
    }

    /// Under the lock: what is begun now, if it still is to be.
    pub(super) async fn begin<Done>(
        &self,
        request: Acquire,
        keep: Duration,
        period: Option<Duration>,
        is_done: impl Fn(&Marked) -> Option<Done>,
    ) -> Result<Result<Doing, Done>, BeginError> {
        let guard = request.await.map_err(BeginError::NotTaken)?;
        let marked = self.marked().await.map_err(BeginError::NotKnown)?;
        Ok(match is_done(&marked) {
            Some(done) => {
                // A program that finds it done often ends at once, and what it left to the background with it; others wait.
                let _ = guard.release().await;
                Err(done)
            }
            None => Ok(Doing { guard, at: marked.now, keep, period }),
        })
    }
}

/// Something that is yours to do: you hold its lock. Say [`done`](Self::done) when it was done; if this is dropped without it, it was
/// not, and the lock is released in the background.
#[derive(Debug)]
#[must_use = "what is dropped was not done: do it, and say done()"]
pub struct Doing {
    guard: Guard,
    at: Stamp,
    keep: Duration,
    /// How often it is done, if more than once.
    period: Option<Duration>,
}

impl Doing {
    /// The lock that it is done under: stop when that [is lost](Guard::lost), because the next one may have begun.
    pub const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// A view of the holding, to lend to those who work under it.
    #[must_use]
    pub fn held(&self) -> Held {
        self.guard.held()
    }

    /// It was not done, or is not to be noted yet: the lock alone, for whoever wants to know what becomes of its release.
    pub fn into_guard(self) -> Guard {
        self.guard
    }

    /// It was done: leaves the mark, and releases the lock. A store that is silent is asked until the lease ends.
    ///
    /// # Errors
    ///
    /// [`MarkError`]: it was done, and nobody will know, so somebody will do it again.
    ///
    /// # Cancel safety
    ///
    /// Dropped in between, it may be marked or not; the lock is released.
    pub async fn done(self) -> Result<(), MarkError> {
        self.mark().await?;
        // The mark counts, whatever becomes of the release.
        let _ = self.guard.release().await;
        Ok(())
    }

    /// It was done: leaves the mark, and keeps the lock. From then on nobody does it again, also if the lock is lost.
    ///
    /// # Errors
    ///
    /// As [`done`](Self::done).
    ///
    /// # Cancel safety
    ///
    /// Dropped in between, it may be marked or not. Marking it once more changes nothing.
    pub async fn mark(&self) -> Result<Mark, MarkError> {
        let label = self.guard.held().label().and_then(|label| Label::new(label).ok());
        let mark = Mark::new(self.at, self.guard.fence(), label);
        let mark = match self.period {
            Some(period) => mark.every(period),
            None => mark,
        };
        self.guard.mark(&mark, self.keep).await?;
        Ok(mark)
    }

    /// Runs the work, stops it when the lock is lost, and leaves the mark if it was done.
    pub(super) async fn run<T, E, Work>(self, work: impl FnOnce(Held) -> Work) -> Result<T, JobError<E>>
    where
        Work: Future<Output = Result<T, E>>,
    {
        let done = tokio::select! {
            biased;
            done = work(self.held()) => done,
            loss = self.guard.lost() => return Err(JobError::Lost(loss)),
        };
        match done {
            Ok(value) => {
                self.done().await.map_err(JobError::NotMarked)?;
                Ok(value)
            }
            Err(error) => {
                // The next one may try as soon as this is said.
                let _ = self.guard.release().await;
                Err(JobError::Failed(error))
            }
        }
    }
}
