//! A job that one of many processes does once in each period.

use std::time::Duration;

use leasehold_core::{HolderInfo, Mark, Marked, Misuse, Renewal};

use super::error::{BeginError, JobError};
use super::job_guard::{JobGuard, begin, marked};
use super::job_settings;
use crate::error::{InspectError, LockError};
use crate::lock::Held;
use crate::mutex::Mutex;

/// A job that is done once in each period, by one of many processes that are started for it at
/// about the same time: a nightly report, a cleanup. Making and cloning it does no I/O.
///
/// It is due if it was never done, or a period has passed since it was last started, by the store's
/// clock. A call checks this and does not wait, so a scheduler may call it as often as it likes.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use leasehold::EveryOutcome;
/// const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);
/// let locks = leasehold::Locks::in_memory();
/// let report = locks.every(HOUR, "report");
/// let first = report.run(async |_| Ok::<_, std::io::Error>("sent")).await?;
/// assert_eq!(first, EveryOutcome::Ran("sent"));
/// let second = report.run(async |_| Ok::<_, std::io::Error>("sent again")).await?;
/// assert!(matches!(second, EveryOutcome::NotDue { .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// ShedLock's *lock at least for* is the period, and its *lock at most for* is
/// [`at_most`](Self::at_most).
///
/// # What this does not promise
///
/// As with [`Once`](crate::Once), if a process crashes before the mark, the next one does the job
/// again. If the store's clock is set forward, the job is due early; if it is set back, the job is
/// due late, but by at most one period. A mark is kept for two periods, and for a day at least: when
/// the period is lengthened beyond that, the job is due once more by the old one.
#[derive(Clone, Debug)]
#[must_use = "a description does nothing: call run() or begin()"]
pub struct Every {
    lock: Mutex,
    period: Duration,
    now: bool,
}

/// The result of [`Every::run`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it was done now, or it was not due")]
pub enum EveryOutcome<T> {
    /// The job was due, and was done.
    Ran(T),
    /// The job is not due.
    NotDue(NotDue),
}

/// Why the job is not to be done now.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use leasehold::{Locks, NotDue};
/// use std::time::Duration;
///
/// let report = Locks::in_memory().every(Duration::from_secs(3600), "report");
/// report.begin().await?.expect("it is due").done().await?;
/// match report.begin().await? {
///     Ok(job) => job.done().await?,
///     Err(NotDue::Until { left, .. }) => println!("again in {left:?}"),
///     Err(NotDue::Underway { .. }) => println!("another process is at it"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it was done in this period, or it is being done")]
pub enum NotDue {
    /// A period has not passed since the job was last started.
    Until {
        /// How long until it is due again, by the store's clock.
        left: Duration,
        /// When it was last started, and by whom.
        mark: Mark,
    },
    /// Another process is doing the job. If it fails, the job is due once it releases the lock.
    Underway {
        /// The process that is doing it; `None` if the store could not say.
        held_by: Option<Box<HolderInfo>>,
        /// When it was last done, and by whom; `None` if it never was, or so long ago that the mark
        /// has expired.
        mark: Option<Mark>,
    },
}

impl NotDue {
    /// When it was last done, and by whom; `None` if another process is doing it for the first
    /// time.
    #[must_use]
    pub const fn mark(&self) -> Option<&Mark> {
        match self {
            Self::Until { mark, .. } => Some(mark),
            Self::Underway { mark, .. } => mark.as_ref(),
        }
    }
}

impl Every {
    pub(crate) fn new(mut lock: Mutex, period: Duration) -> Self {
        if period < Mark::LEAST_PERIOD || period > Mark::FOR_EVER {
            lock.claim = Err(Misuse::PeriodOutOfRange { period });
        }
        Self { lock: lock.renewal(Renewal::Automatic), period, now: false }
    }

    job_settings!();

    /// Does the job whether or not it is due, unless somebody is doing it; the next period starts
    /// with it.
    pub fn now(self) -> Self {
        Self { now: true, ..self }
    }

    /// When the job was last started, and by whom; `None` if it was never done, or so long ago that
    /// the mark has expired.
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

    /// Does the job if it is due and nobody else is doing it: takes the lock of the same name,
    /// checks the mark again, runs `work`, and leaves the mark.
    ///
    /// The work is stopped at an await when the lock is lost. If it fails, the job stays due.
    ///
    /// # Errors
    ///
    /// [`JobError`]: the work was not started, was stopped, failed, or was done and could not be
    /// marked.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases the lock in the background. The job stays
    /// due, unless its work had ended and it was just being marked.
    pub async fn run<T, E, Work>(
        &self,
        work: impl FnOnce(Held) -> Work,
    ) -> Result<EveryOutcome<T>, JobError<E>>
    where
        Work: Future<Output = Result<T, E>>,
    {
        match self.begin().await? {
            Ok(job) => job.run(work).await.map(EveryOutcome::Ran),
            Err(not_due) => Ok(EveryOutcome::NotDue(not_due)),
        }
    }

    /// The same in two steps, for work that is not a future: returns the job for the caller to do,
    /// or the reason why it is not due.
    ///
    /// # Errors
    ///
    /// [`BeginError`]: the lock was not acquired although nobody held it, or it is unknown whether
    /// the job is due.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn begin(&self) -> Result<Result<JobGuard, NotDue>, BeginError> {
        let marked = marked(&self.lock).await.map_err(BeginError::NotKnown)?;
        if let Some((mark, left)) = self.not_due(&marked) {
            return Ok(Err(NotDue::Until { left, mark }));
        }
        let request = || self.lock.lock().within(Duration::ZERO);
        let period = Some(self.period);
        match begin(&self.lock, request, self.kept(), period, |marked| self.not_due(marked)).await {
            Ok(begun) => Ok(begun.map_err(|(mark, left)| NotDue::Until { left, mark })),
            Err(BeginError::NotTaken(LockError::TimedOut { held_by, .. })) => {
                Ok(Err(NotDue::Underway { held_by, mark: marked.mark }))
            }
            Err(error) => Err(error),
        }
    }

    /// The mark of this period and the time that is left of it; `None` if the job is due or is to
    /// be done now in any case.
    fn not_due(&self, marked: &Marked) -> Option<(Mark, Duration)> {
        of_this_period(marked, self.period).filter(|_| !self.now)
    }

    /// How long the mark is kept: until well after the job is due again.
    fn kept(&self) -> Duration {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        (2 * self.period).max(DAY).min(Mark::FOR_EVER)
    }
}

/// The mark, if it belongs to this period, and the time that is left of the period.
fn of_this_period(marked: &Marked, period: Duration) -> Option<(Mark, Duration)> {
    let mark = marked.mark.clone()?;
    let due = Marked { mark: Some(mark.clone().every(period)), now: marked.now }.due_at()?;
    (due > marked.now).then(|| (mark, marked.now.saturating_until(due)))
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Fence, Stamp};

    use super::*;

    #[test]
    fn it_is_due_a_period_after_it_was_begun_and_not_before() {
        let at = |micros| Mark::new(Stamp::from_micros(micros), Fence::new(1).unwrap(), None);
        let period = Duration::from_micros(10);
        let left = |begun, now| {
            let marked = Marked { mark: Some(at(begun)), now: Stamp::from_micros(now) };
            of_this_period(&marked, period).map(|(_, left)| left.as_micros())
        };
        assert_eq!([left(100, 100), left(100, 109)], [Some(10), Some(1)]);
        assert_eq!([left(100, 110), left(100, 1000)], [None, None]);
        // The clock has been set back.
        assert_eq!([left(109, 100), left(110, 100), left(1000, 100)], [Some(19), None, None]);
        assert!(of_this_period(&Marked { mark: None, now: Stamp::from_micros(5) }, period).is_none());
    }
}
