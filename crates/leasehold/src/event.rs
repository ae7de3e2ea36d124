//! Events of the locks of a process.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use leasehold_core::{Attempt, Claim, Fault, Fence, Holder, HolderInfo, Key, Label, Loss, Ttl};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::ReusableBoxFuture;

use crate::error::LockError;

/// An event of the locks of this process; [`Locks::events`](crate::Locks::events) reports them.
///
/// A request that asked the store at least once ends in [`Acquired`](Self::Acquired) or
/// [`GaveUp`](Self::GaveUp). What was acquired ends in [`Released`](Self::Released),
/// [`NotReleased`](Self::NotReleased), [`Transferred`](Self::Transferred) or [`Lost`](Self::Lost).
/// Each of these is reported once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A request was refused, and waits. The event is repeated only when the holder or the position
    /// changes.
    #[non_exhaustive]
    Waiting {
        /// The request.
        request: RequestInfo,
        /// The holder.
        held_by: HolderInfo,
        /// The position in the queue, 1 being next; `None` if the request is not in a queue.
        place: Option<u64>,
        /// How long the request has taken so far.
        waited: Duration,
        /// How often it was refused so far, this time included.
        refusals: u32,
    },
    /// A lock was acquired.
    #[non_exhaustive]
    Acquired {
        /// The new holder.
        request: RequestInfo,
        /// Its fence.
        fence: Fence,
        /// How long the lease lasts without renewal.
        ttl: Ttl,
        /// How long the request took.
        waited: Duration,
        /// How often the store was asked.
        attempts: u32,
        /// How often the request was refused and kept waiting.
        refusals: u32,
    },
    /// A request ended without a guard.
    #[non_exhaustive]
    GaveUp {
        /// The request.
        request: RequestInfo,
        /// The error that its caller received; `None` if the caller dropped the request.
        why: Option<Arc<LockError>>,
        /// How long the request took.
        waited: Duration,
        /// How often the request was refused and kept waiting.
        refusals: u32,
    },
    /// A lease was extended.
    #[non_exhaustive]
    Renewed {
        /// The holder.
        request: RequestInfo,
        /// Its fence.
        fence: Fence,
        /// How long the lease remains valid from now.
        remaining: Duration,
    },
    /// A holder released a lock, and the store confirmed it.
    #[non_exhaustive]
    Released {
        /// The former holder.
        request: RequestInfo,
        /// Its fence.
        fence: Fence,
        /// How long it was held.
        held_for: Duration,
    },
    /// A holder released a lock, but the store never confirmed it: the lease expires on its own.
    #[non_exhaustive]
    NotReleased {
        /// The former holder.
        request: RequestInfo,
        /// Its fence.
        fence: Fence,
        /// How long it was held.
        held_for: Duration,
        /// The store's last fault.
        fault: Fault,
    },
    /// A holder transferred a lock to another process, with
    /// [`Guard::transfer`](crate::Guard::transfer). Its adoption is [`Acquired`](Self::Acquired)
    /// there.
    #[non_exhaustive]
    Transferred {
        /// The former holder.
        request: RequestInfo,
        /// The fence, which remains.
        fence: Fence,
        /// How long it was held.
        held_for: Duration,
    },
    /// A lease was lost while its holder relied on it.
    #[non_exhaustive]
    Lost {
        /// The former holder.
        request: RequestInfo,
        /// Its fence.
        fence: Fence,
        /// How long it was held.
        held_for: Duration,
        /// How the lease was lost.
        why: Loss,
    },
    /// This process broke somebody's lease, with [`Locks::break_lease`](crate::Locks::break_lease).
    #[non_exhaustive]
    Broke {
        /// The holder that lost its lease.
        holding: HolderInfo,
    },
    /// The store failed or refused a request.
    #[non_exhaustive]
    StoreFault {
        /// The fault.
        fault: Fault,
        /// The number of faults since the store's last answer, this one included.
        in_a_row: u32,
    },
    /// The store answers again.
    #[non_exhaustive]
    StoreBack {
        /// The store, without any password.
        store: Arc<str>,
        /// The number of faults.
        faults: u32,
    },
    /// A member of a quorum fails or refuses requests, after it had served them. This is reported
    /// once, until the member is back.
    #[non_exhaustive]
    MemberDown {
        /// The fault, which names the member.
        fault: Fault,
    },
    /// A member of a quorum serves requests again.
    #[non_exhaustive]
    MemberBack {
        /// The member, without any password.
        store: Arc<str>,
    },
    /// Waiters cannot be notified of their turn, and poll instead. This is reported once, until
    /// push works again.
    #[non_exhaustive]
    PushDown {
        /// The reason, and the remedy if there is one.
        fault: Fault,
    },
    /// Waiters are notified of their turn again.
    #[non_exhaustive]
    PushBack {
        /// The store, without any password.
        store: Arc<str>,
    },
    /// Two lock names of this program are the same key, and so the same lock, under the naming of
    /// another library. This is reported once for each name except the first.
    #[non_exhaustive]
    NamesCollide {
        /// The key.
        key: Key,
        /// The first name that was used for it, and this one; escaped for one line.
        names: [String; 2],
    },
    /// Events came faster than they were read: the oldest ones were dropped.
    #[non_exhaustive]
    Missed {
        /// The number of dropped events.
        events: u64,
    },
}

/// A request for a lock, or its holder.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use leasehold::{Event, Locks};
///
/// let locks = Locks::in_memory();
/// let mut events = locks.events();
/// let _guard = locks.mutex("invoice:42").label("web-3").lock().await?;
/// if let Some(Event::Acquired { request, .. }) = events.next().await {
///     assert_eq!(request.keys().next().unwrap().to_string(), "invoice:42");
///     assert_eq!(request.label.unwrap().as_str(), "web-3");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestInfo {
    /// The keys, and the mode of each.
    pub claim: Claim,
    /// The id of the holding, or of the attempt to acquire it; shown by its first eight digits.
    pub holder: Holder,
    /// The holder's description of itself.
    pub label: Option<Label>,
}

impl RequestInfo {
    /// The keys, in byte order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Key> {
        self.claim.keys()
    }
}

impl From<&Attempt> for RequestInfo {
    fn from(attempt: &Attempt) -> Self {
        let Attempt { claim, holder, label, .. } = attempt.clone();
        Self { claim, holder, label }
    }
}

/// `invoice:42 (1f0c9a2e, web-3)`.
impl fmt::Display for RequestInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", Keys(&self.claim), self.holder)?;
        self.label.as_ref().map_or(Ok(()), |label| write!(f, ", {label}"))?;
        f.write_str(")")
    }
}

/// All keys of a claim, on one line.
pub(crate) struct Keys<'a>(pub(crate) &'a Claim);

impl fmt::Display for Keys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, key) in self.0.keys().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            write!(f, "{comma}{key}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting { request, held_by, place: None, .. } => {
                write!(f, "{request} waits, held by {held_by}")
            }
            Self::Waiting { request, held_by, place: Some(place), .. } => {
                write!(f, "{request} waits at place {place}, held by {held_by}")
            }
            Self::Acquired { request, fence, waited, .. } => {
                write!(f, "{request} acquired with fence {fence} after {waited:.1?}")
            }
            Self::GaveUp { request, why: None, waited, .. } => {
                write!(f, "{request} given up after {waited:.1?}: its caller dropped it")
            }
            Self::GaveUp { request, why: Some(why), waited, .. } => {
                write!(f, "{request} given up after {waited:.1?}: {why}")
            }
            Self::Renewed { request, remaining, .. } => {
                write!(f, "{request} renewed, valid for {remaining:.1?}")
            }
            Self::Released { request, held_for, .. } => write!(f, "{request} released after {held_for:.1?}"),
            Self::NotReleased { request, held_for, fault, .. } => {
                write!(
                    f,
                    "{request} released after {held_for:.1?}, but the store did not confirm it: {fault}"
                )
            }
            Self::Transferred { request, held_for, .. } => {
                write!(f, "{request} transferred after {held_for:.1?}")
            }
            Self::Lost { request, held_for, why, .. } => {
                write!(f, "{request} lost after {held_for:.1?}: {why}")
            }
            Self::Broke { holding } => write!(f, "{}: broke the lease of {holding}", holding.key),
            Self::StoreFault { fault, .. } => fault.fmt(f),
            Self::StoreBack { store, faults } => write!(f, "{store} answers again after {faults} faults"),
            Self::MemberDown { fault } => write!(f, "member down: {fault}"),
            Self::MemberBack { store } => write!(f, "member back: {store}"),
            Self::PushDown { fault } => write!(f, "waiters are not notified of their turn: {fault}"),
            Self::PushBack { store } => write!(f, "waiters are notified of their turn again: {store}"),
            Self::NamesCollide { key, names: [first, other] } => {
                write!(f, "{other} and {first} are one lock: the key of both is {key}")
            }
            Self::Missed { events } => write!(f, "{events} events were not read in time"),
        }
    }
}

/// The events of the locks of a process since this was created by
/// [`Locks::events`](crate::Locks::events).
///
/// It is a [`Stream`], and has its own [`next`](Self::next) for programs that do not use streams. A
/// slow reader loses the oldest events, and [`Event::Missed`] says how many; nothing waits for a
/// reader. The stream ends once the locks and all their guards are gone.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use leasehold::{Event, Locks};
///
/// let locks = Locks::in_memory();
/// let mut events = locks.events();
/// let logging = tokio::spawn(async move {
///     while let Some(event) = events.next().await {
///         if let Event::Lost { request, why, .. } = event {
///             eprintln!("{request}: lost: {why}");
///         }
///     }
/// });
/// drop(locks);
/// logging.await?; // the events have ended
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct Events(ReusableBoxFuture<'static, (Result<Event, RecvError>, Receiver<Event>)>);

impl Events {
    pub(crate) fn new(receiver: Receiver<Event>) -> Self {
        Self(ReusableBoxFuture::new(receive(receiver)))
    }

    /// The next event; `None` once no more can come.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no event is lost.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let Poll::Ready((received, receiver)) = self.0.poll(context) else { return Poll::Pending };
        self.0.set(receive(receiver));
        Poll::Ready(match received {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(events)) => Some(Event::Missed { events }),
            Err(RecvError::Closed) => None,
        })
    }
}

async fn receive(mut receiver: Receiver<Event>) -> (Result<Event, RecvError>, Receiver<Event>) {
    (receiver.recv().await, receiver)
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}
