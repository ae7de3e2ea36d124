//! Common uses of locks: once, every and election.

mod election;
mod error;
mod every;
mod job_guard;
mod once;

pub use election::{Candidate, Election, Leaders};
pub use error::{BeginError, JobError, MarkError};
pub use every::{Every, EveryOutcome, NotDue};
pub use job_guard::JobGuard;
pub use once::{Once, OnceOutcome};
