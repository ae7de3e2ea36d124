//! What is done once in a while, by one of many.

use std::time::Duration;

use super::doing::Doing;
use super::wait;
use crate::{BeginError, EveryOutcome, Held, InspectError, JobError, Mark, NotDue};

/// Something that is done once in each period, by one of many who are told to at about the same time, as
/// [`leasehold::Every`](crate::Every). Making and cloning it does no I/O.
///
/// ```
/// use leasehold::EveryOutcome;
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);
/// let locks = leasehold::blocking::Locks::in_memory()?;
/// let report = locks.every(HOUR, "report");
/// assert_eq!(report.run(|_| Ok::<_, std::io::Error>("sent"))?, EveryOutcome::Ran("sent"));
/// assert!(matches!(report.run(|_| Ok::<_, std::io::Error>("sent again"))?, EveryOutcome::NotDue(_)));
/// # Ok(())
/// # }
/// # example().unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a description does nothing: call run() or begin()"]
pub struct Every(pub(super) crate::Every);

impl Every {
    /// How long the lease lasts without renewal: how long after a crash the next one may begin.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// What whoever does it says of itself, meanwhile and in the mark: printable text of up to 256 bytes.
    pub fn label(self, label: &str) -> Self {
        Self(self.0.label(label))
    }

    /// Lets the next one try when the work takes longer than this. Work that blocks is not stopped: it has to look.
    pub fn at_most(self, limit: Duration) -> Self {
        Self(self.0.at_most(limit))
    }

    /// Does it whether or not it is due, unless somebody is at it; the next period begins with it.
    pub fn now(self) -> Self {
        Self(self.0.now())
    }

    /// When it was last begun, and by whom; `None` when it was never done, or so long ago that nobody remembers.
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer within the outage limit or refuses, or the name cannot be a key.
    pub fn mark(&self) -> Result<Option<Mark>, InspectError> {
        wait(self.0.mark())
    }

    /// Does it if it is due and nobody else is at it: takes the lock of the same name, looks again, runs `work`, leaves the mark.
    ///
    /// Work that blocks is not stopped when the lock is lost: it stays due then, and this says so.
    ///
    /// # Errors
    ///
    /// [`JobError`]: whether the work was not begun, failed, or was done and could not be marked.
    pub fn run<T, E>(&self, work: impl FnOnce(Held) -> Result<T, E>) -> Result<EveryOutcome<T>, JobError<E>> {
        match self.begin()? {
            Ok(doing) => doing.run(work).map(EveryOutcome::Ran),
            Err(not_due) => Ok(EveryOutcome::NotDue(not_due)),
        }
    }

    /// The same in two steps: either it is yours to do, or here is why it is not due.
    ///
    /// # Errors
    ///
    /// [`BeginError`]: the lock was not had though nobody held it, or it could not be found out whether it is due.
    pub fn begin(&self) -> Result<Result<Doing, NotDue>, BeginError> {
        Doing::begin(self.0.begin())
    }
}
