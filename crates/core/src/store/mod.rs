//! The interface of a store: where leases are kept.
//!
//! [`Store`] contains what every store must do: leases. Abilities of only some stores, or for only
//! some callers, are parts: each is a separate trait, which a store lists in [`Store::parts`].

mod fault;
mod parts;

pub use fault::{Fault, FaultCause, FaultKind};
pub use parts::{
    AdminStore, BaselineStore, BatchServed, InspectStore, MarkStore, MemberStore, Parts, ProcessStore,
    TransferStore, VotingStore,
};

use std::fmt;

use crate::lease::Drift;
use crate::{Attempt, BoxFuture, Claim, Fence, GrantAnswer, HoldAnswer, Instant, Misuse, Ttl};

/// A store's answer, or a [`Fault`].
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, Fault>>;

/// A store of leases.
///
/// Every method answers within a time that is small compared with a TTL, if necessary with a
/// [`Fault`]; retrying is up to the caller. A renewal or a withdrawal that has no answer when the lease
/// ends, nor after 10 s, is dropped. Dropping a future does not undo its request, which may still be served.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// The store's name, as a person would write it, without any password.
    fn name(&self) -> &str;

    /// The longest TTL, and how much earlier than the store holders stop relying on their leases.
    fn limits(&self) -> Limits;

    /// Refuses a claim that this store can never serve, whoever holds what. Called before sending.
    ///
    /// # Errors
    ///
    /// A [`Misuse`], which names the store and the remedy.
    fn admit(&self, claim: &Claim) -> Result<(), Misuse> {
        let _ = claim;
        Ok(())
    }

    /// Makes the store ready, and finds problems that would keep it from serving. The other methods
    /// do this too.
    fn open(&self) -> StoreFuture<'_, ()>;

    /// Grants the attempt all keys of its claim, or none. Repeating a request with the same attempt
    /// has the same effect as making it once.
    fn grant<'a>(&'a self, attempt: &'a Attempt, wait_mode: WaitMode) -> StoreFuture<'a, GrantAnswer>;

    /// Extends leases to their TTL from now; returns an answer for each attempt, in their order. A
    /// call that has no answer after half of the shortest of these leases is dropped, and what is
    /// left of them is asked for again.
    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>>;

    /// Releases what the attempt holds, and its place in the queue.
    fn release<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, HoldAnswer>;

    /// Releases what the attempt holds or may still be granted by a request in flight. When this
    /// resolves without a fault, nothing of the attempt is left in the store and nothing of it can
    /// appear any more.
    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, ()>;

    /// Resolves when an attempt in a queue is notified: that it holds the lock now, or that it
    /// should ask again.
    ///
    /// An attempt that was answered with a place needs no timer: the store makes sure that this
    /// resolves soon after its turn has come, even if a holder died or a wake-up was lost. Cancel
    /// safe: if the future is dropped, the wake-up goes to the next call, or to the next waiter
    /// once the attempt gives up.
    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake>;

    /// The abilities of this store besides leases.
    fn parts(&self) -> Parts<'_>;
}

/// The limits of a store for all its leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How much earlier than this store a holder must stop relying on its lease.
    pub drift: Drift,
    /// The longest allowed TTL; `None` if there is no limit.
    pub longest_ttl: Option<Ttl>,
}

impl Limits {
    /// Leases of any length, with this drift.
    #[must_use]
    pub const fn with_drift(drift: Drift) -> Self {
        Self { drift, longest_ttl: None }
    }

    /// The same, with this longest TTL.
    #[must_use]
    pub const fn with_longest_ttl(self, longest: Ttl) -> Self {
        Self { longest_ttl: Some(longest), ..self }
    }
}

/// The reaction of an attempt to a key that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitMode {
    /// It does not wait; the store keeps nothing of it.
    Try,
    /// It waits until it is granted or given up; a store with queues keeps its place in one. It
    /// does not join a queue that is as long as the limit.
    Wait {
        /// The most waiters before it; `None` for any number.
        queue_limit: Option<u64>,
    },
}

/// A notification of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every variant")]
pub enum Wake {
    /// It holds the lock.
    Granted {
        /// Its fence.
        fence: Fence,
        /// When its lease started, or somewhat earlier.
        since: Instant,
        /// How long the lease lasts from then, until the first renewal extends it to the TTL.
        lasts: Ttl,
    },
    /// It should ask again: its turn may have come.
    AskAgain,
}
