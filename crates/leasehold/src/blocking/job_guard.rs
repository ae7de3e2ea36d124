//! A job that runs under a lock and is marked once it is done.

use super::guard::Guard;
use super::wait;
use crate::recipe::DueMark;
use crate::{Held, JobError, Mark, MarkError};

/// A job that this caller may do, and whose lock it holds, as
/// [`leasehold::JobGuard`](crate::JobGuard). Call [`done`](Self::done) once the work is done. If
/// this value is dropped before, the job counts as not done, and the lock is released soon after.
///
/// ```
/// let locks = leasehold::blocking::Locks::in_memory()?;
/// match locks.once("report:2026").begin()? {
///     Ok(job) => {
///         println!("sent under fence {}", job.held().fence());
///         job.done()?;
///     }
///     Err(mark) => println!("done already, under fence {}", mark.fence),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "what is dropped was not done: do it, and say done()"]
pub struct JobGuard {
    guard: Guard,
    due: DueMark,
}

impl JobGuard {
    pub(super) fn of(crate::JobGuard { guard, due }: crate::JobGuard) -> Self {
        Self { guard: Guard(guard), due }
    }

    /// The lock under which the job runs, for example to [renew](Guard::renew) it for longer.
    pub const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// A view of the holding. Work that blocks checks there that the lock [is still
    /// held](Held::is_held) before each step that matters.
    #[must_use]
    pub fn held(&self) -> Held {
        self.guard.held()
    }

    /// Marks the job as done, and releases the lock. If the store does not answer, the mark is
    /// retried until the lease ends.
    ///
    /// # Errors
    ///
    /// [`MarkError`]: the job was done, but the mark was not confirmed, so somebody may do it again.
    pub fn done(self) -> Result<(), MarkError> {
        self.mark()?;
        // The mark counts, whatever the result of the release.
        let _ = self.guard.release();
        Ok(())
    }

    /// Marks the job as done, and keeps the lock. From then on nobody does it again, even if the
    /// lock is lost.
    ///
    /// # Errors
    ///
    /// As [`done`](Self::done).
    pub fn mark(&self) -> Result<Mark, MarkError> {
        wait(self.due.leave(&self.guard.0))
    }

    /// Returns the lock alone, for a job that was not done or is not to be marked yet. The caller
    /// can then see the result of the release.
    pub fn into_guard(self) -> Guard {
        self.guard
    }

    /// Runs the work, and leaves the mark if it succeeded.
    pub(super) fn run<T, E>(self, work: impl FnOnce(Held) -> Result<T, E>) -> Result<T, JobError<E>> {
        match work(self.held()) {
            Ok(value) => {
                self.done().map_err(JobError::NotMarked)?;
                Ok(value)
            }
            Err(error) => {
                // Release the lock first, so that the next holder may try as soon as the error is
                // returned.
                let _ = self.into_guard().release();
                Err(JobError::Failed(error))
            }
        }
    }
}
