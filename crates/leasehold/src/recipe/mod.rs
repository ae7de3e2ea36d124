//! What locks are mostly used for, written once.

mod election;

pub use election::{Candidate, Election, Leaders};
