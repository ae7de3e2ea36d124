//! The one semantics: what every store does with a request.
//!
//! The memory store is this function over a map; the file store loads the records of a claim, applies it, and writes them back
//! in one transaction; the scripts of the Redis store are held to it by a differential test.

mod advance;
mod breaking;
mod grant;
mod hold;
mod mark;

use std::fmt;
use std::time::Duration;

use crate::{
    Answer, Attempt, BreakAnswer, BreakNote, Channel, Fence, GrantAnswer, HoldAnswer, Key, KeyState, Push,
    RaiseAnswer, Records, Request, Served, Stamp, Wait, WaitQueue, Waiter,
};

pub use mark::{forget, last_break, list_breaks, list_marks, mark, marked};

/// What a store knows besides its records when it serves a request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ApplyContext<'a> {
    /// The clock that leases are counted on.
    pub now: Stamp,
    /// The least fence that may be handed out: microseconds since 1970 on the store's wall clock.
    pub floor: Fence,
    /// How long a lock that is handed over may remain unclaimed.
    pub window: Duration,
    /// Who can be told of a hand-over.
    pub ears: &'a dyn Subscribers,
}

impl ApplyContext<'static> {
    /// A context in which everybody can be told.
    #[must_use]
    pub const fn new(now: Stamp, floor: Fence) -> Self {
        Self { now, floor, window: WaitQueue::CLAIM_WINDOW, ears: &Everybody }
    }
}

impl<'a> ApplyContext<'a> {
    /// The same context, in which these can be told.
    #[must_use]
    pub fn with_ears<'b>(self, ears: &'b dyn Subscribers) -> ApplyContext<'b> {
        ApplyContext { now: self.now, floor: self.floor, window: self.window, ears }
    }

    /// The same context with another window.
    #[must_use]
    pub const fn with_window(self, window: Duration) -> Self {
        Self { window, ..self }
    }
}

/// Says whether anybody listens at a channel: whoever certainly does not is not handed a lock.
///
/// It is necessary and not sufficient. A process that stopped still seems to listen; that costs the line a window.
pub trait Subscribers: fmt::Debug {
    /// Whether somebody may hear what is said there.
    fn listens(&self, channel: &Channel) -> bool;
}

/// Everybody listens.
#[derive(Clone, Copy, Debug)]
struct Everybody;

impl Subscribers for Everybody {
    fn listens(&self, _channel: &Channel) -> bool {
        true
    }
}

/// Serves a request of any kind: changes the records, and says the answer and whom it concerns. A caller that knows what it asks
/// takes the function of that name in [`serve`](crate::serve), which answers in the type of that request.
///
/// Every request about a key that is free hands it to the first waiter of its queue that can be told, whoever asked for what; and
/// to those behind that one, as long as they can hold it together.
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
        Request::Release(attempt) => Ok(release(records, &attempt, context).map(Answer::Release)),
        Request::Advance(keys) => Ok(advance(records, &keys, context).map(|()| Answer::Advance)),
        Request::Mark { attempt, mark: done, keep } => {
            Ok(Served::quietly(Answer::Mark(mark(records, &attempt, &done, keep, context))))
        }
        Request::Marked(key) => Ok(Served::quietly(Answer::Marked(marked(records, &key, context)))),
        Request::Inspect(key) => Ok(Served::quietly(Answer::Inspect(inspect(records, key, context)))),
        Request::Break { key, fence, note } => {
            Ok(break_lease(records, &key, fence, &note, context).map(Answer::Break))
        }
    };
    served.unwrap_or_else(|Quarantined { left }| Served::quietly(Answer::Quarantined { left }))
}

/// Gives the attempt all keys of its claim, or none; or lets it wait for them. Past `not_after`, on the store's clock, the request
/// has been given up, and is not granted any more.
///
/// # Errors
///
/// [`Quarantined`], for an attempt of a quorum.
pub fn grant(
    records: &mut Records,
    attempt: &Attempt,
    wait: Option<&Wait>,
    not_after: Option<Stamp>,
    context: &ApplyContext<'_>,
) -> Result<Served<GrantAnswer>, Quarantined> {
    check_quarantine(records, attempt, context.now)?;
    if is_late(not_after, context) {
        return Ok(Served::quietly(GrantAnswer::TooLate { now: context.now }));
    }
    Ok(served(|told| grant::grant(records, attempt, wait, context, told)))
}

/// Lets the lease last its ttl from now, or longer if it does already, if the attempt still holds all keys.
///
/// # Errors
///
/// [`Quarantined`], for an attempt of a quorum.
pub fn renew(
    records: &mut Records,
    attempt: &Attempt,
    context: &ApplyContext<'_>,
) -> Result<Served<HoldAnswer>, Quarantined> {
    check_quarantine(records, attempt, context.now)?;
    settle(records, attempt, context.now);
    Ok(served(|told| hold::renew(records, attempt, context, told)))
}

/// At a member of a quorum: lets the lease last as a renewal does, or takes it again where nobody holds or waits for its keys, as at
/// a member that was away when the others granted. The attempt names the fence that the majority agreed on. Past `not_after` the
/// attempt may have been released: what it holds it still may renew, and nothing is taken again.
///
/// # Errors
///
/// [`Quarantined`].
pub fn rejoin(
    records: &mut Records,
    attempt: &Attempt,
    not_after: Option<Stamp>,
    context: &ApplyContext<'_>,
) -> Result<Served<HoldAnswer>, Quarantined> {
    if is_late(not_after, context) {
        return renew(records, attempt, context);
    }
    check_quarantine(records, attempt, context.now)?;
    settle(records, attempt, context.now);
    Ok(served(|told| hold::rejoin(records, attempt, context, told)))
}

/// At a member of a quorum: if the attempt holds, lets the fences of its keys be no less than the one that it names.
///
/// # Errors
///
/// [`Quarantined`].
pub fn raise(
    records: &mut Records,
    attempt: &Attempt,
    context: &ApplyContext<'_>,
) -> Result<Served<RaiseAnswer>, Quarantined> {
    check_quarantine(records, attempt, context.now)?;
    settle(records, attempt, context.now);
    Ok(served(|told| hold::raise(records, attempt, context, told)))
}

/// Takes back all keys of the claim that the attempt holds, and its places in queues.
pub fn release(records: &mut Records, attempt: &Attempt, context: &ApplyContext<'_>) -> Served<HoldAnswer> {
    settle(records, attempt, context.now);
    served(|told| hold::release(records, attempt, context, told))
}

/// Hands each of these keys on, if it is free and somebody waits.
pub fn advance(records: &mut Records, keys: &[Key], context: &ApplyContext<'_>) -> Served<()> {
    served(|told| {
        for key in keys {
            records.settle(key, None, context.now);
            advance::advance(records, key, None, context, told);
        }
    })
}

/// Ends the lease on a key whoever holds it, if its fence is this; hands the key on, and leaves a record of the break.
pub fn break_lease(
    records: &mut Records,
    key: &Key,
    fence: Fence,
    note: &BreakNote,
    context: &ApplyContext<'_>,
) -> Served<BreakAnswer> {
    served(|told| breaking::break_lease(records, key, fence, note, context, told))
}

/// A store may have forgotten leases, and abstains from what a quorum asks; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is no more to it")]
pub struct Quarantined {
    /// For how long.
    pub left: Duration,
}

fn served<T>(serve: impl FnOnce(&mut Effects) -> T) -> Served<T> {
    let mut told = Effects::default();
    let answer = serve(&mut told);
    Served { answer, pushes: told.pushes, unfinished: told.unfinished }
}

fn is_late(not_after: Option<Stamp>, context: &ApplyContext<'_>) -> bool {
    not_after.is_some_and(|limit| context.now > limit)
}

/// Puts the shares of the keys of a claim in order; the attempt has been heard.
fn settle(records: &mut Records, attempt: &Attempt, now: Stamp) {
    for key in attempt.claim.keys() {
        records.settle(key, Some(attempt.holder), now);
    }
}

/// What comes of a request besides its answer.
#[derive(Debug, Default)]
struct Effects {
    pushes: Vec<Push>,
    unfinished: Vec<Key>,
}

/// A store abstains from the requests of a quorum until each lease that it may have forgotten has ended.
fn check_quarantine(records: &Records, attempt: &Attempt, now: Stamp) -> Result<(), Quarantined> {
    let (Some(voided), Some(proposal)) = (records.voided, attempt.proposal) else { return Ok(()) };
    let until = voided + proposal.max_ttl.duration() + Records::AFTER_MAX_TTL;
    if now < until { Err(Quarantined { left: now.saturating_until(until) }) } else { Ok(()) }
}

/// Says who holds the key, and who waits for it.
#[must_use]
pub fn inspect(records: &Records, key: Key, context: &ApplyContext<'_>) -> KeyState {
    let now = context.now;
    let holders = records.holders(&key, now);
    let line = records.line(&key, now).into_iter().flat_map(WaitQueue::waiters).map(|(ticket, standing)| {
        let waited = Stamp::from_micros(ticket.get()).saturating_until(now);
        Waiter::exclusive(standing.holder, standing.label.clone(), waited).in_mode(standing.mode)
    });
    let line = line.collect();
    KeyState::new(key, holders, line).at(Stamp::from_micros(context.floor.get()))
}

#[cfg(test)]
mod tests;
