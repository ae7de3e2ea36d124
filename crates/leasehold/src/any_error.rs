//! One error type that all others convert into.

use std::fmt;

use leasehold_core::{Fault, FaultCause, Loss, Misuse, QuorumReport};

use crate::breaking::BreakError;
use crate::error::{CloseError, ConnectError, HoldError, InspectError, LockError, ReleaseError, RenewError};
use crate::recipe::{BeginError, JobError, MarkError};
use crate::transferring::TransferError;

/// Any error of this crate but those of the module `postgres`, for functions that connect, lock, hold
/// and close, with `?` after each.
///
/// ```
/// use leasehold::Locks;
///
/// async fn charge(store: &str) -> Result<(), leasehold::Error> {
///     let locks = Locks::connect(store).await?;
///     let guard = locks.mutex("invoice:42").lock().await?;
///     guard.release().await?;
///     locks.mutex("ledger").lock().hold(async |_| ()).await?;
///     locks.close(std::time::Duration::from_secs(1)).await?;
///     Ok(())
/// }
/// # tokio::runtime::Runtime::new().unwrap().block_on(charge("memory:")).unwrap();
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The connection failed: there are no locks.
    Connect(ConnectError),
    /// The lock was not acquired: there is no guard.
    Lock(LockError),
    /// The work did not run, or lost the lock before it ended. This error leaves out what the work
    /// returned; match the [`HoldError`] to get it.
    Hold(HoldError),
    /// The release found that the lock had not been held to the end, or the store did not confirm
    /// it.
    Release(ReleaseError),
    /// The lease was not extended.
    Renew(RenewError),
    /// The lock was not transferred, or not adopted.
    Transfer(TransferError),
    /// The state of a lock could not be read.
    Inspect(InspectError),
    /// No lease was broken.
    Break(BreakError),
    /// The locks were closed, but some guards or releases were left.
    Close(CloseError),
    /// A job was not started.
    Begin(BeginError),
    /// A job was done, but could not be marked as done.
    Mark(MarkError),
    /// A lock was lost.
    Lost(Loss),
    /// The request is invalid; nothing was sent.
    Misuse(Misuse),
    /// The work of a job failed.
    Work(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Returns true if somebody else holds the lock, or too many requests wait for it.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.lock_error().is_some_and(LockError::is_busy)
    }

    /// True if a time limit ended the request: its own, or the outage limit for a silent store.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        let timed_out = |fault: &Fault| fault.cause == FaultCause::TimedOut;
        self.lock_error().is_some_and(LockError::is_timeout)
            || matches!(self, Self::Connect(ConnectError::Unreachable { .. }))
            || self.fault().is_some_and(timed_out)
    }

    /// Returns true if the same request may succeed later without any repair. A lost lock stays
    /// lost.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.lock_error().is_some_and(LockError::is_retryable)
            || self.lock_error().is_none() && self.fault().is_some_and(|fault| !fault.is_lasting())
    }

    /// The store's last fault, if a fault is the cause; of a quorum, the fault of its first faulty
    /// member.
    #[must_use]
    pub fn fault(&self) -> Option<&Fault> {
        self.chain().filter_map(|error| error.downcast_ref()).last()
    }

    /// How each member of a quorum voted, if a quorum gave this error.
    ///
    /// ```
    /// # fn show(error: leasehold::Error) {
    /// if let Some(votes) = error.quorum_report() {
    ///     for (member, vote) in &votes.members {
    ///         println!("{member}: {vote}");
    ///     }
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn quorum_report(&self) -> Option<&QuorumReport> {
        self.chain().find_map(|error| error.downcast_ref())
    }

    fn chain(&self) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
        std::iter::successors(Some(self.inner()), |error| error.source())
    }

    fn lock_error(&self) -> Option<&LockError> {
        match self {
            Self::Lock(error)
            | Self::Hold(HoldError::NotTaken(error))
            | Self::Begin(BeginError::NotTaken(error)) => Some(error),
            _ => None,
        }
    }

    fn inner(&self) -> &(dyn std::error::Error + 'static) {
        match self {
            Self::Connect(error) => error,
            Self::Lock(error) => error,
            Self::Hold(error) => error,
            Self::Release(error) => error,
            Self::Renew(error) => error,
            Self::Transfer(error) => error,
            Self::Inspect(error) => error,
            Self::Break(error) => error,
            Self::Close(error) => error,
            Self::Begin(error) => error,
            Self::Mark(error) => error,
            Self::Lost(loss) => loss,
            Self::Misuse(misuse) => misuse,
            Self::Work(error) => &**error,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.inner(), f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // This error displays the inner error's text, so it also takes over its source: nothing is
        // printed twice.
        self.inner().source()
    }
}

macro_rules! from {
    ($($source:ty => $error:ident::$variant:ident),* $(,)?) => {$(
        impl From<$source> for $error {
            fn from(source: $source) -> Self {
                Self::$variant(source)
            }
        }
    )*};
}

from! {
    ConnectError => Error::Connect,
    LockError => Error::Lock,
    ReleaseError => Error::Release,
    RenewError => Error::Renew,
    TransferError => Error::Transfer,
    InspectError => Error::Inspect,
    BreakError => Error::Break,
    CloseError => Error::Close,
    BeginError => Error::Begin,
    MarkError => Error::Mark,
    Loss => Error::Lost,
    Misuse => Error::Misuse,
    Misuse => ConnectError::Misuse,
    Misuse => LockError::Misuse,
    Misuse => RenewError::Misuse,
    Misuse => TransferError::Misuse,
    Fault => TransferError::Unconfirmed,
    Misuse => InspectError::Misuse,
    Misuse => BreakError::Misuse,
}

impl<T> From<HoldError<T>> for Error {
    fn from(error: HoldError<T>) -> Self {
        Self::Hold(error.map(drop))
    }
}

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<JobError<E>> for Error {
    fn from(error: JobError<E>) -> Self {
        match error {
            JobError::NotBegun(error) => Self::Begin(error),
            JobError::Lost(loss) => Self::Lost(loss),
            JobError::Failed(error) => Self::Work(error.into()),
            JobError::NotMarked(error) => Self::Mark(error),
        }
    }
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;
    use crate::Guard;

    /// Every `Result` has room for its error, and clippy warns the authors of functions whose error
    /// takes 128 bytes, as this one did.
    #[test]
    fn a_result_is_not_much_larger_than_a_guard() {
        let sizes = [size_of::<Guard>(), size_of::<Loss>(), size_of::<LockError>(), size_of::<Error>()];
        assert_eq!(sizes, [40, 32, 80, 96]);
        assert_eq!(size_of::<Result<Guard, Error>>(), size_of::<Error>());
    }
}
