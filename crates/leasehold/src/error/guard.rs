//! Errors of a guard.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Fault, HolderInfo, Key, Loss, Misuse, QuorumReport, Ttl};

use super::source_of;

/// Why [`Guard::release`](crate::Guard::release) could not confirm that the lock was held to the
/// end and is free now.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use leasehold::{Locks, ReleaseError};
///
/// let locks = Locks::in_memory();
/// let guard = locks.mutex("invoice:42").lock().await?;
/// locks.break_lease("invoice:42", guard.fence()).await?;
/// // The work may have run without the lock: check it.
/// let released = guard.release().await;
/// assert!(matches!(released, Err(ReleaseError::Broken { .. } | ReleaseError::Expired { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lease had ended before the release: for some time somebody else may have held the lock.
    #[non_exhaustive]
    Expired {
        /// The key.
        key: Key,
        /// For a quorum: the vote of each member, if one was cast.
        quorum_report: Option<Arc<QuorumReport>>,
    },
    /// Somebody broke the lease: from then on this guard did not hold the lock.
    #[non_exhaustive]
    Broken {
        /// The key.
        key: Key,
        /// For a quorum: the vote of each member.
        quorum_report: Option<Arc<QuorumReport>>,
    },
    /// Somebody else holds the key: for some time this guard did not hold the lock.
    #[non_exhaustive]
    TakenByOther {
        /// The other holder.
        held_by: Box<HolderInfo>,
        /// For a quorum: the vote of each member.
        quorum_report: Option<Arc<QuorumReport>>,
    },
    /// These locks had been closed, or the runtime that kept them had ended, and the lease was
    /// given up then.
    #[non_exhaustive]
    Closed {
        /// The reason.
        reason: Arc<str>,
    },
    /// The store did not answer, or refused. The lease expires on its own.
    Unreachable(Fault),
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { key, .. } => write!(f, "{key}: the lease had ended before it was released"),
            Self::Broken { key, .. } => write!(f, "{key}: somebody broke the lease before it was released"),
            Self::TakenByOther { held_by, .. } => {
                write!(
                    f,
                    "{}: taken by another holder before it was released: held by {held_by}",
                    held_by.key
                )
            }
            Self::Closed { reason } => write!(f, "given up before it was released: {reason}"),
            Self::Unreachable(fault) => {
                write!(f, "not released, so the lease will end by itself: {fault}")
            }
        }
    }
}

impl std::error::Error for ReleaseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreachable(fault) => Some(fault),
            Self::Expired { quorum_report, .. }
            | Self::Broken { quorum_report, .. }
            | Self::TakenByOther { quorum_report, .. } => quorum_report.as_ref().map(|votes| &**votes as _),
            Self::Closed { .. } => None,
        }
    }
}

impl ReleaseError {
    /// The error of a release that came after the loss of a lease on this key.
    pub(crate) fn after(loss: Loss, key: &Key) -> Self {
        let votes = loss.quorum_report().cloned();
        match loss {
            Loss::TakenByOther { held_by, quorum_report } => Self::TakenByOther { held_by, quorum_report },
            Loss::Broken { key, quorum_report } => Self::Broken { key, quorum_report },
            Loss::Closed { reason } => Self::Closed { reason },
            Loss::Gone { key, quorum_report } => Self::Expired { key, quorum_report },
            _ => Self::Expired { key: key.clone(), quorum_report: votes },
        }
    }
}

/// Why [`Guard::renew`](crate::Guard::renew) did not extend the lease.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use leasehold::{Locks, RenewError};
/// use std::time::Duration;
///
/// let guard = Locks::in_memory().mutex("import").lock().await?;
/// match guard.renew(Duration::from_secs(60)).await {
///     Ok(lasts) => println!("for {lasts:?} from now"),
///     Err(RenewError::Lost(why)) => println!("stop: {why}"),
///     Err(error) => println!("as before: {error}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RenewError {
    /// The lease is lost; a renewal cannot bring it back.
    Lost(Loss),
    /// The store did not answer, or refused. The lease is unchanged, and automatic renewal
    /// continues.
    Unreachable(Fault),
    /// The renewal would exceed the longest hold of [`Renewal::AtMost`](crate::Renewal::AtMost).
    #[non_exhaustive]
    PastLongestHold {
        /// The longest hold.
        at_most: Duration,
        /// The requested TTL.
        ttl: Ttl,
    },
    /// The request is invalid; nothing was sent.
    Misuse(Misuse),
}

impl fmt::Display for RenewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(loss) => loss.fmt(f),
            Self::Unreachable(fault) => write!(f, "not renewed, the lease is as it was: {fault}"),
            Self::PastLongestHold { at_most, ttl } => {
                write!(f, "a renewal for {ttl} would pass the longest hold of {at_most:?}")
            }
            Self::Misuse(misuse) => misuse.fmt(f),
        }
    }
}

source_of! { RenewError { Lost Unreachable Misuse; PastLongestHold } }
