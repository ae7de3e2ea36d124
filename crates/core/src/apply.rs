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
    Answer, Attempt, Channel, Fence, Key, KeyState, Line, Push, Records, Request, Served, Stamp, Waiter,
};

/// What a store knows besides its records when it serves a request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Scene<'a> {
    /// The clock that leases are counted on.
    pub now: Stamp,
    /// The least fence that may be handed out: microseconds since 1970 on the store's wall clock.
    pub floor: Fence,
    /// How long a lock that is handed over may remain unclaimed.
    pub window: Duration,
    /// Who can be told of a hand-over.
    pub ears: &'a dyn Ears,
}

impl Scene<'static> {
    /// A scene in which everybody can be told.
    #[must_use]
    pub const fn new(now: Stamp, floor: Fence) -> Self {
        Self { now, floor, window: Line::WINDOW, ears: &Everybody }
    }
}

impl<'a> Scene<'a> {
    /// The same scene, in which these can be told.
    #[must_use]
    pub fn with_ears<'b>(self, ears: &'b dyn Ears) -> Scene<'b> {
        Scene { now: self.now, floor: self.floor, window: self.window, ears }
    }

    /// The same scene with another window.
    #[must_use]
    pub const fn with_window(self, window: Duration) -> Self {
        Self { window, ..self }
    }
}

/// Says whether anybody listens at a channel: whoever certainly does not is not handed a lock.
///
/// It is necessary and not sufficient. A process that stopped still seems to listen; that costs the line a window.
pub trait Ears: fmt::Debug {
    /// Whether somebody may hear what is said there.
    fn listens(&self, channel: &Channel) -> bool;
}

/// Everybody listens.
#[derive(Clone, Copy, Debug)]
struct Everybody;

impl Ears for Everybody {
    fn listens(&self, _channel: &Channel) -> bool {
        true
    }
}

/// Serves one request: changes the records, and says the answer and whom it concerns.
///
/// Every request about a key that is free hands it to the first in its line that can be told, whoever asked for what; and to
/// those behind that one, as long as they can hold it together.
pub fn apply(records: &mut Records, request: Request, scene: &Scene<'_>) -> Served {
    let mut told = Told::default();
    if let Some(left) = quarantine(records, &request, scene.now) {
        let answer = Answer::Quarantined { left };
        return Served { answer, pushes: Vec::new(), unfinished: Vec::new() };
    }
    let answer = match request {
        Request::Grant { attempt, wait, not_after } => {
            let late = not_after.is_some_and(|limit| scene.now > limit);
            Answer::Grant(if late {
                crate::GrantAnswer::TooLate { now: scene.now }
            } else {
                grant::grant(records, &attempt, wait.as_ref(), scene, &mut told)
            })
        }
        Request::Renew(attempt) => {
            settle(records, &attempt, scene.now);
            Answer::Renew(hold::renew(records, &attempt, scene, &mut told))
        }
        Request::Rejoin { attempt, not_after } => {
            settle(records, &attempt, scene.now);
            let late = not_after.is_some_and(|limit| scene.now > limit);
            // Too late to take anything; what it holds it still may renew.
            let serve = if late { hold::renew } else { hold::rejoin };
            Answer::Rejoin(serve(records, &attempt, scene, &mut told))
        }
        Request::Raise(attempt) => {
            settle(records, &attempt, scene.now);
            Answer::Raise(hold::raise(records, &attempt, scene, &mut told))
        }
        Request::Release(attempt) => {
            settle(records, &attempt, scene.now);
            Answer::Release(hold::release(records, &attempt, scene, &mut told))
        }
        Request::Advance(keys) => {
            for key in &keys {
                records.settle(key, None, scene.now);
                advance::advance(records, key, None, scene, &mut told);
            }
            Answer::Advance
        }
        Request::Mark { attempt, mark, keep } => {
            Answer::Mark(mark::mark(records, &attempt, &mark, keep, scene))
        }
        Request::Marked(key) => Answer::Marked(mark::marked(records, &key, scene)),
        Request::Inspect(key) => Answer::Inspect(inspect(records, key, scene.now)),
        Request::Break { key, fence } => {
            Answer::Break(breaking::break_lease(records, &key, fence, scene, &mut told))
        }
    };
    Served { answer, pushes: told.pushes, unfinished: told.unfinished }
}

/// Puts the shares of the keys of a claim in order; the attempt has been heard.
fn settle(records: &mut Records, attempt: &Attempt, now: Stamp) {
    for key in attempt.claim.keys() {
        records.settle(key, Some(attempt.holder), now);
    }
}

/// What comes of a request besides its answer.
#[derive(Debug, Default)]
struct Told {
    pushes: Vec<Push>,
    unfinished: Vec<Key>,
}

/// How long the store still abstains from a request of a quorum's: until each lease that it may have forgotten has ended.
fn quarantine(records: &Records, request: &Request, now: Stamp) -> Option<Duration> {
    let (Request::Grant { attempt, .. }
    | Request::Renew(attempt)
    | Request::Rejoin { attempt, .. }
    | Request::Raise(attempt)) = request
    else {
        return None;
    };
    let until = records.voided? + attempt.proposal?.max_ttl.duration() + Records::AFTER_MAX_TTL;
    (now < until).then(|| now.saturating_until(until))
}

fn inspect(records: &Records, key: Key, now: Stamp) -> KeyState {
    let tenancies = records.tenancies(&key, now);
    let line = records.line(&key, now).into_iter().flat_map(Line::waiters).map(|(ticket, standing)| {
        let waited = Stamp::from_micros(ticket.get()).saturating_until(now);
        Waiter::exclusive(standing.holder, standing.label.clone(), waited).in_mode(standing.mode)
    });
    let line = line.collect();
    KeyState::new(key, tenancies, line)
}

#[cfg(test)]
mod tests;
