//! Why something was not done: one type for each thing that one can ask for.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Fault, Key, Loss, Misuse, Tally, Tenancy, Ttl};

/// Why there is no guard.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody else held the lock for as long as the caller was willing to wait.
    #[non_exhaustive]
    TimedOut {
        /// The key that was wanted.
        key: Key,
        /// Who held it at the last answer.
        held_by: Option<Box<Tenancy>>,
        /// The place in line at the last answer, 1 being the next to have the lock; `None` where it was not waited in line.
        place: Option<u64>,
        /// How long the caller waited.
        waited: Duration,
        /// How often the store was asked.
        attempts: u32,
    },
    /// As many wait for the lock as [`Acquire::line_limit`](crate::Acquire::line_limit) allows; the request did not join them.
    #[non_exhaustive]
    LineFull {
        /// The key that was wanted.
        key: Key,
        /// Who holds it.
        held_by: Box<Tenancy>,
        /// How many wait for it.
        length: u64,
    },
    /// The store gave no answer. Whether the lock is held by anybody is not known.
    #[non_exhaustive]
    Unreachable {
        /// The key that was wanted.
        key: Key,
        /// The store, without any password.
        store: Arc<str>,
        /// The last fault, if one came in time.
        fault: Option<Fault>,
        /// How long the caller waited.
        waited: Duration,
        /// How often the store was asked.
        attempts: u32,
    },
    /// Too few stores of a quorum answered, or they abstain. Whether the lock is held by anybody is not known.
    #[non_exhaustive]
    NoQuorum {
        /// The key that was wanted.
        key: Key,
        /// What each store said, and how many had to grant.
        tally: Arc<Tally>,
        /// How long the caller waited.
        waited: Duration,
        /// How often the stores were asked.
        attempts: u32,
    },
    /// The store refuses, and will until somebody mends it.
    #[non_exhaustive]
    Refused {
        /// The key that was wanted.
        key: Key,
        /// What it says, and the remedy where there is one.
        fault: Fault,
    },
    /// The key has something that is no lock: a list, a hash. It was left alone.
    #[non_exhaustive]
    NotALock {
        /// The key.
        key: Key,
    },
    /// The fences of the key are used up: somebody wrote a number near 2⁵³ to its fence.
    #[non_exhaustive]
    FencesSpent {
        /// The key.
        key: Key,
    },
    /// The request makes no sense; nothing was sent.
    Misuse(Misuse),
    /// These locks are closed, or the runtime that keeps them has ended.
    #[non_exhaustive]
    Closed {
        /// Why.
        reason: Arc<str>,
    },
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut { key, held_by, place, waited, attempts: _ } => {
                write!(f, "{key}: not free within {}", Seconds(*waited))?;
                held_by.as_ref().map_or(Ok(()), |held_by| write!(f, ", held by {held_by}"))?;
                place.map_or(Ok(()), |place| write!(f, ", at place {place} in line"))
            }
            Self::LineFull { key, held_by, length } => {
                write!(f, "{key}: {length} wait for it already, held by {held_by}")
            }
            Self::Unreachable { key, store, fault, waited, attempts: _ } => match fault {
                Some(fault) => write!(f, "{key}: no answer within {}: {fault}", Seconds(*waited)),
                None => write!(f, "{key}: no answer within {} from {store}", Seconds(*waited)),
            },
            Self::NoQuorum { key, tally, waited: _, attempts: _ } => write!(f, "{key}: {tally}"),
            Self::Refused { key, fault } => write!(f, "{key}: {fault}"),
            Self::NotALock { key } => write!(
                f,
                "{key}: the store has something at this key that is no lock, and it was left alone: choose \
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

impl std::error::Error for LockError {}

impl From<Misuse> for LockError {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}

/// Why [`Guard::release`](crate::Guard::release) could not say that the lock was held to the end and is free now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lease had ended before: for some time the lock was not held, whoever else may have held it then.
    #[non_exhaustive]
    Expired {
        /// The key.
        key: Key,
    },
    /// Somebody broke the lease: from then on the lock was not held by this guard.
    #[non_exhaustive]
    Broken {
        /// The key.
        key: Key,
    },
    /// Somebody else holds the key: for some time the lock was not held by this guard.
    #[non_exhaustive]
    TakenByOther {
        /// Who.
        held_by: Box<Tenancy>,
    },
    /// The store gave no answer, or refused. The lease ends by itself.
    Unreachable(Fault),
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { key } => write!(f, "{key}: the lease had ended before it was released"),
            Self::Broken { key } => write!(f, "{key}: somebody broke the lease before it was released"),
            Self::TakenByOther { held_by } => {
                write!(f, "{}: held by {held_by} before it was released", held_by.key)
            }
            Self::Unreachable(fault) => {
                write!(f, "not released, so the lease will end by itself: {fault}")
            }
        }
    }
}

impl std::error::Error for ReleaseError {}

/// Why [`Guard::renew`](crate::Guard::renew) did not lengthen the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RenewError {
    /// The lease is lost; renewing brings nothing back.
    Lost(Loss),
    /// The store gave no answer, or refused. The lease is as it was, and the automatic renewal goes on.
    Unreachable(Fault),
    /// The renewal would pass the longest hold of [`Renewal::AtMost`](crate::Renewal::AtMost).
    #[non_exhaustive]
    PastLongestHold {
        /// The longest hold.
        at_most: Duration,
        /// What was asked for.
        ttl: Ttl,
    },
    /// The request makes no sense; nothing was sent.
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

impl std::error::Error for RenewError {}

impl From<Misuse> for RenewError {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}

/// Why work under [`Acquire::hold`](crate::Acquire::hold) has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldError {
    /// The lock was not had; the work never began.
    NotTaken(LockError),
    /// The lease was lost; the work was stopped at an await.
    Lost(Loss),
}

impl fmt::Display for HoldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTaken(error) => error.fmt(f),
            Self::Lost(loss) => write!(f, "stopped, because the lock was lost: {loss}"),
        }
    }
}

impl std::error::Error for HoldError {}

/// Why [`Locks::inspect`](crate::Locks::inspect) has nothing to show.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InspectError {
    /// The request makes no sense; nothing was sent.
    Misuse(Misuse),
    /// The store gave no answer, or refused.
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

impl std::error::Error for InspectError {}

impl From<Misuse> for InspectError {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}

/// Why [`Locks::connect`](crate::Locks::connect) has no locks to give.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL or a default cannot be used; nothing was sent.
    Misuse(Misuse),
    /// The store gave no answer within the outage limit.
    #[non_exhaustive]
    Unreachable {
        /// The last fault.
        fault: Fault,
        /// How long it was tried.
        waited: Duration,
    },
    /// The store refuses, and will until somebody mends it.
    Refused(Fault),
    /// The operating system gave no thread for [`LocksBuilder::own_thread`](crate::LocksBuilder::own_thread).
    #[non_exhaustive]
    NoThread {
        /// What it says.
        reason: Arc<str>,
    },
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misuse(misuse) => misuse.fmt(f),
            Self::Unreachable { fault, waited } => {
                write!(f, "no answer within {}: {fault}", Seconds(*waited))
            }
            Self::Refused(fault) => fault.fmt(f),
            Self::NoThread { reason } => write!(f, "no thread for the locks: {reason}"),
        }
    }
}

impl std::error::Error for ConnectError {}

impl From<Misuse> for ConnectError {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}

/// What [`Locks::close`](crate::Locks::close) could not bring to a good end in time. Leases end by themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseError {
    /// The keys of guards that were still held when the time was up: their guards are lost.
    pub taken_back: Vec<Key>,
    /// How many releases had not been confirmed by the store.
    pub unconfirmed: usize,
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.taken_back.iter().map(ToString::to_string).collect();
        write!(
            f,
            "closed with {} guards still held ({}) and {} releases unconfirmed",
            keys.len(),
            keys.join(", "),
            self.unconfirmed
        )
    }
}

impl std::error::Error for CloseError {}

/// A duration for people: tenths of a second.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.0.as_secs_f64())
    }
}
