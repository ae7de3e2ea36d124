//! The requests to a store, and their answers.

use std::slice;
use std::time::Duration;

use crate::{
    Attempt, Channel, Fault, Fence, Holder, HolderInfo, Key, KeyState, LeaseBreak, Mark, Marked, Nonce,
    Proposal, Stamp, Successor, Ticket, Ttl,
};

/// A request to a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every variant")]
pub enum Request {
    /// Grant the attempt all keys of its claim, or none; or let it wait for them.
    Grant {
        /// The attempt.
        attempt: Attempt,
        /// How it waits; `None` for a single try, of which nothing is kept.
        wait: Option<Wait>,
        /// On the store's clock: after this the request is given up, and must not be granted.
        not_after: Option<Stamp>,
    },
    /// Extend the lease to its TTL from now, unless it lasts longer, if the attempt holds all keys.
    Renew(Attempt),
    /// At a member of a quorum: extend the lease as a renewal does, or take it again if nobody
    /// holds or waits for its keys, for example at a member that was down when the others granted.
    /// The attempt names the fence on which the majority agreed.
    Rejoin {
        /// The attempt.
        attempt: Attempt,
        /// On the store's clock: after this the attempt may have been released, and must not be
        /// taken again.
        not_after: Option<Stamp>,
    },
    /// At a member of a quorum: if the attempt holds its keys, raise their fences at least to the
    /// one that it names.
    Raise(Attempt),
    /// If the attempt still holds all its keys, make the successor their holder, and extend the
    /// lease to the attempt's TTL from now, unless it lasts longer already. The fences remain.
    Transfer {
        /// The attempt.
        attempt: Attempt,
        /// The next holder.
        successor: Successor,
        /// On the store's clock: after this the successor may have been given up, and must not
        /// become the holder any more.
        not_after: Option<Stamp>,
    },
    /// Release all keys of the claim that the attempt holds, and its places in queues.
    Release(Attempt),
    /// Hand over each of these keys that is free and has waiters.
    Advance(Vec<Key>),
    /// If the attempt still holds all its keys, mark each of them as done.
    Mark {
        /// The attempt.
        attempt: Attempt,
        /// When it was done, and under which fence.
        mark: Mark,
        /// How long the mark is kept.
        keep: Duration,
    },
    /// Return whether the key is marked as done.
    Marked(Key),
    /// Return the holders of the key and its waiters.
    Inspect(Key),
    /// End the lease on a key, whoever holds it, if it has this fence; hand the key over.
    Break {
        /// The key.
        key: Key,
        /// Which lease, and what the record says.
        lease: LeaseBreak,
    },
}

impl Request {
    /// The attempt that the request is for.
    #[must_use]
    pub const fn attempt(&self) -> Option<&Attempt> {
        match self {
            Self::Grant { attempt, .. }
            | Self::Renew(attempt)
            | Self::Rejoin { attempt, .. }
            | Self::Raise(attempt)
            | Self::Transfer { attempt, .. }
            | Self::Release(attempt)
            | Self::Mark { attempt, .. } => Some(attempt),
            Self::Advance(_) | Self::Marked(_) | Self::Inspect(_) | Self::Break { .. } => None,
        }
    }

    /// The keys whose state the request needs.
    pub fn keys(&self) -> impl Iterator<Item = &Key> + Clone {
        let others = match self {
            Self::Advance(keys) => keys.as_slice(),
            Self::Marked(key) | Self::Inspect(key) | Self::Break { key, .. } => slice::from_ref(key),
            _ => &[],
        };
        self.attempt().into_iter().flat_map(|attempt| attempt.claim.keys()).chain(others)
    }

    /// Returns true for a request that changes nothing.
    #[must_use]
    pub const fn is_read(&self) -> bool {
        matches!(self, Self::Inspect(_) | Self::Marked(_))
    }

    /// The proposal of a quorum, which a member that may have forgotten leases must refuse.
    #[must_use]
    pub const fn proposal(&self) -> Option<Proposal> {
        match self {
            Self::Grant { attempt, .. }
            | Self::Renew(attempt)
            | Self::Rejoin { attempt, .. }
            | Self::Raise(attempt)
            | Self::Transfer { attempt, .. } => attempt.proposal,
            _ => None,
        }
    }
}

/// How an attempt waits for a key that is held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "stores must handle every field")]
pub struct Wait {
    /// The channel on which it is notified of its turn; silent, or `None`, if it can only ask again.
    pub channel: Option<Channel>,
    /// The secret that the push of a grant must repeat to be accepted; `None` if only the store can
    /// send messages to this waiter.
    pub nonce: Option<Nonce>,
    /// Its place, if it had one before, and the key of that queue.
    pub ticket: Option<(Key, Ticket)>,
    /// It does not join a queue that is this long.
    pub queue_limit: Option<u64>,
}

/// The answers of a store, by request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every variant")]
pub enum Answer {
    /// To [`Request::Grant`].
    Grant(GrantAnswer),
    /// To [`Request::Renew`].
    Renew(HoldAnswer),
    /// To [`Request::Rejoin`].
    Rejoin(HoldAnswer),
    /// To [`Request::Raise`].
    Raise(RaiseAnswer),
    /// To [`Request::Transfer`].
    Transfer(HoldAnswer),
    /// To [`Request::Release`].
    Release(HoldAnswer),
    /// To [`Request::Advance`].
    Advance,
    /// To [`Request::Mark`].
    Mark(HoldAnswer),
    /// To [`Request::Marked`].
    Marked(Marked),
    /// To [`Request::Inspect`].
    Inspect(KeyState),
    /// To [`Request::Break`].
    Break(BreakAnswer),
    /// To a request with a [`Proposal`](crate::Proposal): the store may have forgotten leases, and
    /// abstains; nothing was changed.
    Quarantined {
        /// For how long.
        left: Duration,
    },
}

impl Answer {
    /// The fault of the store of this name if this is not of the kind that the request asks for.
    #[must_use]
    pub fn refused(&self, store: &str) -> Fault {
        match self {
            Self::Quarantined { left } => Fault::quarantined(store, *left),
            _ => Fault::lasting(store, "the answer is to another request: this is a fault in leasehold-core"),
        }
    }
}

/// Extracts the answer of one kind, at the store of this name.
pub type ReadAnswer<T> = fn(Answer, &str) -> Result<T, Fault>;

/// The [`ReadAnswer`] for a variant of [`Answer`].
#[macro_export]
macro_rules! read_answer {
    ($kind:ident) => {
        |answer, store| match answer {
            $crate::Answer::$kind(answer) => Ok(answer),
            other => Err(other.refused(store)),
        }
    };
}

/// The answer to a request for a grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every variant")]
pub enum GrantAnswer {
    /// The attempt holds all keys of its claim, for its ttl from now.
    Granted {
        /// Greater than the fence of every earlier grant of each of the keys.
        fence: Fence,
    },
    /// Somebody holds one of the keys.
    Busy {
        /// The holder of the first such key in byte order.
        held_by: HolderInfo,
        /// The attempt's place in the queue of that key, if it waits. Meanwhile it keeps the keys
        /// before that one.
        place: Option<QueuePosition>,
    },
    /// The queue of a key was as long as the limit, so the attempt did not join; it holds nothing.
    QueueFull {
        /// The holder.
        held_by: HolderInfo,
        /// The number of waiters.
        length: u64,
    },
    /// More waiters were gone than one request removes, so the key is not handed over yet: ask
    /// again at once.
    Unfinished,
    /// The request came after its not-after; nothing was changed.
    TooLate {
        /// The store's clock.
        now: Stamp,
    },
    /// One of the keys contains data that is not a lock; nothing was changed.
    NotALock {
        /// The first such key.
        key: Key,
    },
    /// The fences of a key are used up; nothing was changed.
    FencesSpent {
        /// The key.
        key: Key,
    },
}

/// A place in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a place has no more to it")]
pub struct QueuePosition {
    /// The ticket with which it can be taken again.
    pub ticket: Ticket,
    /// The number of waiters before it.
    pub before: u64,
    /// True if the attempt was in the queue already when it asked. If it has a ticket and was not
    /// in the queue, the queue was lost or the attempt skipped, and so may its neighbours be.
    pub stood: bool,
}

/// A message to a waiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "stores must deliver every field")]
pub struct Push {
    /// Its channel; `None` if it cannot be notified, and will ask.
    pub to: Option<Channel>,
    /// The attempt that it concerns.
    pub holder: Holder,
    /// The key.
    pub key: Key,
    /// The event.
    pub event: PushEvent,
    /// The proof of a grant to the waiter.
    pub nonce: Option<Nonce>,
}

/// An event for a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every variant")]
pub enum PushEvent {
    /// It holds the key, and needs no other.
    Granted {
        /// Its fence.
        fence: Fence,
        /// How long the lease lasts from now. Its first renewal extends that to the requested TTL.
        lasts: Ttl,
    },
    /// It should ask again: it holds this key, and needs more.
    AskAgain,
    /// It should ask again after the holder's lease ends, unless that is renewed: it is now the
    /// first waiter, or the first of another process.
    First {
        /// The remaining time of the holder's lease.
        left: Duration,
    },
    /// Somebody broke its lease. It does not wait, so the push names no channel: each store reaches
    /// it in its own way.
    Broken,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "stores must handle every field")]
pub struct Served<T = Answer> {
    /// The answer.
    pub answer: T,
    /// The messages to others.
    pub pushes: Vec<Push>,
    /// Keys that are free although somebody waits, because more waiters were gone than one request
    /// removes. A server of requests calls [`advance`](crate::serve::advance) for them.
    pub unfinished: Vec<Key>,
}

impl<T> Served<T> {
    /// An answer without messages to others.
    #[must_use]
    pub const fn quietly(answer: T) -> Self {
        Self { answer, pushes: Vec::new(), unfinished: Vec::new() }
    }

    /// The same with another answer.
    pub fn map<U>(self, answer: impl FnOnce(T) -> U) -> Served<U> {
        Served { answer: answer(self.answer), pushes: self.pushes, unfinished: self.unfinished }
    }
}

/// The answer to a renewal, a transfer or a release.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every variant")]
pub enum HoldAnswer {
    /// The attempt held all keys of its claim, and the request was served.
    Done,
    /// The attempt did not hold this key any more. Then a release has released
    /// the others, and every other request has changed nothing.
    NotHeld {
        /// The first such key, in byte order.
        key: Key,
        /// The current holder; `None` if there is none.
        held_by: Option<HolderInfo>,
    },
}

/// The answer of a member of a quorum to a request to raise the fence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every variant")]
pub enum RaiseAnswer {
    /// The greatest fence of the claim's keys now.
    Raised {
        /// The requested fence, or a greater one that was there.
        fence: Fence,
    },
    /// The attempt does not hold this key any more; nothing was changed.
    NotHeld {
        /// The first such key, in byte order.
        key: Key,
        /// The current holder; `None` if there is none.
        held_by: Option<HolderInfo>,
    },
}

/// The answer to a request to break a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every variant")]
pub enum BreakAnswer {
    /// The lease has been ended.
    Broken {
        /// The former holder.
        holding: HolderInfo,
    },
    /// No lease of ours at the key has this fence; nothing was broken.
    NotHeld {
        /// The current holder; `None` if there is none.
        held_by: Option<HolderInfo>,
    },
}
