//! Encodes each request as a script call.

use std::time::Duration;

use leasehold_core::{
    Attempt, BreakRecord, Holder, Key, LastFence, LeaseBreak, Mark, Request, Stamp, Successor, Ttl, Wait,
    WaitQueue,
};

use super::call::{
    BREAK, Call, GRANT, INSPECT, LOCKED, MARK, MARKED, MEMBER_GRANT, MEMBER_RENEW, MEMBER_TRANSFER, OPEN,
    RAISE, REJOIN, RELEASE, RELEASE_AND_WAKE, RENEW, SURVEY, Script, TRANSFER, VOUCH,
};
use crate::slot::{FenceKeys, MEMBER_KEY, Side, Sides, member_key_in, side_key, slot_of};
use crate::wire;

/// The store that is asked.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The run that vouches for what a member of a quorum has not forgotten.
    pub(crate) run: Option<&'a str>,
    /// True for a member of a quorum. Requests for an attempt show it by themselves.
    pub(crate) is_member: bool,
    /// In a cluster, the keys that are not of one key must be in the same slot as that key.
    pub(crate) by_slot: bool,
}

impl Asked<'_> {
    pub(crate) const fn fence_keys(self) -> FenceKeys {
        FenceKeys { at_member: self.is_member, by_slot: self.by_slot }
    }

    const fn fence_keys_of(self, attempt: &Attempt) -> FenceKeys {
        FenceKeys { at_member: attempt.proposal.is_some(), by_slot: self.by_slot }
    }
}

pub(super) fn encode(request: &Request, window: Duration, asked: Asked<'_>) -> Call {
    match request {
        Request::Grant { attempt, wait, not_after } => {
            grant_call(attempt, wait.as_ref(), *not_after, window, asked)
        }
        Request::Rejoin { attempt, not_after } => rejoin_call(attempt, *not_after, window, asked),
        Request::Raise(attempt) => raise_call(attempt, window, asked),
        Request::Renew(attempt) => renew_call(attempt, window, asked),
        Request::Transfer { attempt, successor, not_after } => {
            transfer_call(attempt, successor, *not_after, window, asked)
        }
        Request::Release(attempt) => release_call(attempt, window, asked),
        Request::Advance(keys) => advance_call(keys, window, asked),
        Request::Mark { attempt, mark, keep } => mark_call(attempt, mark, *keep, asked),
        Request::Marked(key) => side_call(&MARKED, Side::Mark, key),
        Request::Inspect(key) => inspect_call(key, asked),
        Request::Break { key, lease } => break_call(key, lease, window, wire::BROKEN, asked),
    }
}

pub(crate) fn grant_call(
    attempt: &Attempt,
    wait: Option<&Wait>,
    not_after: Option<Stamp>,
    window: Duration,
    asked: Asked<'_>,
) -> Call {
    let mut call = by_whom(attempt, [&GRANT, &MEMBER_GRANT], window, asked);
    call.join(wire::tail_parts(attempt.label.as_ref()));
    lengths(attempt, &mut call);
    call.show_if_any(not_after.map(Stamp::as_micros));
    modes(attempt, &mut call);
    if let Some(wait) = wait {
        waiting(attempt, wait, &mut call);
    }
    propose(attempt, asked, call)
}

/// The call that renews a lease, or takes it again.
pub(crate) fn rejoin_call(
    attempt: &Attempt,
    not_after: Option<Stamp>,
    window: Duration,
    asked: Asked<'_>,
) -> Call {
    let mut call = by_whom(attempt, [&REJOIN; 2], window, asked);
    lengths(attempt, &mut call);
    modes(attempt, &mut call);
    call.show_if_any(not_after.map(Stamp::as_micros));
    call.join(wire::tail_parts(attempt.label.as_ref()));
    propose(attempt, asked, call)
}

pub(crate) fn raise_call(attempt: &Attempt, window: Duration, asked: Asked<'_>) -> Call {
    let mut call = by_whom(attempt, [&RAISE; 2], window, asked);
    call.show(LastFence::kept_for(attempt.ttl).as_millis());
    propose(attempt, asked, call)
}

pub(crate) fn renew_call(attempt: &Attempt, window: Duration, asked: Asked<'_>) -> Call {
    let mut call = by_whom(attempt, [&RENEW, &MEMBER_RENEW], window, asked);
    lengths(attempt, &mut call);
    modes(attempt, &mut call);
    propose(attempt, asked, call)
}

/// The call that makes the successor the holder of what the attempt holds.
pub(crate) fn transfer_call(
    attempt: &Attempt,
    successor: &Successor,
    not_after: Option<Stamp>,
    window: Duration,
    asked: Asked<'_>,
) -> Call {
    let mut call = by_whom(attempt, [&TRANSFER, &MEMBER_TRANSFER], window, asked);
    lengths(attempt, &mut call);
    call.push(&successor.holder.digit_bytes());
    call.join(wire::tail_parts(successor.label.as_ref()));
    call.show_if_any(not_after.map(Stamp::as_micros));
    propose(attempt, asked, call)
}

/// The call that hands over each of these keys that is free and has waiters.
pub(crate) fn advance_call(keys: &[Key], window: Duration, asked: Asked<'_>) -> Call {
    let mut call = with_sides(keys.iter(), &RELEASE, 0, asked.fence_keys());
    // No holder has this id, so nothing is released, and all keys are handed over.
    begin(Holder::from_bits(0), window, &mut call);
    call
}

/// The call that marks the keys of the attempt as done.
pub(crate) fn mark_call(attempt: &Attempt, mark: &Mark, keep: Duration, asked: Asked<'_>) -> Call {
    let mut call = with_sides_of(attempt, &MARK, attempt.claim.keys().len(), asked);
    for key in attempt.claim.keys() {
        call.join(Sides::of(key).parts(Side::Mark));
    }
    call.push(&attempt.holder.digit_bytes());
    call.push(&wire::mark_of(mark));
    call.show(keep.as_millis());
    call
}

/// The call that inspects a key. It reads no fence key, but names it: so it is refused to a user
/// who could not lock the key.
pub(crate) fn inspect_call(key: &Key, asked: Asked<'_>) -> Call {
    with_sides([key].into_iter(), &INSPECT, 0, asked.fence_keys())
}

/// The call that inspects many keys at once.
#[must_use]
pub fn survey_call(keys: &[Key], fence_keys: FenceKeys) -> Call {
    with_sides(keys.iter(), &SURVEY, 0, fence_keys)
}

/// The call that finds out which of these keys have a lease or a marker.
#[must_use]
pub fn locked_call(keys: &[Key]) -> Call {
    let mut call = Call::new(&LOCKED, keys.len(), 0);
    keys.iter().for_each(|key| call.push(key.as_bytes()));
    call
}

/// The call that reads or deletes a side key of a key.
pub(crate) fn side_call(script: &'static Script, side: Side, key: &Key) -> Call {
    Call::of(script, &[&side_key(side, key)], &[])
}

/// The call that checks that scripts may be run.
pub(crate) fn opening_call() -> Call {
    Call::of(&OPEN, &[], &[])
}

/// The call that makes a node abstain for a slot from now on, if it has to, without any other
/// request there.
pub(crate) fn vouch_call(slot: u16, run: &str, longest: Ttl) -> Call {
    let longest = longest.as_millis().to_string();
    Call::of(&VOUCH, &[member_key_in(slot).as_bytes()], &[b"0", run.as_bytes(), longest.as_bytes()])
}

/// The call that breaks a lease, and notifies its holder on this channel.
pub(crate) fn break_call(
    key: &Key,
    lease: &LeaseBreak,
    window: Duration,
    said_at: &[u8],
    asked: Asked<'_>,
) -> Call {
    let mut call = with_sides([key].into_iter(), &BREAK, 1, asked.fence_keys());
    call.join(Sides::of(key).parts(Side::Break));
    call.show(lease.fence);
    call.show(window.as_millis());
    call.show(LastFence::kept_for(Ttl::DEFAULT).as_millis());
    call.push(said_at);
    call.push(&wire::break_record(lease));
    call.show(BreakRecord::KEPT_FOR.as_millis());
    call
}

pub(crate) fn release_call(attempt: &Attempt, window: Duration, asked: Asked<'_>) -> Call {
    let sleeps = |key: &Key| attempt.signal.and_then(|signal| signal.place(key));
    let wakes = attempt.claim.keys().any(|key| sleeps(key).is_some());
    let (script, more) = if wakes { (&RELEASE_AND_WAKE, attempt.claim.keys().len()) } else { (&RELEASE, 0) };
    let mut call = with_sides_of(attempt, script, more, asked);
    for key in attempt.claim.keys().take(more) {
        // If nobody blocks there, the key itself takes that place: it is in the right slot, and is
        // not a list.
        match sleeps(key) {
            Some(place) => call.push(&place),
            None => call.push(key.as_bytes()),
        }
    }
    begin(attempt.holder, window, &mut call);
    call
}

/// Begins a call for an attempt: of the first script if the store is used alone, and of the second
/// if the attempt has a proposal. [`propose`] ends it.
fn by_whom(
    attempt: &Attempt,
    [alone, at_member]: [&'static Script; 2],
    window: Duration,
    asked: Asked<'_>,
) -> Call {
    let (script, more) = if attempt.proposal.is_some() { (at_member, 1) } else { (alone, 0) };
    let mut call = with_sides_of(attempt, script, more, asked);
    if more > 0 {
        if asked.by_slot {
            call.push(member_key_in(slot_of(attempt.claim.first_key().as_bytes())).as_bytes());
        } else {
            call.push(MEMBER_KEY.as_bytes());
        }
    }
    begin(attempt.holder, window, &mut call);
    call
}

/// Ends a call for an attempt, with its proposal if it has one.
fn propose(attempt: &Attempt, asked: Asked<'_>, mut call: Call) -> Call {
    if let Some(proposal) = attempt.proposal {
        call.show(proposal.fence);
        call.push(asked.run.unwrap_or_default().as_bytes());
        call.show(proposal.max_ttl.as_millis());
    }
    call
}

/// A call with the keys of an attempt.
fn with_sides_of(attempt: &Attempt, script: &'static Script, more: usize, asked: Asked<'_>) -> Call {
    with_sides(attempt.claim.keys(), script, more, asked.fence_keys_of(attempt))
}

/// A call with keys, each followed by its side keys. `more` keys have to follow them.
fn with_sides<'a>(
    keys: impl ExactSizeIterator<Item = &'a Key>,
    script: &'static Script,
    more: usize,
    fence_keys: FenceKeys,
) -> Call {
    const SIDES: [Side; 4] = [Side::Queue, Side::Waiters, Side::Holders, Side::Shares];
    const MOST_ARGS: usize = 16;
    let mut call = Call::new(script, keys.len() * (2 + SIDES.len()) + more, MOST_ARGS);
    for key in keys {
        let sides = Sides::of(key);
        call.push(key.as_bytes());
        call.join(fence_keys.parts(key));
        SIDES.into_iter().for_each(|side| call.join(sides.parts(side)));
    }
    call
}

/// The holder, and how long a lock that is handed over may remain unclaimed.
fn begin(holder: Holder, window: Duration, call: &mut Call) {
    call.push(&holder.digit_bytes());
    call.show(window.as_millis());
}

/// The TTL, and how long the fence is kept.
fn lengths(attempt: &Attempt, call: &mut Call) {
    call.show(attempt.ttl.as_millis());
    call.show(LastFence::kept_for(attempt.ttl).as_millis());
}

/// The mode of each key, in the order of the keys.
fn modes(attempt: &Attempt, call: &mut Call) {
    let modes: Vec<_> = attempt.claim.wants().iter().map(|want| wire::mode_of(want.mode)).collect();
    call.push(modes.join(" ").as_bytes());
}

/// The additional arguments of an attempt that waits.
fn waiting(attempt: &Attempt, wait: &Wait, call: &mut Call) {
    let channel = wait.channel.as_ref().map_or(&b""[..], |channel| channel.as_bytes());
    debug_assert!(!channel.contains(&b' '), "a channel that was not made by wire::channel_of");
    call.push(channel);
    let place = wait.ticket.as_ref().and_then(|(at, ticket)| {
        let nth = attempt.claim.keys().position(|key| key == at)? + 1;
        Some((nth, ticket))
    });
    call.show_if_any(place.map(|(nth, _)| nth));
    call.show_if_any(place.map(|(_, ticket)| ticket.get()));
    call.show_if_any(wait.queue_limit);
    call.show(WaitQueue::KEPT_FOR.as_millis());
    match wait.nonce {
        Some(nonce) => call.push(&nonce.digit_bytes()),
        None => call.push(b""),
    }
}
