//! What is done under a lock, and marked when it was done.

use super::guard::Guard;
use super::wait;
use crate::{BeginError, Held, JobError, Mark, MarkError};

/// Something that is yours to do, as [`leasehold::Doing`](crate::Doing): you hold its lock. Say [`done`](Self::done) when it was done; if
/// this is dropped without it, it was not, and the lock is released soon after.
#[derive(Debug)]
#[must_use = "what is dropped was not done: do it, and say done()"]
pub struct Doing(crate::Doing);

impl Doing {
    pub(super) fn begin<Not>(
        begun: impl Future<Output = Result<Result<crate::Doing, Not>, BeginError>>,
    ) -> Result<Result<Self, Not>, BeginError> {
        Ok(wait(begun)?.map(Self))
    }

    /// A view of the holding: work that blocks looks there whether it [is still held](Held::is_held) before whatever counts.
    #[must_use]
    pub fn held(&self) -> Held {
        self.0.held()
    }

    /// It was done: leaves the mark, and releases the lock. A store that is silent is asked until the lease ends.
    ///
    /// # Errors
    ///
    /// [`MarkError`]: it was done, and nobody will know, so somebody will do it again.
    pub fn done(self) -> Result<(), MarkError> {
        wait(self.0.done())
    }

    /// It was done: leaves the mark, and keeps the lock. From then on nobody does it again, also if the lock is lost.
    ///
    /// # Errors
    ///
    /// As [`done`](Self::done).
    pub fn mark(&self) -> Result<Mark, MarkError> {
        wait(self.0.mark())
    }

    /// It was not done, or is not to be noted yet: the lock alone, for whoever wants to know what becomes of its release.
    pub fn into_guard(self) -> Guard {
        Guard(self.0.into_guard())
    }

    /// Runs the work, and leaves the mark if it was done.
    pub(super) fn run<T, E>(self, work: impl FnOnce(Held) -> Result<T, E>) -> Result<T, JobError<E>> {
        match work(self.held()) {
            Ok(value) => {
                self.done().map_err(JobError::NotMarked)?;
                Ok(value)
            }
            Err(error) => {
                // The next one may try as soon as this is said.
                let _ = self.into_guard().release();
                Err(JobError::Failed(error))
            }
        }
    }
}
