//! Common uses of locks: once, every and election.

mod election;
mod error;
mod every;
mod job_guard;
mod once;

pub use election::{Candidate, Election, Leaders};
pub use error::{BeginError, JobError, MarkError};
pub use every::{Every, EveryOutcome, NotDue};
pub(crate) use job_guard::DueMark;
pub use job_guard::JobGuard;
pub use once::{Once, OnceOutcome};

/// Defines the settings of a job, which are those of its `lock`.
macro_rules! job_settings {
    () => {
        /// Sets the TTL: how long the lease lasts without renewal, and so how long after a crash the
        /// next process may start.
        pub fn ttl(self, ttl: std::time::Duration) -> Self {
            Self { lock: self.lock.ttl(ttl), ..self }
        }

        /// Sets what the process that does the job says about itself, during the work and in the
        /// mark: printable text of up to 256 bytes.
        pub fn label(self, label: &str) -> Self {
            Self { lock: self.lock.label(label), ..self }
        }

        /// Stops work that takes longer than this, so that the next process may try. Without a
        /// limit, the work may take as long as it needs. A limit below the TTL, which is 30 s by
        /// default, is a [`Misuse`](crate::Misuse::HoldShorterThanTtl): set a shorter
        /// [`ttl`](Self::ttl) too.
        pub fn at_most(self, limit: std::time::Duration) -> Self {
            Self { lock: self.lock.renewal(leasehold_core::Renewal::AtMost(limit)), ..self }
        }
    };
}
use job_settings;
