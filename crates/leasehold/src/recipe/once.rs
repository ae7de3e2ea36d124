//! A job that is done only once, ever.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Mark, Renewal};

use super::error::{BeginError, JobError};
use super::job_guard::{JobGuard, begin, marked};
use super::job_settings;
use crate::error::InspectError;
use crate::lock::{Held, OnWait, WaitStatus};
use crate::mutex::Mutex;

/// A job that is done only once, ever, by the first process that comes: a migration, an initial
/// setup. Making and cloning it does no I/O.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use leasehold::OnceOutcome;
/// let locks = leasehold::Locks::in_memory();
/// let migration = locks.once("migrate:0042");
/// let first = migration.run(async |_| Ok::<_, std::io::Error>("migrated")).await?;
/// assert_eq!(first, OnceOutcome::Ran("migrated"));
/// let second = migration.run(async |_| Ok::<_, std::io::Error>("again")).await?;
/// assert!(matches!(second, OnceOutcome::AlreadyDone { .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// # What this does not promise
///
/// No program can do something and record it in one step if the two are in different places. If a
/// process crashes between the last step of the work and the mark, the next process does the work
/// again. So make the work harmless to repeat, or send the fence along. A mark is as durable as its
/// store: in a file it is on disk at once; on a server it depends on `appendfsync`; in memory it
/// lasts as long as the process, and in a quorum while a majority of the stores remembers it.
#[derive(Clone, Debug)]
#[must_use = "a description does nothing: call run() or begin()"]
pub struct Once {
    lock: Mutex,
    within: Option<Duration>,
    on_wait: Option<OnWait>,
}

/// The result of [`Once::run`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it was done now, or before")]
pub enum OnceOutcome<T> {
    /// The job was done by this call.
    Ran(T),
    /// The job had been done before.
    AlreadyDone {
        /// When it was started, and by whom.
        mark: Mark,
    },
}

impl Once {
    pub(crate) fn new(lock: Mutex) -> Self {
        Self { lock: lock.renewal(Renewal::Automatic), within: None, on_wait: None }
    }

    job_settings!();

    /// Limits the wait for another process that is doing the job, which otherwise has no limit.
    pub fn within(self, limit: Duration) -> Self {
        Self { within: Some(limit), ..self }
    }

    /// Calls this function when somebody else is doing the job and this call has to wait, as
    /// [`Acquire::on_wait`](crate::Acquire::on_wait) does.
    pub fn on_wait(self, tell: impl Fn(&WaitStatus) + Send + Sync + 'static) -> Self {
        Self { on_wait: Some(OnWait(Arc::new(tell))), ..self }
    }

    /// When the job was done, and by whom; `None` if it was not.
    /// [`Locks::forget`](crate::Locks::forget) makes it count as not done.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store did not answer within the outage limit or refuses, or the name
    /// cannot be a key.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn mark(&self) -> Result<Option<Mark>, InspectError> {
        Ok(marked(&self.lock).await?.mark)
    }

    /// Does the job if it was not done: takes the lock of the same name, checks the mark again,
    /// runs `work`, and leaves the mark. While somebody else is doing it, this call waits, and then
    /// finds it done or does it. When it returns without an error, the job is done.
    ///
    /// The work is stopped at an await when the lock is lost. If it fails, the job counts as not
    /// done.
    ///
    /// # Errors
    ///
    /// [`JobError`]: the work was not started, was stopped, failed, or was done and could not be
    /// marked.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases the lock in the background. The job then
    /// counts as not done, unless its work had ended and it was just being marked.
    pub async fn run<T, E, Work>(
        &self,
        work: impl FnOnce(Held) -> Work,
    ) -> Result<OnceOutcome<T>, JobError<E>>
    where
        Work: Future<Output = Result<T, E>>,
    {
        match self.begin().await? {
            Ok(job) => job.run(work).await.map(OnceOutcome::Ran),
            Err(mark) => Ok(OnceOutcome::AlreadyDone { mark }),
        }
    }

    /// The same in two steps, for work that is not a future: returns the job for the caller to do,
    /// or the mark of the process that did it.
    ///
    /// # Errors
    ///
    /// [`BeginError`]: the lock was not acquired, or it is unknown whether the job was done.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn begin(&self) -> Result<Result<JobGuard, Mark>, BeginError> {
        // Mostly the job was done long ago, and finding that out needs no lock.
        if let Some(mark) = self.mark().await.map_err(BeginError::NotKnown)? {
            return Ok(Err(mark));
        }
        let runtime = &self.lock.askers.handle.runtime;
        let started = runtime.now();
        let request = || {
            let mut request = self.lock.lock();
            if let Some(limit) = self.within {
                request = request.within(limit.saturating_sub(runtime.now().saturating_since(started)));
            }
            if let Some(OnWait(tell)) = self.on_wait.clone() {
                request = request.on_wait(move |waiting| tell(waiting));
            }
            request
        };
        begin(&self.lock, request, Mark::FOR_EVER, None, |marked| marked.mark.clone()).await
    }
}
