//! The seam between deciding and doing: where leases live.
//!
//! [`Store`] is what every store must do: leases. What only some stores can do, or only some callers need, are parts, each a
//! trait of its own, which a store names in [`Store::parts`].

mod fault;
mod notice;
mod parts;

pub use fault::{Fault, FaultCause, FaultKind};
pub use notice::{Notice, Notices};
pub use parts::{AdminStore, BaselineStore, InspectStore, MarkStore, MemberStore, Parts, ProcessStore};

use std::fmt;

use crate::lease::Drift;
use crate::{Attempt, BoxFuture, Claim, Fence, GrantAnswer, HoldAnswer, Instant, Misuse, Ttl};

/// Where leases live.
///
/// Every method answers within a time of its own that is small compared with a ttl, with a [`Fault`] if it must; retrying is the
/// caller's. Dropping a future does not undo what it sent: that may still be done.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// The place, as a person would write it, without any password.
    fn name(&self) -> &str;

    /// How long leases may be here, and how much earlier their holders must stop believing in them.
    fn limits(&self) -> Limits;

    /// Refuses a claim that this store can never serve, whoever holds what. Asked before anything is sent.
    ///
    /// # Errors
    ///
    /// A [`Misuse`], which names the store and the remedy.
    fn admit(&self, claim: &Claim) -> Result<(), Misuse> {
        let _ = claim;
        Ok(())
    }

    /// Makes the store ready, and finds out what would keep it from serving. The other methods do this by themselves.
    fn open(&self) -> BoxFuture<'_, Result<(), Fault>>;

    /// Gives the attempt all keys of its claim, or none. Asking again with the same attempt is no different from asking.
    fn grant<'a>(
        &'a self,
        attempt: &'a Attempt,
        wait_mode: WaitMode,
    ) -> BoxFuture<'a, Result<GrantAnswer, Fault>>;

    /// Lets leases last their ttl from now; an answer for each attempt, in their order.
    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>>;

    /// Takes back what the attempt holds, and its place in the queue.
    fn release<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<HoldAnswer, Fault>>;

    /// Takes back what the attempt holds or may still be given by a request that is under way. When this resolves without a
    /// fault, nothing of the attempt is left and nothing of it can appear any more.
    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<(), Fault>>;

    /// Resolves when an attempt that stands in line is told something: that it holds now, or that it should ask again.
    ///
    /// An attempt that was answered with a place needs no timer of its own: the store sees to it that this resolves soon after
    /// its turn has come, also where a holder died or a wake-up was lost. Cancel safe: dropping the future loses no wake-up to
    /// the next call, nor to the next waiter once the attempt gives up.
    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake>;

    /// What this store can do besides leases.
    fn parts(&self) -> Parts<'_>;
}

/// What a store sets for all its leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How much earlier than this store a holder must stop believing in its lease.
    pub drift: Drift,
    /// The longest ttl that may be asked for; `None` where any is good.
    pub longest_ttl: Option<Ttl>,
}

impl Limits {
    /// Leases of any length, of which holders stop believing so much earlier than the store.
    #[must_use]
    pub const fn with_drift(drift: Drift) -> Self {
        Self { drift, longest_ttl: None }
    }

    /// The same, with no ttl longer than this.
    #[must_use]
    pub const fn with_longest_ttl(self, longest: Ttl) -> Self {
        Self { longest_ttl: Some(longest), ..self }
    }
}

/// Whether an attempt that meets a taken key stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitMode {
    /// It goes; the store keeps nothing of it.
    Try,
    /// It waits, until it is granted or given up; a store that has lines keeps its place in one. It does not join a line that is
    /// as long as the limit.
    Wait {
        /// The most that may wait before it; `None`: as many as there are.
        line_limit: Option<u64>,
    },
}

/// What a waiter is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "whoever handles these must handle all of them")]
pub enum Wake {
    /// It holds.
    Granted {
        /// Its fence.
        fence: Fence,
        /// When its lease began, or somewhat earlier.
        since: Instant,
        /// How long the lease is from then, until the first renewal makes it the ttl that was asked for.
        lasts: Ttl,
    },
    /// It should ask again: its turn may have come.
    AskAgain,
}
