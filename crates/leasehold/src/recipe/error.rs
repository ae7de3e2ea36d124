//! Why something was not done, or is not known to have been.

use std::fmt;

use leasehold_core::{Fault, Loss, Misuse};

use crate::error::{InspectError, LockError};

/// Why something was not begun.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BeginError {
    /// Its lock was not had.
    NotTaken(LockError),
    /// Whether it was done could not be found out.
    NotKnown(InspectError),
}

impl fmt::Display for BeginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTaken(error) => error.fmt(f),
            Self::NotKnown(error) => write!(f, "not known whether it was done: {error}"),
        }
    }
}

impl std::error::Error for BeginError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotTaken(error) => Some(error),
            Self::NotKnown(error) => Some(error),
        }
    }
}

impl From<Misuse> for BeginError {
    fn from(misuse: Misuse) -> Self {
        Self::NotTaken(misuse.into())
    }
}

/// Why what was done is not marked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MarkError {
    /// The lock was lost before it was done to the end: somebody else may have begun.
    Lost(Loss),
    /// The store gave no answer as long as the lease lasted, or refused.
    Unreachable(Fault),
}

impl fmt::Display for MarkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(loss) => write!(f, "not marked as done, because the lock was lost: {loss}"),
            Self::Unreachable(fault) => write!(f, "not marked as done: {fault}"),
        }
    }
}

impl std::error::Error for MarkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Lost(loss) => Some(loss),
            Self::Unreachable(fault) => Some(fault),
        }
    }
}

/// Why [`Once::run`](crate::Once::run) or [`Every::run`](crate::Every::run) has no result. `E` is the work's own error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobError<E> {
    /// The work was not begun.
    NotBegun(BeginError),
    /// The lock was lost; the work was stopped at an await, and counts as not done.
    Lost(Loss),
    /// The work says that it failed, and counts as not done.
    Failed(E),
    /// The work was done, and counts as not done all the same, because that could not be noted: somebody will do it again.
    NotMarked(MarkError),
}

impl<E: fmt::Display> fmt::Display for JobError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBegun(error) => error.fmt(f),
            Self::Lost(loss) => write!(f, "stopped, because the lock was lost: {loss}"),
            Self::Failed(error) => error.fmt(f),
            Self::NotMarked(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for JobError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotBegun(error) => Some(error),
            Self::Lost(loss) => Some(loss),
            Self::NotMarked(error) => Some(error),
            // Its own words are the work's, and it need not be an error.
            Self::Failed(_) => None,
        }
    }
}

impl<E> From<BeginError> for JobError<E> {
    fn from(error: BeginError) -> Self {
        Self::NotBegun(error)
    }
}
