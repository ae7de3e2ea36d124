//! What happens to the locks of a process, as facts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Attempt, Claim, Fault, Fence, Holder, HolderInfo, Key, Label, Loss, Ttl};

use crate::error::LockError;

/// Something that happened to the locks of this process; [`Locks::events`](crate::Locks::events) tells of them.
///
/// A request that asked at least once ends in [`Acquired`](Self::Acquired) or [`GaveUp`](Self::GaveUp), and what was acquired ends in
/// [`Released`](Self::Released), [`NotReleased`](Self::NotReleased) or [`Lost`](Self::Lost); each of these comes once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A request was refused, and waits. It is said again only when the holder or the place is another.
    #[non_exhaustive]
    Waiting {
        /// Who waits, and for what.
        who: Who,
        /// Who holds it.
        held_by: HolderInfo,
        /// The place in line, 1 being the next to have the lock; `None` where it does not wait in line.
        place: Option<u64>,
        /// How long the request has taken so far.
        waited: Duration,
        /// How often it was refused so far, this time included.
        refusals: u32,
    },
    /// A lock was taken.
    #[non_exhaustive]
    Acquired {
        /// Who has it.
        who: Who,
        /// Its fence.
        fence: Fence,
        /// How long the lease lasts without renewal.
        ttl: Ttl,
        /// How long the request took.
        waited: Duration,
        /// How often the store was asked.
        attempts: u32,
        /// How often the request was refused and waited on.
        refusals: u32,
    },
    /// A request ended without a guard.
    #[non_exhaustive]
    GaveUp {
        /// Who asked, and for what.
        who: Who,
        /// What its caller was answered; `None` where the caller dropped it.
        why: Option<Arc<LockError>>,
        /// How long the request took.
        waited: Duration,
        /// How often it was refused and waited on.
        refusals: u32,
    },
    /// A lease lasts longer than before.
    #[non_exhaustive]
    Renewed {
        /// Who holds it.
        who: Who,
        /// Its fence.
        fence: Fence,
        /// How long it is believed from now.
        remaining: Duration,
    },
    /// A holder gave a lock back, and the store confirmed it.
    #[non_exhaustive]
    Released {
        /// Who held it.
        who: Who,
        /// Its fence.
        fence: Fence,
        /// How long it was held.
        held_for: Duration,
    },
    /// A holder gave a lock back, and the store never confirmed it: the lease ends by itself.
    #[non_exhaustive]
    NotReleased {
        /// Who held it.
        who: Who,
        /// Its fence.
        fence: Fence,
        /// How long it was held.
        held_for: Duration,
        /// What the store said last.
        fault: Fault,
    },
    /// A lease was lost under its holder.
    #[non_exhaustive]
    Lost {
        /// Who held it.
        who: Who,
        /// Its fence.
        fence: Fence,
        /// How long it was held.
        held_for: Duration,
        /// Why it is held no more.
        why: Loss,
    },
    /// This process broke somebody's lease, by [`Locks::break_lease`](crate::Locks::break_lease).
    #[non_exhaustive]
    Broke {
        /// What it was.
        holding: HolderInfo,
    },
    /// The store did not do what it was asked.
    #[non_exhaustive]
    StoreFault {
        /// What it said.
        fault: Fault,
        /// How many faults there were since its last answer, this one included.
        in_a_row: u32,
    },
    /// The store answers again.
    #[non_exhaustive]
    StoreBack {
        /// The store, without any password.
        store: Arc<str>,
        /// How many faults there were.
        faults: u32,
    },
    /// A member of a quorum does not do what it is asked, having done so before. It is said once, until it is back.
    #[non_exhaustive]
    MemberDown {
        /// Which, and why.
        fault: Fault,
    },
    /// A member of a quorum does what it is asked again.
    #[non_exhaustive]
    MemberBack {
        /// The member, without any password.
        store: Arc<str>,
    },
    /// Waiters cannot be told of their turn, and ask from time to time instead. It is said once, until it is mended.
    #[non_exhaustive]
    PushDown {
        /// Why, and the remedy where there is one.
        fault: Fault,
    },
    /// Waiters are told of their turn again.
    #[non_exhaustive]
    PushBack {
        /// The store, without any password.
        store: Arc<str>,
    },
    /// Two names that this program has for locks are one key, and so one lock, under the naming of another library. It is said once for
    /// each name but the first.
    #[non_exhaustive]
    NamesCollide {
        /// The key.
        key: Key,
        /// The first name that was used for it, and this one; escaped for one line.
        names: [String; 2],
    },
    /// More happened than was read in time: the oldest events were left out.
    #[non_exhaustive]
    Missed {
        /// How many.
        events: u64,
    },
}

/// Who asks for a lock or holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Who {
    /// The keys, and how each is wanted.
    pub claim: Claim,
    /// The id of the holding, or of the attempt at it; shown by its first eight digits.
    pub holder: Holder,
    /// What it says of itself.
    pub label: Option<Label>,
}

impl Who {
    /// The keys, in byte order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Key> {
        self.claim.keys()
    }
}

impl From<&Attempt> for Who {
    fn from(attempt: &Attempt) -> Self {
        let Attempt { claim, holder, label, .. } = attempt.clone();
        Self { claim, holder, label }
    }
}

/// `invoice:42 (1f0c9a2e, web-3)`.
impl fmt::Display for Who {
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
            Self::Waiting { who, held_by, place: None, .. } => write!(f, "{who} waits, held by {held_by}"),
            Self::Waiting { who, held_by, place: Some(place), .. } => {
                write!(f, "{who} waits at place {place}, held by {held_by}")
            }
            Self::Acquired { who, fence, waited, .. } => {
                write!(f, "{who} acquired with fence {fence} after {waited:.1?}")
            }
            Self::GaveUp { who, why: None, waited, .. } => {
                write!(f, "{who} given up after {waited:.1?}: its caller dropped it")
            }
            Self::GaveUp { who, why: Some(why), waited, .. } => {
                write!(f, "{who} given up after {waited:.1?}: {why}")
            }
            Self::Renewed { who, remaining, .. } => write!(f, "{who} renewed, believed for {remaining:.1?}"),
            Self::Released { who, held_for, .. } => write!(f, "{who} released after {held_for:.1?}"),
            Self::NotReleased { who, held_for, fault, .. } => {
                write!(f, "{who} given back after {held_for:.1?}, which was not confirmed: {fault}")
            }
            Self::Lost { who, held_for, why, .. } => write!(f, "{who} lost after {held_for:.1?}: {why}"),
            Self::Broke { holding } => write!(f, "{}: broke the lease of {holding}", holding.key),
            Self::StoreFault { fault, .. } => fault.fmt(f),
            Self::StoreBack { store, faults } => write!(f, "{store} answers again after {faults} faults"),
            Self::MemberDown { fault } => write!(f, "member down: {fault}"),
            Self::MemberBack { store } => write!(f, "member back: {store}"),
            Self::PushDown { fault } => write!(f, "waiters are not told of their turn: {fault}"),
            Self::PushBack { store } => write!(f, "waiters are told of their turn again: {store}"),
            Self::NamesCollide { key, names: [first, other] } => {
                write!(f, "{other} and {first} are one lock: the key of both is {key}")
            }
            Self::Missed { events } => write!(f, "{events} events were not read in time"),
        }
    }
}
