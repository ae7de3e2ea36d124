//! A job that is done only once, ever.

use std::time::Duration;

use super::job_guard::JobGuard;
use super::{job_settings, wait};
use crate::{BeginError, Held, InspectError, JobError, Mark, OnceOutcome, WaitStatus};

/// A job that is done only once, ever, by the first process that comes, as
/// [`leasehold::Once`](crate::Once). Making and cloning it does no I/O.
///
/// ```
/// use leasehold::OnceOutcome;
/// let locks = leasehold::blocking::Locks::in_memory()?;
/// let migration = locks.once("migrate:0042");
/// let first = migration.run(|_| Ok::<_, std::io::Error>("migrated"))?;
/// assert_eq!(first, OnceOutcome::Ran("migrated"));
/// let second = migration.run(|_| Ok::<_, std::io::Error>("again"))?;
/// assert!(matches!(second, OnceOutcome::AlreadyDone { .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a description does nothing: call run() or begin()"]
pub struct Once(pub(super) crate::Once);

impl Once {
    job_settings!();

    /// As [`leasehold::Once::within`](crate::Once::within).
    pub fn within(self, limit: Duration) -> Self {
        Self(self.0.within(limit))
    }

    /// As [`leasehold::Once::on_wait`](crate::Once::on_wait). The function is called on the waiting
    /// thread.
    pub fn on_wait(self, tell: impl Fn(&WaitStatus) + Send + Sync + 'static) -> Self {
        Self(self.0.on_wait(tell))
    }

    /// When the job was done, and by whom; `None` if it was not.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store did not answer within the outage limit or refuses, or the name
    /// cannot be a key.
    pub fn mark(&self) -> Result<Option<Mark>, InspectError> {
        wait(self.0.mark())
    }

    /// Does the job if it was not done, as [`leasehold::Once::run`](crate::Once::run). But blocking
    /// work is not stopped when the lock is lost: the job then counts as not done, and this call
    /// returns an error.
    ///
    /// # Errors
    ///
    /// [`JobError`]: the work was not started, it failed, or it was done and could not be marked.
    pub fn run<T, E>(&self, work: impl FnOnce(Held) -> Result<T, E>) -> Result<OnceOutcome<T>, JobError<E>> {
        match self.begin()? {
            Ok(job) => job.run(work).map(OnceOutcome::Ran),
            Err(mark) => Ok(OnceOutcome::AlreadyDone { mark }),
        }
    }

    /// The same in two steps: returns the job for the caller to do, or the mark of the process that
    /// did it.
    ///
    /// # Errors
    ///
    /// [`BeginError`]: the lock was not acquired, or it is unknown whether the job was done.
    pub fn begin(&self) -> Result<Result<JobGuard, Mark>, BeginError> {
        Ok(wait(self.0.begin())?.map(JobGuard::of))
    }
}
