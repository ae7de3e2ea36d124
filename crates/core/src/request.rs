//! What a store is asked, and what it can answer.

use crate::{Attempt, Fence, Key, KeyState, Stamp, Tenancy};

/// What a store is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever handles these must handle all of them")]
pub enum Request {
    /// Give the attempt all keys of its claim, or none.
    Grant {
        /// Who asks for what.
        attempt: Attempt,
        /// On the store's clock: past this the request has been given up, and must not be granted any more.
        not_after: Option<Stamp>,
    },
    /// Let the lease last its ttl from now, or longer if it does already, if the attempt still holds all keys.
    Renew(Attempt),
    /// Take back all keys of the claim that the attempt holds.
    Release(Attempt),
    /// Say who holds the key.
    Inspect(Key),
}

/// What a store can answer, by request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever handles these must handle all of them")]
pub enum Answer {
    /// To [`Request::Grant`].
    Grant(GrantAnswer),
    /// To [`Request::Renew`].
    Renew(HoldAnswer),
    /// To [`Request::Release`].
    Release(HoldAnswer),
    /// To [`Request::Inspect`].
    Inspect(KeyState),
}

/// The answer to a request for a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever handles these must handle all of them")]
pub enum GrantAnswer {
    /// The attempt holds all keys of its claim, for its ttl from now.
    Granted {
        /// Greater than the fence of every earlier grant of each of the keys.
        fence: Fence,
    },
    /// Somebody holds one of the keys; nothing was changed.
    Busy {
        /// Who, at the first key in byte order that is taken.
        held_by: Tenancy,
    },
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

/// The answer to a renewal or a release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever handles these must handle all of them")]
pub enum HoldAnswer {
    /// The attempt held all keys of its claim, and it was done.
    Done,
    /// The attempt did not hold this key any more. A renewal changed nothing then; a release took back the others.
    NotHeld {
        /// The first such key, in byte order.
        key: Key,
        /// Who holds it now; `None` when nobody does.
        held_by: Option<Tenancy>,
    },
}
