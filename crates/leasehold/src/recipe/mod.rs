//! Common uses of locks: once, every and election.

mod doing;
mod election;
mod error;
mod every;
mod once;

pub use doing::Doing;
pub use election::{Candidate, Election, Leaders};
pub use error::{BeginError, JobError, MarkError};
pub use every::{Every, EveryOutcome, NotDue};
pub use once::{Once, OnceOutcome};
