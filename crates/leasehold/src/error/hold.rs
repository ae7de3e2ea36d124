//! The error of work under a lock.

use std::fmt;

use leasehold_core::Loss;

use super::LockError;

/// Why work under [`Acquire::hold`](crate::Acquire::hold) did not run, or lost the lock before it
/// ended. `T` is what the work returns.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use leasehold::{HoldError, Locks};
///
/// let locks = Locks::in_memory();
/// match locks.mutex("report").lock().hold(async |_held| "done").await {
///     Ok(value) => assert_eq!(value, "done"),
///     Err(HoldError::NotTaken(error)) => return Err(error.into()), // the work did not start
///     Err(error) => return Err(error.into()), // the lock was lost while the work ran
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldError<T = ()> {
    /// The lock was not acquired; the work did not start.
    NotTaken(LockError),
    /// The lease was lost; the work was stopped at an await.
    Lost(Loss),
    /// The work ran to its end, and only the release found that the lock had been lost: somebody
    /// else may have held it meanwhile.
    #[non_exhaustive]
    LostUnnoticed {
        /// The result of the work.
        value: T,
        /// How the lock was lost.
        loss: Loss,
    },
}

impl<T> HoldError<T> {
    /// The value that the work returned, if it ran to its end.
    pub fn into_value(self) -> Option<T> {
        match self {
            Self::LostUnnoticed { value, .. } => Some(value),
            _ => None,
        }
    }

    /// The same error with another value, or with none: `error.map(drop)`.
    pub fn map<U>(self, to: impl FnOnce(T) -> U) -> HoldError<U> {
        match self {
            Self::NotTaken(error) => HoldError::NotTaken(error),
            Self::Lost(loss) => HoldError::Lost(loss),
            Self::LostUnnoticed { value, loss } => HoldError::LostUnnoticed { value: to(value), loss },
        }
    }
}

impl<T> From<LockError> for HoldError<T> {
    fn from(error: LockError) -> Self {
        Self::NotTaken(error)
    }
}

/// Without the value, which may not be printable.
impl<T> fmt::Debug for HoldError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTaken(error) => f.debug_tuple("NotTaken").field(error).finish(),
            Self::Lost(loss) => f.debug_tuple("Lost").field(loss).finish(),
            Self::LostUnnoticed { value: _, loss } => {
                f.debug_struct("LostUnnoticed").field("loss", loss).finish_non_exhaustive()
            }
        }
    }
}

impl<T> fmt::Display for HoldError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTaken(error) => error.fmt(f),
            Self::Lost(loss) => write!(f, "stopped, because the lock was lost: {loss}"),
            Self::LostUnnoticed { value: _, loss } => {
                write!(f, "the work is done, but the lock was lost before its end: {loss}")
            }
        }
    }
}

impl<T> std::error::Error for HoldError<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotTaken(error) => Some(error),
            Self::Lost(loss) | Self::LostUnnoticed { loss, .. } => Some(loss),
        }
    }
}
