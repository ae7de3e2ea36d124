//! What a store is asked, and what it can answer.

use std::time::Duration;

use crate::{
    Attempt, BreakNote, Channel, Fence, Holder, HolderInfo, Key, KeyState, Mark, Marked, Nonce, Stamp,
    Ticket, Ttl,
};

/// What a store is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "whoever handles these must handle all of them")]
pub enum Request {
    /// Give the attempt all keys of its claim, or none; or let it wait for them.
    Grant {
        /// Who asks for what.
        attempt: Attempt,
        /// How it waits; `None`: it goes when a key is taken, and nothing of it is kept.
        wait: Option<Wait>,
        /// On the store's clock: past this the request has been given up, and must not be granted any more.
        not_after: Option<Stamp>,
    },
    /// Let the lease last its ttl from now, or longer if it does already, if the attempt still holds all keys.
    Renew(Attempt),
    /// At a member of a quorum: let the lease last as a renewal does, or take it again where nobody holds or waits for its keys,
    /// as at a member that was away when the others granted. The attempt names the fence that the majority agreed on.
    Rejoin {
        /// Whose lease.
        attempt: Attempt,
        /// On the store's clock: past this the attempt may have been released, and must not be taken again.
        not_after: Option<Stamp>,
    },
    /// At a member of a quorum: if the attempt holds, let the fences of its keys be no less than the one that it names.
    Raise(Attempt),
    /// Take back all keys of the claim that the attempt holds, and its places in line.
    Release(Attempt),
    /// Hand each of these keys on, if it is free and somebody waits.
    Advance(Vec<Key>),
    /// If the attempt still holds all its keys, let a mark of each say that what they stand for was done.
    Mark {
        /// Who did it.
        attempt: Attempt,
        /// When, and under which fence.
        mark: Mark,
        /// How long it is to be remembered.
        keep: Duration,
    },
    /// Say whether what the key stands for was done.
    Marked(Key),
    /// Say who holds the key, and who waits for it.
    Inspect(Key),
    /// End the lease on a key whoever holds it, if its fence is this; hand the key on.
    Break {
        /// The key.
        key: Key,
        /// The fence of the lease, as an onlooker sees it.
        fence: Fence,
        /// Who breaks it and why, for the record.
        note: BreakNote,
    },
}

/// How an attempt waits for a key that is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "whoever serves it must know all of it")]
pub struct Wait {
    /// Where it hears of its turn; `None`: it can only ask again.
    pub channel: Option<Channel>,
    /// What the push that grants must repeat to be believed; `None`: nobody but the store can tell this waiter anything.
    pub nonce: Option<Nonce>,
    /// Its place, if it had one before, and in which key's line.
    pub ticket: Option<(Key, Ticket)>,
    /// It does not join a line that is as long as this.
    pub line_limit: Option<u64>,
}

/// What a store can answer, by request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "whoever handles these must handle all of them")]
pub enum Answer {
    /// To [`Request::Grant`].
    Grant(GrantAnswer),
    /// To [`Request::Renew`].
    Renew(HoldAnswer),
    /// To [`Request::Rejoin`].
    Rejoin(HoldAnswer),
    /// To [`Request::Raise`].
    Raise(RaiseAnswer),
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
    /// To a request with a [`Proposal`](crate::Proposal): the store may have forgotten leases, and abstains; nothing was changed.
    Quarantined {
        /// For how long.
        left: Duration,
    },
}

/// The answer to a request for a grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "whoever handles these must handle all of them")]
pub enum GrantAnswer {
    /// The attempt holds all keys of its claim, for its ttl from now.
    Granted {
        /// Greater than the fence of every earlier grant of each of the keys.
        fence: Fence,
    },
    /// Somebody holds one of the keys.
    Busy {
        /// Who, at the first key in byte order that is taken.
        held_by: HolderInfo,
        /// Where the attempt stands in the line of that key, if it waits. It keeps the keys before that one meanwhile.
        place: Option<QueuePosition>,
    },
    /// So many stand in the line of a key that the attempt did not join; it holds nothing.
    LineFull {
        /// Who holds the key.
        held_by: HolderInfo,
        /// How many wait.
        length: u64,
    },
    /// More waiters were gone than one request clears away, so the key is not handed on yet: ask again at once.
    Unfinished,
    /// The request came after its not-after; nothing was changed.
    TooLate {
        /// The store's clock.
        now: Stamp,
    },
    /// One of the keys has something that is no lock; nothing was changed.
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

/// A place in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a place has no more to it")]
pub struct QueuePosition {
    /// What leads back to it.
    pub ticket: Ticket,
    /// How many stand before it.
    pub before: u64,
    /// Whether the attempt stood in line already when it asked. If it has a ticket and did not, the line was lost, or the
    /// attempt had been passed over: so may have been its neighbours.
    pub stood: bool,
}

/// What somebody who waits is to be told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "whoever delivers it must know all of it")]
pub struct Push {
    /// Where it listens; `None`: it cannot be told, and will ask.
    pub to: Option<Channel>,
    /// Whom it concerns.
    pub holder: Holder,
    /// Which key.
    pub key: Key,
    /// What happened.
    pub news: News,
    /// What proves a grant to the waiter.
    pub nonce: Option<Nonce>,
}

/// What happened to a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "whoever handles these must handle all of them")]
pub enum News {
    /// It holds the key, which was all that it wanted.
    Granted {
        /// Its fence.
        fence: Fence,
        /// For how long, from now. Its first renewal makes that the ttl that it asked for.
        lasts: Ttl,
    },
    /// It should ask again: it holds this key, and wants more.
    AskAgain,
    /// It should ask again when whoever holds the key does not any more, unless that is renewed: it stands first now, or the
    /// first of another process.
    First {
        /// Of the holder's lease.
        left: Duration,
    },
    /// Somebody broke its lease. It does not wait, so the push names no channel: each store reaches it in its own way.
    Broken,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "whoever serves a request must handle all of it")]
pub struct Served<T = Answer> {
    /// The answer.
    pub answer: T,
    /// Who else is to be told what.
    pub pushes: Vec<Push>,
    /// Keys that are free although somebody waits: more waiters were gone than one request clears away. A server of requests calls
    /// [`advance`](crate::serve::advance) for them.
    pub unfinished: Vec<Key>,
}

impl<T> Served<T> {
    /// An answer that concerns nobody else.
    #[must_use]
    pub const fn quietly(answer: T) -> Self {
        Self { answer, pushes: Vec::new(), unfinished: Vec::new() }
    }

    /// The same with another answer.
    pub fn map<U>(self, answer: impl FnOnce(T) -> U) -> Served<U> {
        Served { answer: answer(self.answer), pushes: self.pushes, unfinished: self.unfinished }
    }
}

/// The answer to a renewal or a release.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "whoever handles these must handle all of them")]
pub enum HoldAnswer {
    /// The attempt held all keys of its claim, and it was done.
    Done,
    /// The attempt did not hold this key any more. A renewal changed nothing then; a release took back the others.
    NotHeld {
        /// The first such key, in byte order.
        key: Key,
        /// Who holds it now; `None` when nobody does.
        held_by: Option<HolderInfo>,
    },
}

/// The answer of a member of a quorum to being asked to raise the fence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "whoever handles these must handle all of them")]
pub enum RaiseAnswer {
    /// The greatest fence of the claim's keys now.
    Raised {
        /// The one that was asked for, or a greater one that stood there.
        fence: Fence,
    },
    /// The attempt does not hold this key any more; nothing was changed.
    NotHeld {
        /// The first such key, in byte order.
        key: Key,
        /// Who holds it now; `None` when nobody does.
        held_by: Option<HolderInfo>,
    },
}

/// The answer to a request to break a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "whoever handles these must handle all of them")]
pub enum BreakAnswer {
    /// The lease has been ended.
    Broken {
        /// What it was.
        holding: HolderInfo,
    },
    /// No lease of ours has this fence at the key; nothing was broken.
    NotHeld {
        /// Who holds the key; `None` when nobody does.
        held_by: Option<HolderInfo>,
    },
}
