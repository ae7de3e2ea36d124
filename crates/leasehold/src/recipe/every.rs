//! What is done once in a while, by one of many.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Claim, HolderInfo, Mark, Marked, Misuse, Renewal};

use super::doing::{Doing, Job};
use super::error::{BeginError, JobError};
use crate::defaults::Defaults;
use crate::error::{InspectError, LockError};
use crate::lock::Held;
use crate::locks::Askers;

/// Something that is done once in each period, by one of many who are told to at about the same time: a nightly report, a clearing
/// up. Making and cloning it does no I/O.
///
/// It is due when a period has passed since it was last begun, by the store's clock; or when it was never done. It says so when it is
/// asked, and does not wait: let a scheduler call it as often as it likes.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use leasehold::EveryOutcome;
/// const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);
/// let locks = leasehold::Locks::in_memory();
/// let report = locks.every(HOUR, "report");
/// let first = report.run(async |_| Ok::<_, std::io::Error>("sent")).await?;
/// assert_eq!(first, EveryOutcome::Ran("sent"));
/// let second = report.run(async |_| Ok::<_, std::io::Error>("sent again")).await?;
/// assert!(matches!(second, EveryOutcome::NotDue { .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// What ShedLock calls *lock at least for* is the period, and *lock at most for* is [`at_most`](Self::at_most).
///
/// # What this does not promise
///
/// As [`Once`](crate::Once): who crashes before the mark leaves it to the next. A clock of the store that is set forward makes it due
/// early; one that is set back, late, but by no more than a period.
#[derive(Clone, Debug)]
#[must_use = "a description does nothing: call run() or begin()"]
pub struct Every {
    job: Job,
    period: Duration,
    now: bool,
}

/// What came of [`Every::run`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it was done now, or it was not due")]
pub enum EveryOutcome<T> {
    /// It was due, and done.
    Ran(T),
    /// It is not due.
    NotDue(NotDue),
}

/// Why something is not to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it was done in this period, or it is being done")]
pub enum NotDue {
    /// A period has not passed since it was last begun.
    Until {
        /// How long until it is due again, by the store's clock.
        left: Duration,
        /// When it was last begun, and by whom.
        mark: Mark,
    },
    /// Somebody is at it. If they fail, it is due as soon as they let go.
    Underway {
        /// Who; `None` where the store could not say.
        held_by: Option<Box<HolderInfo>>,
        /// When it was last done, and by whom; `None` when it never was, or so long ago that nobody remembers.
        mark: Option<Mark>,
    },
}

impl NotDue {
    /// When it was last done, and by whom; `None` when somebody is at it for the first time.
    #[must_use]
    pub const fn mark(&self) -> Option<&Mark> {
        match self {
            Self::Until { mark, .. } => Some(mark),
            Self::Underway { mark, .. } => mark.as_ref(),
        }
    }
}

impl Every {
    pub(crate) fn new(
        askers: Arc<Askers>,
        claim: Result<Claim, Misuse>,
        defaults: Defaults,
        period: Duration,
    ) -> Self {
        let claim = if period < Mark::LEAST_PERIOD || period > Mark::FOR_EVER {
            Err(Misuse::PeriodOutOfRange { period })
        } else {
            claim
        };
        Self { job: Job::new(askers, claim, defaults).renewal(Renewal::Automatic), period, now: false }
    }

    /// How long the lease lasts without renewal: how long after a crash the next one may begin.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { job: self.job.ttl(ttl), ..self }
    }

    /// What whoever does it says of itself, meanwhile and in the mark: printable text of up to 256 bytes.
    pub fn label(self, label: &str) -> Self {
        Self { job: self.job.label(label), ..self }
    }

    /// Stops work that takes longer than this, and lets the next one try. Without it, it may take as long as it takes.
    pub fn at_most(self, limit: Duration) -> Self {
        Self { job: self.job.renewal(Renewal::AtMost(limit)), ..self }
    }

    /// Does it whether or not it is due, unless somebody is at it; the next period begins with it.
    pub fn now(self) -> Self {
        Self { now: true, ..self }
    }

    /// When it was last begun, and by whom; `None` when it was never done, or so long ago that nobody remembers.
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer within the outage limit or refuses, or the name cannot be a key.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn mark(&self) -> Result<Option<Mark>, InspectError> {
        Ok(self.job.marked().await?.mark)
    }

    /// Does it if it is due and nobody else is at it: takes the lock of the same name, looks again, runs `work`, leaves the mark.
    ///
    /// The work is stopped at an await when the lock is lost. If it fails, it stays due.
    ///
    /// # Errors
    ///
    /// [`JobError`]: whether the work was not begun, was stopped, failed, or was done and could not be marked.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, which stays due, and gives up the lock in the background.
    pub async fn run<T, E, Work>(
        &self,
        work: impl FnOnce(Held) -> Work,
    ) -> Result<EveryOutcome<T>, JobError<E>>
    where
        Work: Future<Output = Result<T, E>>,
    {
        match self.begin().await? {
            Ok(doing) => doing.run(work).await.map(EveryOutcome::Ran),
            Err(not_due) => Ok(EveryOutcome::NotDue(not_due)),
        }
    }

    /// The same in two steps, for work that is no future: either it is yours to do, or here is why it is not due.
    ///
    /// # Errors
    ///
    /// [`BeginError`]: the lock was not had though nobody held it, or it could not be found out whether it is due.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn begin(&self) -> Result<Result<Doing, NotDue>, BeginError> {
        let marked = self.job.marked().await.map_err(BeginError::NotKnown)?;
        if let Some((mark, left)) = self.not_due(&marked) {
            return Ok(Err(NotDue::Until { left, mark }));
        }
        let request = self.job.lock().within(Duration::ZERO);
        let period = Some(self.period);
        match self.job.begin(request, self.kept(), period, |marked| self.not_due(marked)).await {
            Ok(begun) => Ok(begun.map_err(|(mark, left)| NotDue::Until { left, mark })),
            Err(BeginError::NotTaken(LockError::TimedOut { held_by, .. })) => {
                Ok(Err(NotDue::Underway { held_by, mark: marked.mark }))
            }
            Err(error) => Err(error),
        }
    }

    /// What was done in this period, and how much of it is left; nothing of that counts if it is to be done now.
    fn not_due(&self, marked: &Marked) -> Option<(Mark, Duration)> {
        of_this_period(marked, self.period).filter(|_| !self.now)
    }

    /// How long it is remembered when it was last begun: until well after it is due again.
    fn kept(&self) -> Duration {
        const DAY: Duration = Duration::from_hours(24);
        (2 * self.period).max(DAY).min(Mark::FOR_EVER)
    }
}

/// The mark, if it is of this period, and how much of that is left. One from the future was made by a clock that was set back since: it
/// counts for a period too.
fn of_this_period(marked: &Marked, period: Duration) -> Option<(Mark, Duration)> {
    let mark = marked.mark.as_ref()?;
    let (begun, now) =
        (Duration::from_micros(mark.at.as_micros()), Duration::from_micros(marked.now.as_micros()));
    (begun.abs_diff(now) < period).then(|| (mark.clone(), (begun + period).saturating_sub(now)))
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
        // The clock was set back.
        assert_eq!([left(109, 100), left(110, 100), left(1000, 100)], [Some(19), None, None]);
        assert!(of_this_period(&Marked { mark: None, now: Stamp::from_micros(5) }, period).is_none());
    }
}
