//! Errors of jobs: why a job was not done, or is not known to be done.

use std::fmt;

use leasehold_core::{Fault, Loss, Misuse};

use crate::error::{InspectError, LockError, source_of};

/// Why a job was not started.
///
/// ```
/// use leasehold::BeginError;
///
/// fn log(error: &BeginError) {
///     match error {
///         BeginError::NotTaken(error) if error.is_busy() => println!("somebody else does it"),
///         error => eprintln!("the job was not started: {error}"),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BeginError {
    /// Its lock was not acquired.
    NotTaken(LockError),
    /// It is unknown whether the job was done.
    NotKnown(InspectError),
}

impl fmt::Display for BeginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTaken(error) => error.fmt(f),
            Self::NotKnown(InspectError::Misuse(misuse)) => misuse.fmt(f),
            Self::NotKnown(error) => write!(f, "not known whether it was done: {error}"),
        }
    }
}

source_of! { BeginError { NotTaken NotKnown } }

impl From<Misuse> for BeginError {
    fn from(misuse: Misuse) -> Self {
        Self::NotTaken(misuse.into())
    }
}

/// Why a job that was done is not marked.
///
/// ```
/// use leasehold::MarkError;
///
/// fn log(error: &MarkError) {
///     match error {
///         MarkError::Lost(loss) => eprintln!("done, but perhaps not alone: {loss}"),
///         MarkError::Unreachable(fault) => eprintln!("done, and may be done again: {fault}"),
///         _ => eprintln!("{error}"),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MarkError {
    /// The lock was lost before the job ended: somebody else may have started it.
    Lost(Loss),
    /// The store did not answer while the lease lasted, or refused. If it did not answer, the job may
    /// be marked nevertheless, and is then not done again.
    Unreachable(Fault),
}

impl fmt::Display for MarkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(loss) => write!(f, "not marked as done, because the lock was lost: {loss}"),
            Self::Unreachable(fault) if fault.is_lasting() => write!(f, "not marked as done: {fault}"),
            Self::Unreachable(fault) => write!(f, "perhaps not marked as done: {fault}"),
        }
    }
}

source_of! { MarkError { Lost Unreachable } }

/// Why [`Once::run`](crate::Once::run) or [`Every::run`](crate::Every::run) has no result. `E` is
/// the error of the work.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use leasehold::{JobError, Locks};
///
/// let seed = Locks::in_memory().once("seed");
/// match seed.run(async |_held| Err::<(), _>("no disk space")).await {
///     Ok(outcome) => println!("{outcome:?}"),
///     Err(JobError::Failed(why)) => println!("it counts as not done: {why}"),
///     Err(error) => return Err(error.into()), // not started, lost, or not marked as done
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobError<E> {
    /// The work was not started.
    NotBegun(BeginError),
    /// The lock was lost; the work was stopped at an await, and counts as not done.
    Lost(Loss),
    /// The work failed, and counts as not done.
    Failed(E),
    /// The work was done, but the mark was not confirmed, so somebody may do it again: do not undo
    /// it.
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
            // Its text is that of the work's error, which may not implement `Error`.
            Self::Failed(_) => None,
        }
    }
}

impl<E> From<BeginError> for JobError<E> {
    fn from(error: BeginError) -> Self {
        Self::NotBegun(error)
    }
}
