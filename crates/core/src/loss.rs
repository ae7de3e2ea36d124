//! Why a lease was lost.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Fault, HolderInfo, Key, QuorumReport};

/// Why a lease was lost.
///
/// ```
/// # use leasehold_core::Loss;
/// fn advice(loss: &Loss) -> String {
///     match loss {
///         Loss::Expired { fault: Some(fault) } => format!("repair the store: {fault}"),
///         Loss::TakenByOther { held_by, .. } => format!("undo what {held_by} may have seen"),
///         Loss::Broken { .. } => "ask the operators".into(),
///         other => other.to_string(),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// It expired before a renewal was answered.
    Expired {
        /// The store's last answer to a renewal, if that was a fault.
        fault: Option<Box<Fault>>,
    },
    /// It was held for as long as [`Renewal::AtMost`](crate::Renewal::AtMost) allows.
    HeldTooLong {
        /// The longest hold.
        at_most: Duration,
    },
    /// The store reports that somebody else holds the key.
    TakenByOther {
        /// The other holder.
        held_by: Box<HolderInfo>,
        /// For a quorum: the vote of each member.
        quorum_report: Option<Arc<QuorumReport>>,
    },
    /// The store does not have the lease any more: it was deleted, it expired there, or the store
    /// lost its state; or it was broken, and the notice of that did not arrive.
    Gone {
        /// The key.
        key: Key,
        /// For a quorum: the vote of each member.
        quorum_report: Option<Arc<QuorumReport>>,
    },
    /// Somebody broke the lease.
    Broken {
        /// The key.
        key: Key,
        /// For a quorum: the vote of each member.
        quorum_report: Option<Arc<QuorumReport>>,
    },
    /// This process transferred the lock to another one.
    Transferred,
    /// This process stopped keeping its locks.
    Closed {
        /// The reason.
        reason: Arc<str>,
    },
}

impl Loss {
    /// The loss that a store reports with [`HoldAnswer::NotHeld`](crate::HoldAnswer::NotHeld).
    #[must_use]
    pub fn not_held(key: Key, held_by: Option<HolderInfo>) -> Self {
        match held_by {
            None => Self::Gone { key, quorum_report: None },
            Some(held_by) => Self::TakenByOther { held_by: held_by.into(), quorum_report: None },
        }
    }

    /// Adds how the members of a quorum voted, unless it says so already.
    pub fn explain(&mut self, votes: &Arc<QuorumReport>) {
        if let Self::TakenByOther { quorum_report, .. }
        | Self::Gone { quorum_report, .. }
        | Self::Broken { quorum_report, .. } = self
        {
            quorum_report.get_or_insert_with(|| votes.clone());
        }
    }

    /// How the members of a quorum voted, if a quorum reported the loss.
    #[must_use]
    pub fn quorum_report(&self) -> Option<&Arc<QuorumReport>> {
        match self {
            Self::TakenByOther { quorum_report, .. }
            | Self::Gone { quorum_report, .. }
            | Self::Broken { quorum_report, .. } => quorum_report.as_ref(),
            Self::Expired { fault: Some(fault) } => fault.quorum_report.as_ref(),
            _ => None,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { fault: None } => write!(f, "the lease ended without having been renewed"),
            Self::Expired { fault: Some(fault) } => {
                write!(f, "the lease ended, and could not be renewed: {fault}")
            }
            Self::HeldTooLong { at_most } => write!(f, "the longest hold of {at_most:?} has ended"),
            Self::TakenByOther { held_by, .. } => write!(f, "{} is held by {held_by}", held_by.key),
            Self::Gone { key, quorum_report: Some(votes) } => write!(f, "{key}: the lease is gone: {votes}"),
            Self::Gone { key, quorum_report: None } => {
                write!(
                    f,
                    "{key}: the store has the lease no more (expired there, deleted, broken, or the store lost its state)"
                )
            }
            Self::Broken { key, .. } => write!(f, "{key}: somebody broke the lease"),
            Self::Transferred => write!(f, "the lock was transferred to another process"),
            Self::Closed { reason } => write!(f, "the lease is no longer renewed: {reason}"),
        }
    }
}

impl std::error::Error for Loss {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Expired { fault: Some(fault) } => Some(&**fault),
            _ => self.quorum_report().map(|votes| &**votes as _),
        }
    }
}
