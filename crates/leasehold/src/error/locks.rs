//! Errors of what is asked of all locks together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Fault, Key, Misuse};

use super::{Seconds, source_of, undone};

/// Why [`Locks::inspect`](crate::Locks::inspect) returned nothing.
///
/// ```
/// use leasehold::InspectError;
///
/// /// Whether another try makes sense.
/// fn is_worth_another_try(error: &InspectError) -> bool {
///     match error {
///         InspectError::Store(fault) => !fault.is_lasting(),
///         _ => false,
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InspectError {
    /// The request is invalid; nothing was sent.
    Misuse(Misuse),
    /// The store did not answer, or refused.
    Store(Fault),
}

impl fmt::Display for InspectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misuse(misuse) => misuse.fmt(f),
            Self::Store(fault) => fault.fmt(f),
        }
    }
}

source_of! { InspectError { Misuse Store } }

/// Why [`Locks::connect`](crate::Locks::connect) failed.
///
/// ```
/// # async fn example() -> Result<(), leasehold::ConnectError> {
/// use leasehold::{ConnectError, FaultCause, Locks};
///
/// match Locks::connect("redis://10.0.0.5").await {
///     Err(ConnectError::Refused(fault)) if fault.cause == FaultCause::Authentication => {
///         println!("check the password: {fault}");
///     }
///     other => drop(other?),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL or a default is invalid; nothing was sent.
    Misuse(Misuse),
    /// The store did not answer within the outage limit.
    #[non_exhaustive]
    Unreachable {
        /// The last fault.
        fault: Fault,
        /// How long connecting was tried.
        waited: Duration,
    },
    /// The store refuses, and will refuse until somebody repairs it.
    Refused(Fault),
    /// The operating system could not start the thread for
    /// [`LocksBuilder::own_thread`](crate::LocksBuilder::own_thread).
    #[non_exhaustive]
    NoThread {
        /// The operating system's error.
        reason: Arc<str>,
    },
    /// These locks are closed, or the runtime that keeps them has ended.
    #[non_exhaustive]
    Closed {
        /// The reason.
        reason: Arc<str>,
    },
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misuse(misuse) => misuse.fmt(f),
            Self::Unreachable { fault, waited } => {
                write!(f, "{} within {}: {fault}", undone(fault), Seconds(*waited))
            }
            Self::Refused(fault) => fault.fmt(f),
            Self::NoThread { reason } => write!(f, "no thread for the locks: {reason}"),
            Self::Closed { reason } => write!(f, "these locks are closed: {reason}"),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Misuse(misuse) => Some(misuse),
            Self::Unreachable { fault, .. } | Self::Refused(fault) => Some(fault),
            Self::NoThread { .. } | Self::Closed { .. } => None,
        }
    }
}

/// The work that [`Locks::close`](crate::Locks::close) could not finish in time. The leases expire
/// on their own.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use leasehold::Locks;
/// use std::time::Duration;
///
/// let locks = Locks::in_memory();
/// let guard = locks.mutex("report").lock().await?;
/// let error = locks.close(Duration::ZERO).await.unwrap_err();
/// assert_eq!(error.taken_back[0].to_string(), "report"); // its guard is lost now
/// assert!(!guard.is_held());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseError {
    /// The keys of guards that were still held when the time was up. These guards are lost.
    pub taken_back: Vec<Key>,
    /// The number of releases that the store had not confirmed.
    pub unconfirmed: usize,
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.taken_back.iter().map(ToString::to_string).collect();
        f.write_str("closed before everything was released")?;
        if !keys.is_empty() {
            write!(f, "; still held: {}", keys.join(", "))?;
        }
        match self.unconfirmed {
            0 => Ok(()),
            unconfirmed => write!(f, "; releases that the store did not confirm: {unconfirmed}"),
        }
    }
}

impl std::error::Error for CloseError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: it counted the keys and called them guards, so that a guard of two keys was "2
    /// guards"; and without any it said "0 guards still held ()".
    #[test]
    fn a_close_names_the_keys_that_were_held_and_counts_unconfirmed_releases() {
        let keys = ["a", "b"].map(|name| Key::new(name).unwrap());
        let error = |taken_back: &[Key], unconfirmed| {
            CloseError { taken_back: taken_back.to_vec(), unconfirmed }.to_string()
        };
        assert_eq!(error(&keys, 0), "closed before everything was released; still held: a, b");
        let unconfirmed = "closed before everything was released; releases that the store did not confirm: 2";
        assert_eq!(error(&[], 2), unconfirmed);
    }
}
