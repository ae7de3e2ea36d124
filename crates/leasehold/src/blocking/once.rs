//! What is done once, ever.

use std::time::Duration;

use super::doing::Doing;
use super::wait;
use crate::{BeginError, Held, InspectError, JobError, Mark, OnceOutcome, Waiting};

/// Something that is done once, ever, by whoever comes first, as [`leasehold::Once`](crate::Once). Making and cloning it does no I/O.
///
/// ```
/// use leasehold::OnceOutcome;
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = leasehold::blocking::Locks::in_memory()?;
/// let migration = locks.once("migrate:0042");
/// let first = migration.run(|_| Ok::<_, std::io::Error>("migrated"))?;
/// assert_eq!(first, OnceOutcome::Ran("migrated"));
/// let second = migration.run(|_| Ok::<_, std::io::Error>("again"))?;
/// assert!(matches!(second, OnceOutcome::AlreadyDone { .. }));
/// # Ok(())
/// # }
/// # example().unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a description does nothing: call run() or begin()"]
pub struct Once(pub(super) crate::Once);

impl Once {
    /// How long the lease lasts without renewal: how long after a crash the next one begins.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// What whoever does it says of itself, meanwhile and in the mark: printable text of up to 256 bytes.
    pub fn label(self, label: &str) -> Self {
        Self(self.0.label(label))
    }

    /// Waits no longer than this for somebody who is at it. Without it, for as long as that takes.
    pub fn within(self, limit: Duration) -> Self {
        Self(self.0.within(limit))
    }

    /// Lets the next one try when the work takes longer than this. Work that blocks is not stopped: it has to look.
    pub fn at_most(self, limit: Duration) -> Self {
        Self(self.0.at_most(limit))
    }

    /// Calls this when somebody else is at it and has to be waited for. It is called on the thread that waits.
    pub fn on_wait(self, tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        Self(self.0.on_wait(tell))
    }

    /// When it was done, and by whom; `None` when it was not.
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer within the outage limit or refuses, or the name cannot be a key.
    pub fn mark(&self) -> Result<Option<Mark>, InspectError> {
        wait(self.0.mark())
    }

    /// Does it if it was not done: takes the lock of the same name, looks again, runs `work`, leaves the mark. Blocks while somebody else
    /// is at it, and then finds it done, or does it. When it returns without an error, it is done.
    ///
    /// Work that blocks is not stopped when the lock is lost: it counts as not done then, and this says so.
    ///
    /// # Errors
    ///
    /// [`JobError`]: whether the work was not begun, failed, or was done and could not be marked.
    pub fn run<T, E>(&self, work: impl FnOnce(Held) -> Result<T, E>) -> Result<OnceOutcome<T>, JobError<E>> {
        match self.begin()? {
            Ok(doing) => doing.run(work).map(OnceOutcome::Ran),
            Err(mark) => Ok(OnceOutcome::AlreadyDone { mark }),
        }
    }

    /// The same in two steps: either it is yours to do, or here is the mark of who did it.
    ///
    /// # Errors
    ///
    /// [`BeginError`]: the lock was not had, or it could not be found out whether it was done.
    pub fn begin(&self) -> Result<Result<Doing, Mark>, BeginError> {
        Doing::begin(self.0.begin())
    }
}
