//! The error of a request for a lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Fault, HolderInfo, Key, Misuse, NotGranted, QuorumReport};

use super::{Seconds, undone};

/// Why a request for a lock did not return a guard.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use leasehold::{LockError, Locks};
/// use std::time::Duration;
///
/// let locks = Locks::in_memory();
/// let _held = locks.mutex("invoice:42").lock().await?;
/// match locks.mutex("invoice:42").lock().within(Duration::from_millis(10)).await {
///     Ok(_guard) => unreachable!("somebody else holds it"),
///     Err(LockError::TimedOut { held_by, .. }) => println!("busy: {held_by:?}"),
///     Err(error) => return Err(error.into()), // the store is down, for instance
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody else held the lock for the whole time that the caller was willing to wait.
    #[non_exhaustive]
    TimedOut {
        /// The requested key.
        key: Key,
        /// The holder at the last answer.
        held_by: Option<Box<HolderInfo>>,
        /// The position in the queue at the last answer, 1 being next; `None` if the request was
        /// not in a queue.
        place: Option<u64>,
        /// How long the caller waited.
        waited: Duration,
        /// How often the store was asked.
        attempts: u32,
        /// For a quorum: the vote of each member. A request in a queue asks the member with that
        /// queue more often than all of them, so this may be older than `held_by`.
        quorum_report: Option<Arc<QuorumReport>>,
    },
    /// The queue is as long as [`Acquire::queue_limit`](crate::Acquire::queue_limit) allows; the
    /// request did not join it.
    #[non_exhaustive]
    QueueFull {
        /// The requested key.
        key: Key,
        /// The holder.
        held_by: Box<HolderInfo>,
        /// The number of waiters.
        length: u64,
        /// For a quorum: the vote of each member.
        quorum_report: Option<Arc<QuorumReport>>,
    },
    /// The store did not answer. Whether anybody holds the lock is unknown.
    #[non_exhaustive]
    Unreachable {
        /// The requested key.
        key: Key,
        /// The store, without any password.
        store: Arc<str>,
        /// The last fault, if one came in time.
        fault: Option<Box<Fault>>,
        /// How long the caller waited.
        waited: Duration,
        /// How often the store was asked.
        attempts: u32,
    },
    /// Too few members of a quorum answered, or they abstain. Whether anybody holds the lock is
    /// unknown.
    #[non_exhaustive]
    NoQuorum {
        /// The requested key.
        key: Key,
        /// The vote of each member, and how many had to grant.
        quorum_report: Arc<QuorumReport>,
        /// How long the caller waited.
        waited: Duration,
        /// How often the stores were asked.
        attempts: u32,
    },
    /// The store refuses, and will refuse until somebody repairs it.
    #[non_exhaustive]
    Refused {
        /// The requested key.
        key: Key,
        /// The store's error, and the remedy if there is one.
        fault: Fault,
    },
    /// The key contains data that is not a lock, such as a list or a hash. It was left unchanged.
    #[non_exhaustive]
    NotALock {
        /// The key.
        key: Key,
    },
    /// The fences of the key are used up, because somebody wrote a number near 2⁵³ to its fence.
    #[non_exhaustive]
    FencesSpent {
        /// The key.
        key: Key,
    },
    /// The request is invalid; nothing was sent.
    Misuse(Misuse),
    /// These locks are closed, or the runtime that keeps them has ended.
    #[non_exhaustive]
    Closed {
        /// The reason.
        reason: Arc<str>,
    },
}

impl LockError {
    /// The error of a request that this store did not grant, with the votes if a quorum refused.
    pub(crate) fn of(
        why: NotGranted,
        store: &str,
        key: Key,
        waited: Duration,
        attempts: u32,
        quorum_report: Option<Arc<QuorumReport>>,
    ) -> Self {
        match why {
            NotGranted::Busy { held_by, before } => Self::TimedOut {
                key: held_by.as_ref().map_or(key, |held_by| held_by.key.clone()),
                held_by: held_by.map(Box::new),
                place: before.map(|before| before + 1),
                waited,
                attempts,
                quorum_report,
            },
            NotGranted::QueueFull { held_by, length } => {
                let key = held_by.key.clone();
                Self::QueueFull { key, held_by: Box::new(held_by), length, quorum_report }
            }
            NotGranted::Silent { fault: Some(Fault { quorum_report: Some(quorum_report), .. }) } => {
                Self::NoQuorum { key, quorum_report, waited, attempts }
            }
            NotGranted::Silent { fault } => {
                Self::Unreachable { key, store: store.into(), fault: fault.map(Box::new), waited, attempts }
            }
            NotGranted::Refused(fault) => Self::Refused { key, fault },
            NotGranted::NotALock { key } => Self::NotALock { key },
            NotGranted::FencesSpent { key } => Self::FencesSpent { key },
        }
    }

    /// Returns true if somebody else holds the lock, or too many requests wait for it.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::QueueFull { .. })
    }

    /// True if a time limit ended the request: its own, or the outage limit for a silent store.
    #[must_use]
    pub const fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::Unreachable { .. } | Self::NoQuorum { .. })
    }

    /// Returns true if the same request may succeed later without any repair.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        self.is_busy() || self.is_timeout()
    }

    /// The store's last fault, if a fault is the cause; of a quorum, the fault of its first faulty
    /// member.
    #[must_use]
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Unreachable { fault, .. } => fault.as_deref(),
            Self::Refused { fault, .. } => Some(fault),
            Self::NoQuorum { quorum_report, .. } => quorum_report.faults().next(),
            _ => None,
        }
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut { key, held_by, place, waited, attempts: _, quorum_report: _ } => {
                write!(f, "{key}: not free within {}", Seconds(*waited))?;
                held_by.as_ref().map_or(Ok(()), |held_by| write!(f, ", held by {held_by}"))?;
                place.map_or(Ok(()), |place| write!(f, ", at place {place} in the queue"))
            }
            Self::QueueFull { key, held_by, length, quorum_report: _ } => {
                write!(f, "{key}: {length} wait for it already, held by {held_by}")
            }
            Self::Unreachable { key, store, fault, waited, attempts } => match fault {
                Some(fault) => write!(f, "{key}: {} within {}: {fault}", undone(fault), Seconds(*waited)),
                None if *attempts == 0 => write!(f, "{key}: the time was up before {store} was asked"),
                None => write!(f, "{key}: no answer within {} from {store}", Seconds(*waited)),
            },
            Self::NoQuorum { key, quorum_report, waited: _, attempts: _ } => {
                write!(f, "{key}: {quorum_report}")
            }
            Self::Refused { key, fault } => write!(f, "{key}: {fault}"),
            Self::NotALock { key } => write!(
                f,
                "{key}: the store has something at this key that is not a lock, and it was left alone: choose \
                 another key, or delete it there"
            ),
            Self::FencesSpent { key } => {
                write!(
                    f,
                    "{key}: its fences are used up: its fence entry was written to by others, delete it there"
                )
            }
            Self::Misuse(misuse) => misuse.fmt(f),
            Self::Closed { reason } => write!(f, "these locks are closed: {reason}"),
        }
    }
}

impl std::error::Error for LockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreachable { fault: Some(fault), .. } => Some(&**fault),
            Self::Refused { fault, .. } => Some(fault),
            Self::NoQuorum { quorum_report, .. }
            | Self::TimedOut { quorum_report: Some(quorum_report), .. }
            | Self::QueueFull { quorum_report: Some(quorum_report), .. } => Some(&**quorum_report),
            Self::Misuse(misuse) => Some(misuse),
            _ => None,
        }
    }
}
