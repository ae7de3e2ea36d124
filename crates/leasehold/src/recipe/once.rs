//! What is done once, ever.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Claim, Mark, Misuse, Renewal};

use super::doing::{Doing, Job};
use super::error::{BeginError, JobError};
use crate::defaults::Defaults;
use crate::error::InspectError;
use crate::lock::{Held, OnWait, Waiting};
use crate::locks::Askers;

/// Something that is done once, ever, by whoever comes first: a migration, a first setting up. Making and cloning it does no I/O.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use leasehold::OnceOutcome;
/// let locks = leasehold::Locks::in_memory();
/// let migration = locks.once("migrate:0042");
/// let first = migration.run(async |_| Ok::<_, std::io::Error>("migrated")).await?;
/// assert_eq!(first, OnceOutcome::Ran("migrated"));
/// let second = migration.run(async |_| Ok::<_, std::io::Error>("again")).await?;
/// assert!(matches!(second, OnceOutcome::AlreadyDone { .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What this does not promise
///
/// Nobody can do a thing and note it down in one step when they are in different places: who crashes between its last step and the
/// mark leaves it to the next, who does it again. So let the work be such that doing it twice is harmless, or send the fence along.
/// A mark is as durable as its store: in a file it is on the disk at once; on a server it is what `appendfsync` makes of it; in memory
/// it lasts as long as the process, and in a quorum while a majority of the stores remembers it.
#[derive(Clone, Debug)]
#[must_use = "a description does nothing: call run() or begin()"]
pub struct Once {
    job: Job,
    within: Option<Duration>,
    on_wait: Option<OnWait>,
}

/// What came of [`Once::run`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it was done now, or before")]
pub enum OnceOutcome<T> {
    /// It was done now.
    Ran(T),
    /// It had been done.
    AlreadyDone {
        /// When it was begun, and by whom.
        mark: Mark,
    },
}

impl Once {
    pub(crate) fn new(askers: Arc<Askers>, claim: Result<Claim, Misuse>, defaults: Defaults) -> Self {
        let job = Job::new(askers, claim, defaults).renewal(Renewal::Automatic);
        Self { job, within: None, on_wait: None }
    }

    /// How long the lease lasts without renewal: how long after a crash the next one begins.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { job: self.job.ttl(ttl), ..self }
    }

    /// What whoever does it says of itself, meanwhile and in the mark: printable text of up to 256 bytes.
    pub fn label(self, label: &str) -> Self {
        Self { job: self.job.label(label), ..self }
    }

    /// Waits no longer than this for somebody who is at it. Without it, for as long as that takes.
    pub fn within(self, limit: Duration) -> Self {
        Self { within: Some(limit), ..self }
    }

    /// Stops work that takes longer than this, and lets the next one try. Without it, it may take as long as it takes.
    pub fn at_most(self, limit: Duration) -> Self {
        Self { job: self.job.renewal(Renewal::AtMost(limit)), ..self }
    }

    /// Calls this when somebody else is at it and has to be waited for, as [`Acquire::on_wait`](crate::Acquire::on_wait) does.
    pub fn on_wait(self, tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        Self { on_wait: Some(OnWait(Arc::new(tell))), ..self }
    }

    /// When it was done, and by whom; `None` when it was not.
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

    /// Does it if it was not done: takes the lock of the same name, looks again, runs `work`, leaves the mark. While somebody else is
    /// at it this waits, and then finds it done, or does it. When it returns without an error, it is done.
    ///
    /// The work is stopped at an await when the lock is lost. If it fails, it counts as not done.
    ///
    /// # Errors
    ///
    /// [`JobError`]: whether the work was not begun, was stopped, failed, or was done and could not be marked.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, which then counts as not done, and gives up the lock in the background.
    pub async fn run<T, E, Work>(
        &self,
        work: impl FnOnce(Held) -> Work,
    ) -> Result<OnceOutcome<T>, JobError<E>>
    where
        Work: Future<Output = Result<T, E>>,
    {
        match self.begin().await? {
            Ok(doing) => doing.run(work).await.map(OnceOutcome::Ran),
            Err(mark) => Ok(OnceOutcome::AlreadyDone { mark }),
        }
    }

    /// The same in two steps, for work that is no future: either it is yours to do, or here is the mark of who did it.
    ///
    /// # Errors
    ///
    /// [`BeginError`]: the lock was not had, or it could not be found out whether it was done.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn begin(&self) -> Result<Result<Doing, Mark>, BeginError> {
        // Mostly it was done long ago, and nobody need take a lock to learn that.
        if let Some(mark) = self.mark().await.map_err(BeginError::NotKnown)? {
            return Ok(Err(mark));
        }
        let mut request = self.job.lock();
        if let Some(limit) = self.within {
            request = request.within(limit);
        }
        if let Some(OnWait(tell)) = self.on_wait.clone() {
            request = request.on_wait(move |waiting| tell(waiting));
        }
        self.job.begin(request, Mark::FOR_EVER, None, |marked| marked.mark.clone()).await
    }
}
