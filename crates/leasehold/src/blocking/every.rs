//! A job that one of many processes does once in each period.

use super::job_guard::JobGuard;
use super::{job_settings, wait};
use crate::{BeginError, EveryOutcome, Held, InspectError, JobError, Mark, NotDue};

/// A job that is done once in each period by one of many processes that are started for it at about
/// the same time, as [`leasehold::Every`](crate::Every). Making and cloning it does no I/O.
///
/// ```
/// use leasehold::EveryOutcome;
/// const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);
/// let locks = leasehold::blocking::Locks::in_memory()?;
/// let report = locks.every(HOUR, "report");
/// assert_eq!(report.run(|_| Ok::<_, std::io::Error>("sent"))?, EveryOutcome::Ran("sent"));
/// assert!(matches!(report.run(|_| Ok::<_, std::io::Error>("sent again"))?, EveryOutcome::NotDue(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a description does nothing: call run() or begin()"]
pub struct Every(pub(super) crate::Every);

impl Every {
    job_settings!();

    /// As [`leasehold::Every::now`](crate::Every::now).
    pub fn now(self) -> Self {
        Self(self.0.now())
    }

    /// When the job was last started, and by whom; `None` if it was never done, or so long ago that
    /// the mark has expired.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store did not answer within the outage limit or refuses, or the name
    /// cannot be a key.
    pub fn mark(&self) -> Result<Option<Mark>, InspectError> {
        wait(self.0.mark())
    }

    /// Does the job if it is due and nobody else is doing it, as
    /// [`leasehold::Every::run`](crate::Every::run). But blocking work is not stopped when the lock is
    /// lost: the job then stays due, and this call returns an error.
    ///
    /// # Errors
    ///
    /// [`JobError`]: the work was not started, it failed, or it was done and could not be marked.
    pub fn run<T, E>(&self, work: impl FnOnce(Held) -> Result<T, E>) -> Result<EveryOutcome<T>, JobError<E>> {
        match self.begin()? {
            Ok(job) => job.run(work).map(EveryOutcome::Ran),
            Err(not_due) => Ok(EveryOutcome::NotDue(not_due)),
        }
    }

    /// The same in two steps: returns the job for the caller to do, or the reason why it is not
    /// due.
    ///
    /// # Errors
    ///
    /// [`BeginError`]: the lock was not acquired although nobody held it, or it is unknown whether
    /// the job is due.
    pub fn begin(&self) -> Result<Result<JobGuard, NotDue>, BeginError> {
        Ok(wait(self.0.begin())?.map(JobGuard::of))
    }
}
