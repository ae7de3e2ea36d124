//! The semantics of all stores: what a store does with a request.
//!
//! The memory store applies this function to a map. The file store loads the records of a claim,
//! applies it, and writes them back in one transaction. A differential test compares the scripts of
//! the Redis store with it.

mod advance;
mod breaking;
mod grant;
mod hold;
mod mark;

use std::fmt;
use std::time::Duration;

use crate::{
    Answer, Attempt, Channel, Fence, Key, KeyState, Push, Records, Request, Served, Stamp, WaitQueue, Waiter,
};

pub use advance::advance;
pub use breaking::break_lease;
pub use grant::grant;
pub use hold::{raise, rejoin, release, renew, transfer};
pub use mark::{forget, last_break, list_breaks, list_marks, mark, marked};

/// The inputs of a request other than the store's records.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ApplyContext<'a> {
    /// The clock that leases are counted on.
    pub now: Stamp,
    /// The smallest fence that may be granted: microseconds since 1970 on the store's wall clock.
    pub floor: Fence,
    /// How long a lock that was handed over may remain unclaimed.
    pub window: Duration,
    /// The channels that have a listener, so that waiters there can be notified of a hand-over.
    pub subscribers: &'a dyn Subscribers,
}

impl ApplyContext<'static> {
    /// A context in which every waiter can be notified.
    #[must_use]
    pub const fn new(now: Stamp, floor: Fence) -> Self {
        Self { now, floor, window: WaitQueue::CLAIM_WINDOW, subscribers: &AlwaysSubscribed }
    }
}

impl<'a> ApplyContext<'a> {
    /// The same context with these listeners.
    #[must_use]
    pub fn with_subscribers<'b>(self, subscribers: &'b dyn Subscribers) -> ApplyContext<'b> {
        ApplyContext { now: self.now, floor: self.floor, window: self.window, subscribers }
    }

    /// The same context with another window.
    #[must_use]
    pub const fn with_window(self, window: Duration) -> Self {
        Self { window, ..self }
    }
}

/// Says whether anybody listens on a channel: a waiter without a listener is not handed a lock.
///
/// A listener is necessary, but not sufficient. A process that is stopped still appears to listen;
/// that costs the queue one claim window.
pub trait Subscribers: fmt::Debug {
    /// Returns false only if certainly nobody listens on the channel.
    fn listens(&self, channel: &Channel) -> bool;
}

/// A listener on every channel.
#[derive(Clone, Copy, Debug)]
struct AlwaysSubscribed;

impl Subscribers for AlwaysSubscribed {
    fn listens(&self, _channel: &Channel) -> bool {
        true
    }
}

/// Serves a request of any kind: changes the records, and returns the answer and the pushes. A
/// caller that knows the kind of its request calls the function of that name in
/// [`serve`](crate::serve), which returns the answer type of that request.
///
/// Every request about a free key, whatever it asks for, hands the key to the first waiter of its
/// queue that can be notified, and to those behind it that can share the key.
pub fn apply(records: &mut Records, request: Request, context: &ApplyContext<'_>) -> Served {
    let served = match request {
        Request::Grant { attempt, wait, not_after } => {
            grant(records, &attempt, wait.as_ref(), not_after, context)
                .map(|served| served.map(Answer::Grant))
        }
        Request::Renew(attempt) => renew(records, &attempt, context).map(|served| served.map(Answer::Renew)),
        Request::Rejoin { attempt, not_after } => {
            rejoin(records, &attempt, not_after, context).map(|served| served.map(Answer::Rejoin))
        }
        Request::Raise(attempt) => raise(records, &attempt, context).map(|served| served.map(Answer::Raise)),
        Request::Transfer { attempt, successor, not_after } => {
            transfer(records, &attempt, &successor, not_after, context)
                .map(|served| served.map(Answer::Transfer))
        }
        Request::Release(attempt) => Ok(release(records, &attempt, context).map(Answer::Release)),
        Request::Advance(keys) => Ok(advance(records, &keys, context).map(|()| Answer::Advance)),
        Request::Mark { attempt, mark: done, keep } => {
            Ok(Served::quietly(Answer::Mark(mark(records, &attempt, &done, keep, context))))
        }
        Request::Marked(key) => Ok(Served::quietly(Answer::Marked(marked(records, &key, context)))),
        Request::Inspect(key) => Ok(Served::quietly(Answer::Inspect(inspect(records, key, context)))),
        Request::Break { key, lease } => Ok(break_lease(records, &key, &lease, context).map(Answer::Break)),
    };
    served.unwrap_or_else(|Quarantined { left }| Served::quietly(Answer::Quarantined { left }))
}

/// The store may have forgotten leases, and abstains from a quorum; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is no more to it")]
pub struct Quarantined {
    /// For how long.
    pub left: Duration,
}

/// A request that is being served, and its effects so far other than its answer.
struct Serving<'a> {
    records: &'a mut Records,
    context: &'a ApplyContext<'a>,
    pushes: Vec<Push>,
    unfinished: Vec<Key>,
}

impl<'a> Serving<'a> {
    fn new(records: &'a mut Records, context: &'a ApplyContext<'a>) -> Self {
        Self { records, context, pushes: Vec::new(), unfinished: Vec::new() }
    }

    /// Begins to serve an attempt, which proves it alive; ended shares of its keys are removed.
    fn of_attempt(records: &'a mut Records, attempt: &Attempt, context: &'a ApplyContext<'a>) -> Self {
        for key in attempt.claim.keys() {
            records.settle(key, Some(attempt.holder), context.now);
        }
        Self::new(records, context)
    }

    fn served<T>(self, answer: T) -> Served<T> {
        Served { answer, pushes: self.pushes, unfinished: self.unfinished }
    }
}

fn is_late(not_after: Option<Stamp>, context: &ApplyContext<'_>) -> bool {
    not_after.is_some_and(|limit| context.now > limit)
}

/// A store abstains from a quorum until each lease that it may have forgotten has ended.
fn check_quarantine(records: &Records, attempt: &Attempt, now: Stamp) -> Result<(), Quarantined> {
    let (Some(voided), Some(proposal)) = (records.voided, attempt.proposal) else { return Ok(()) };
    let until = voided + proposal.max_ttl.duration() + Records::AFTER_MAX_TTL;
    if now < until { Err(Quarantined { left: now.saturating_until(until) }) } else { Ok(()) }
}

/// Returns the holders of the key and its waiters.
#[must_use]
pub fn inspect(records: &Records, key: Key, context: &ApplyContext<'_>) -> KeyState {
    let now = context.now;
    let holders = records.holders(&key, now);
    let queue = records.queue(&key, now).into_iter().flat_map(WaitQueue::waiters).map(|(ticket, waiter)| {
        let waited = Stamp::from_micros(ticket.get()).saturating_until(now);
        Waiter::exclusive(waiter.holder, waiter.label.clone(), waited).in_mode(waiter.mode)
    });
    let queue = queue.collect();
    KeyState::new(key, holders, queue).at(Stamp::from_micros(context.floor.get()))
}

#[cfg(test)]
mod tests;
