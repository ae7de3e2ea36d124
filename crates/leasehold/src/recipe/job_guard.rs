//! A job that runs under a lock and is marked once it is done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::{Label, Mark, Marked, Stamp};

use super::error::{BeginError, JobError, MarkError};
use crate::error::InspectError;
use crate::lock::{Acquire, Guard, Held};
use crate::mutex::Mutex;

/// The mark of the job under this lock, and the store's current time. Waits for a silent store for
/// as long as a request would. A job that could not be begun is refused, whether or not it is due.
pub(super) async fn marked(lock: &Mutex) -> Result<Marked, InspectError> {
    lock.defaults.checked()?;
    let (claim, handle) = (lock.claim.clone()?, &lock.askers.handle);
    let end = handle.runtime.now() + lock.defaults.outage_limit;
    let look = || handle.reported(async { handle.store.marks()?.marked(claim.first_key()).await });
    handle.look_until(end, look).await.map_err(InspectError::Store)
}

/// Starts the job under this lock, if it still has to be done. A lock that was lost before the store
/// said so is requested again: somebody else may be doing the job.
pub(super) async fn begin<Done>(
    lock: &Mutex,
    request: impl Fn() -> Acquire,
    keep: Duration,
    period: Option<Duration>,
    is_done: impl Fn(&Marked) -> Option<Done>,
) -> Result<Result<JobGuard, Done>, BeginError> {
    loop {
        let guard = request().await.map_err(BeginError::NotTaken)?;
        let marked = marked(lock).await.map_err(BeginError::NotKnown)?;
        if let Some(done) = is_done(&marked) {
            // Wait for the release: a program that finds the job done often ends at once, and its
            // background tasks with it, while others wait for the lock.
            let _ = guard.release().await;
            return Ok(Err(done));
        }
        if guard.is_held() {
            let due = DueMark { at: marked.now, keep, period, is_marked: AtomicBool::new(false) };
            return Ok(Ok(JobGuard { guard, due }));
        }
    }
}

/// A job that this caller may do, and whose lock it holds. Call [`done`](Self::done) once the work
/// is done. If this value is dropped before, the job counts as not done, and the lock is released
/// in the background.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use leasehold::Locks;
///
/// let locks = Locks::in_memory();
/// if let Ok(job) = locks.once("migrate:0042").begin().await? {
///     println!("migrate with fence {}", job.guard().fence());
///     job.done().await?;
/// }
/// assert!(locks.once("migrate:0042").begin().await?.is_err(), "it is done");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "what is dropped was not done: do it, and say done()"]
pub struct JobGuard {
    pub(crate) guard: Guard,
    pub(crate) due: DueMark,
}

/// The mark that a job leaves once it is done.
#[derive(Debug)]
pub(crate) struct DueMark {
    at: Stamp,
    keep: Duration,
    /// The period of the job, if it is repeated.
    period: Option<Duration>,
    /// True once the store has confirmed the mark.
    is_marked: AtomicBool,
}

impl DueMark {
    /// Leaves the mark under this lock, unless it is there already.
    pub(crate) async fn leave(&self, guard: &Guard) -> Result<Mark, MarkError> {
        let label = guard.held().label().and_then(|label| Label::new(label).ok());
        let mark = Mark::new(self.at, guard.fence(), label);
        let mark = match self.period {
            Some(period) => mark.every(period),
            None => mark,
        };
        if !self.is_marked.load(Ordering::Relaxed) {
            guard.mark(&mark, self.keep).await?;
            self.is_marked.store(true, Ordering::Relaxed);
        }
        Ok(mark)
    }
}

impl JobGuard {
    /// The lock under which the job runs: stop when it [is lost](Guard::lost), because another
    /// process may have started the job.
    pub const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// A view of the holding, to lend to code that works under the lock.
    #[must_use]
    pub fn held(&self) -> Held {
        self.guard.held()
    }

    /// Returns the lock alone, for a job that was not done or is not to be marked yet. The caller
    /// can then see the result of the release.
    pub fn into_guard(self) -> Guard {
        self.guard
    }

    /// Marks the job as done, and releases the lock. If the store does not answer, the mark is
    /// retried until the lease ends.
    ///
    /// # Errors
    ///
    /// [`MarkError`]: the job was done, but the mark was not confirmed, so somebody may do it again.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the job may or may not be marked; the lock is released.
    pub async fn done(self) -> Result<(), MarkError> {
        self.mark().await?;
        // The mark counts, whatever the result of the release.
        let _ = self.guard.release().await;
        Ok(())
    }

    /// Marks the job as done, and keeps the lock. From then on nobody does it again, even if the
    /// lock is lost. Whoever waits for the job already learns of the mark when the lock is released.
    ///
    /// # Errors
    ///
    /// As [`done`](Self::done).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the job may or may not be marked. Marking it again changes
    /// nothing.
    pub async fn mark(&self) -> Result<Mark, MarkError> {
        self.due.leave(&self.guard).await
    }

    /// Runs the work, stops it when the lock is lost, and leaves the mark if it succeeded.
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
                // Release the lock first, so that the next holder may try as soon as the error is
                // returned.
                let _ = self.guard.release().await;
                Err(JobError::Failed(error))
            }
        }
    }
}
