//! Error types: one for each operation.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Fault, HolderInfo, Key, Loss, Misuse, QuorumReport, Ttl};

/// The reason why there is no guard.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
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
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
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
    /// Returns true if somebody else holds the lock, or too many requests wait for it.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::QueueFull { .. })
    }

    /// Returns true if a time limit ended the request: its own, or the outage limit for a store
    /// that does not answer.
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
            Self::Unreachable { key, store, fault, waited, attempts: _ } => match fault {
                Some(fault) => write!(f, "{key}: no answer within {}: {fault}", Seconds(*waited)),
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

impl From<Misuse> for LockError {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}

/// Why [`Guard::release`](crate::Guard::release) could not confirm that the lock was held to the
/// end and is free now.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use leasehold::{Locks, ReleaseError};
///
/// let locks = Locks::in_memory();
/// let guard = locks.mutex("invoice:42").lock().await?;
/// locks.break_lease("invoice:42", guard.fence()).await?;
/// // The work may have run without the lock: check it.
/// let released = guard.release().await;
/// assert!(matches!(released, Err(ReleaseError::Broken { .. } | ReleaseError::Expired { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lease had ended before the release: for some time this guard did not hold the lock, and
    /// somebody else may have.
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
                write!(f, "{}: held by {held_by} before it was released", held_by.key)
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
/// # tokio::runtime::Runtime::new()?.block_on(async {
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
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
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

impl std::error::Error for RenewError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Lost(loss) => Some(loss),
            Self::Unreachable(fault) => Some(fault),
            Self::Misuse(misuse) => Some(misuse),
            Self::PastLongestHold { .. } => None,
        }
    }
}

impl From<Misuse> for RenewError {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}

/// Why work under [`Acquire::hold`](crate::Acquire::hold) did not run, or lost the lock before it
/// ended. `T` is what the work returns.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use leasehold::{HoldError, Locks};
///
/// let locks = Locks::in_memory();
/// match locks.mutex("report").lock().hold(async |_held| "done").await {
///     Ok(value) => assert_eq!(value, "done"),
///     Err(HoldError::NotTaken(error)) => return Err(error.into()), // the work did not start
///     Err(error) => return Err(error.into()), // the lock was lost while the work ran
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
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

/// Why [`Locks::inspect`](crate::Locks::inspect) returned nothing.
///
/// ```
/// use leasehold::{FaultCause, InspectError};
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

impl std::error::Error for InspectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Misuse(misuse) => Some(misuse),
            Self::Store(fault) => Some(fault),
        }
    }
}

impl From<Misuse> for InspectError {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}

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

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Misuse(misuse) => Some(misuse),
            Self::Unreachable { fault, .. } | Self::Refused(fault) => Some(fault),
            Self::NoThread { .. } => None,
        }
    }
}

impl From<Misuse> for ConnectError {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}

/// The work that [`Locks::close`](crate::Locks::close) could not finish in time. The leases expire
/// on their own.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use leasehold::Locks;
/// use std::time::Duration;
///
/// let locks = Locks::in_memory();
/// let guard = locks.mutex("report").lock().await?;
/// let error = locks.close(Duration::ZERO).await.unwrap_err();
/// assert_eq!(error.taken_back[0].to_string(), "report"); // its guard is lost now
/// assert!(!guard.is_held());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
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

/// A duration for people: milliseconds below a second, and tenths of a second above.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < Duration::from_secs(1) {
            write!(f, "{} ms", self.0.as_millis())
        } else {
            write!(f, "{:.1} s", self.0.as_secs_f64())
        }
    }
}
