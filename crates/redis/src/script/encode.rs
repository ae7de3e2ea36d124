//! Encodes each request as a script call.

use std::time::Duration;

use leasehold_core::{
    Attempt, BreakNote, BreakRecord, Fence, Holder, Key, LastFence, Mark, Request, Stamp, Successor, Ttl,
    Wait, WaitQueue,
};

use super::call::{Call, Script};
use super::texts::{
    BREAK, GRANT, INSPECT, LOCKED, MARK, MARKED, MEMBER_GRANT, MEMBER_RENEW, OPEN, RAISE, REJOIN, RELEASE,
    RELEASE_AND_WAKE, RENEW, SURVEY, TRANSFER, VOUCH,
};
use super::words::Words;
use crate::slot::{FenceKeys, MEMBER_KEY, SIDE_LEN, Side, Sides, member_key_in, slot_of};
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

/// The call for a request of any kind.
pub(super) fn encode(request: &Request, window: Duration, asked: Asked<'_>) -> Call {
    match request {
        Request::Grant { attempt, wait, not_after } => {
            grant_call(attempt, wait.as_ref(), *not_after, window, asked)
        }
        Request::Rejoin { attempt, not_after } => rejoin_call(attempt, *not_after, window, asked),
        Request::Raise(attempt) => raise_call(attempt, window, asked),
        Request::Renew(attempt) => renew_call(attempt, window, asked),
        Request::Transfer { attempt, successor } => transfer_call(attempt, successor, window, asked),
        Request::Release(attempt) => release_call(attempt, window, asked),
        Request::Advance(keys) => advance_call(keys, window, asked),
        Request::Mark { attempt, mark, keep } => mark_call(attempt, mark, *keep, asked),
        Request::Marked(key) => side_call(&MARKED, Side::Mark, key),
        Request::Inspect(key) => inspect_call(key, asked),
        Request::Break { key, fence, note } => break_call(key, *fence, note, window, wire::BROKEN, asked),
    }
}

/// The call that grants the attempt its keys, or lets it wait.
pub(crate) fn grant_call(
    attempt: &Attempt,
    wait: Option<&Wait>,
    not_after: Option<Stamp>,
    window: Duration,
    asked: Asked<'_>,
) -> Call {
    let mut args = begun(attempt.holder, window);
    args.write(|bytes| wire::write_tail(attempt.label.as_ref(), bytes));
    lengths(attempt, &mut args);
    limit(not_after, &mut args);
    modes(attempt, &mut args);
    if let Some(wait) = wait {
        waiting(attempt, wait, &mut args);
    }
    by_whom(attempt, [&GRANT, &MEMBER_GRANT], args, asked)
}

/// The call that renews a lease, or takes it again.
pub(crate) fn rejoin_call(
    attempt: &Attempt,
    not_after: Option<Stamp>,
    window: Duration,
    asked: Asked<'_>,
) -> Call {
    let mut args = begun(attempt.holder, window);
    lengths(attempt, &mut args);
    modes(attempt, &mut args);
    limit(not_after, &mut args);
    args.write(|bytes| wire::write_tail(attempt.label.as_ref(), bytes));
    by_whom(attempt, [&REJOIN; 2], args, asked)
}

/// The call that raises the fences of what the attempt holds.
pub(crate) fn raise_call(attempt: &Attempt, window: Duration, asked: Asked<'_>) -> Call {
    let mut args = begun(attempt.holder, window);
    args.show(millis(LastFence::kept_for(attempt.ttl)));
    by_whom(attempt, [&RAISE; 2], args, asked)
}

/// The call that renews a lease.
pub(crate) fn renew_call(attempt: &Attempt, window: Duration, asked: Asked<'_>) -> Call {
    let mut args = begun(attempt.holder, window);
    lengths(attempt, &mut args);
    modes(attempt, &mut args);
    by_whom(attempt, [&RENEW, &MEMBER_RENEW], args, asked)
}

/// The call that makes the successor the holder of what the attempt holds.
pub(crate) fn transfer_call(
    attempt: &Attempt,
    successor: &Successor,
    window: Duration,
    asked: Asked<'_>,
) -> Call {
    let mut args = begun(attempt.holder, window);
    lengths(attempt, &mut args);
    args.push(&successor.holder.digit_bytes());
    args.write(|bytes| wire::write_tail(successor.label.as_ref(), bytes));
    Call { script: &TRANSFER, keys: keys(attempt, asked), args }
}

/// The call that hands over each of these keys that is free and has waiters.
pub(crate) fn advance_call(keys: &[Key], window: Duration, asked: Asked<'_>) -> Call {
    // No holder has this id, so nothing is released, and all keys are handed over.
    let args = begun(Holder::from_bits(0), window);
    Call { script: &RELEASE, keys: with_sides(keys, asked.fence_keys()), args }
}

/// The call that marks the keys of the attempt as done.
pub(crate) fn mark_call(attempt: &Attempt, mark: &Mark, keep: Duration, asked: Asked<'_>) -> Call {
    let mut keys = keys(attempt, asked);
    for key in attempt.claim.keys() {
        keys.write(|name| Sides::of(key).write(Side::Mark, name));
    }
    let mut args = Words::default();
    args.extend([&attempt.holder.digit_bytes()[..], &wire::mark_of(mark)]);
    args.show(millis(keep));
    Call { script: &MARK, keys, args }
}

/// The call that inspects a key. It reads no fence key, but names it: so it is refused to a user
/// who could not lock the key.
pub(crate) fn inspect_call(key: &Key, asked: Asked<'_>) -> Call {
    Call { script: &INSPECT, keys: with_sides([key], asked.fence_keys()), args: Words::default() }
}

/// The call that inspects many keys at once.
#[must_use]
pub fn survey_call(keys: &[Key], fence_keys: FenceKeys) -> Call {
    Call { script: &SURVEY, keys: with_sides(keys, fence_keys), args: Words::default() }
}

/// The call that finds out which of these keys have a lease or a marker.
#[must_use]
pub fn locked_call(keys: &[Key]) -> Call {
    Call { script: &LOCKED, keys: keys.iter().map(Key::as_bytes).collect(), args: Words::default() }
}

/// The call that reads or deletes a side key of a key.
pub(crate) fn side_call(script: &'static Script, side: Side, key: &Key) -> Call {
    let mut keys = Words::default();
    keys.write(|name| Sides::of(key).write(side, name));
    Call { script, keys, args: Words::default() }
}

/// The call that checks that scripts may be run.
pub(crate) fn opening_call() -> Call {
    Call { script: &OPEN, keys: Words::default(), args: Words::default() }
}

/// The call that makes a node abstain for a slot from now on, if it has to, without any other
/// request there.
pub(crate) fn vouch_call(slot: u16, run: &str, longest: Ttl) -> Call {
    let (key, mut args) = (member_key_in(slot), Words::default());
    args.extend([b"0", run.as_bytes()]);
    args.show(millis(longest.duration()));
    Call { script: &VOUCH, keys: [key.as_bytes()].into_iter().collect(), args }
}

/// The call that breaks a lease, and notifies its holder on this channel.
pub(crate) fn break_call(
    key: &Key,
    fence: Fence,
    note: &BreakNote,
    window: Duration,
    said_at: &[u8],
    asked: Asked<'_>,
) -> Call {
    let mut args = Words::default();
    args.show(fence);
    args.show(millis(window));
    args.show(millis(LastFence::kept_for(Ttl::DEFAULT)));
    args.push(said_at);
    args.push(&wire::note_of(note));
    args.show(millis(BreakRecord::KEPT_FOR));
    let mut keys = with_sides([key], asked.fence_keys());
    keys.write(|name| Sides::of(key).write(Side::Break, name));
    Call { script: &BREAK, keys, args }
}

/// The call that releases what the attempt holds.
pub(crate) fn release_call(attempt: &Attempt, window: Duration, asked: Asked<'_>) -> Call {
    let (mut keys, args) = (keys(attempt, asked), begun(attempt.holder, window));
    let sleeps = |key: &Key| attempt.signal.and_then(|signal| signal.place(key));
    if attempt.claim.keys().all(|key| sleeps(key).is_none()) {
        return Call { script: &RELEASE, keys, args };
    }
    for key in attempt.claim.keys() {
        // If nobody blocks there, the key itself takes that place: it is in the right slot, and is
        // not a list.
        match sleeps(key) {
            Some(place) => keys.push(&place),
            None => keys.push(key.as_bytes()),
        }
    }
    Call { script: &RELEASE_AND_WAKE, keys, args }
}

/// A call for an attempt: with the first script if the store is used alone, and with the second if
/// the attempt has a proposal.
fn by_whom(
    attempt: &Attempt,
    [alone, at_member]: [&'static Script; 2],
    mut args: Words,
    asked: Asked<'_>,
) -> Call {
    let mut keys = keys(attempt, asked);
    let Some(proposal) = attempt.proposal else { return Call { script: alone, keys, args } };
    if asked.by_slot {
        keys.push(member_key_in(slot_of(attempt.claim.first_key().as_bytes())).as_bytes());
    } else {
        keys.push(MEMBER_KEY.as_bytes());
    }
    args.show(proposal.fence);
    args.push(asked.run.unwrap_or_default().as_bytes());
    args.show(millis(proposal.max_ttl.duration()));
    Call { script: at_member, keys, args }
}

/// Each key of a claim, followed by its side keys.
fn keys(attempt: &Attempt, asked: Asked<'_>) -> Words {
    with_sides(attempt.claim.keys(), asked.fence_keys_of(attempt))
}

pub(super) fn with_sides<'a>(
    keys: impl IntoIterator<Item = &'a Key, IntoIter: Clone>,
    fence_keys: FenceKeys,
) -> Words {
    const SIDES: [Side; 4] = [Side::Queue, Side::Waiters, Side::Holders, Side::Shares];
    let keys = keys.into_iter();
    let size = |key: &Key| (2 + SIDES.len()) * (key.as_bytes().len() + SIDE_LEN);
    let (count, size) = keys.clone().fold((0, 0), |(count, sum), key| (count + 1, sum + size(key)));
    // At a member there is one more key, as long as a side key, with a tag in its braces.
    let mut words = Words::with_room(count * (2 + SIDES.len()) + 1, size + SIDE_LEN + MEMBER_KEY.len());
    for key in keys {
        words.push(key.as_bytes());
        words.write(|name| fence_keys.write(key, name));
        let sides = Sides::of(key);
        for side in SIDES {
            words.write(|name| sides.write(side, name));
        }
    }
    words
}

/// The holder, and how long a lock that is handed over may remain unclaimed; with room for the
/// other arguments.
fn begun(holder: Holder, window: Duration) -> Words {
    const WORDS: usize = 15;
    const BYTES: usize = 256;
    let mut args = Words::with_room(WORDS, BYTES);
    args.push(&holder.digit_bytes());
    args.show(millis(window));
    args
}

/// The TTL, and how long the fence is kept.
fn lengths(attempt: &Attempt, args: &mut Words) {
    args.show(millis(attempt.ttl.duration()));
    args.show(millis(LastFence::kept_for(attempt.ttl)));
}

fn limit(not_after: Option<Stamp>, args: &mut Words) {
    match not_after {
        Some(limit) => args.show(limit.as_micros()),
        None => args.push(b""),
    }
}

/// The mode of each key, in the order of the keys.
fn modes(attempt: &Attempt, args: &mut Words) {
    args.write(|bytes| {
        for (nth, want) in attempt.claim.wants().iter().enumerate() {
            if nth > 0 {
                bytes.push(b' ');
            }
            bytes.extend_from_slice(wire::mode_of(want.mode).as_bytes());
        }
    });
}

/// The additional arguments of an attempt that waits.
fn waiting(attempt: &Attempt, wait: &Wait, args: &mut Words) {
    let channel = wait.channel.as_ref().map_or(&b""[..], |channel| channel.as_bytes());
    debug_assert!(!channel.contains(&b' '), "a channel that was not made by wire::channel_of");
    args.push(channel);
    let place = wait.ticket.as_ref().and_then(|(at, ticket)| {
        let nth = attempt.claim.keys().position(|key| key == at)? + 1;
        Some((nth, ticket))
    });
    match place {
        Some((nth, ticket)) => {
            args.show(nth);
            args.show(ticket.get());
        }
        None => args.extend([&b""[..]; 2]),
    }
    match wait.queue_limit {
        Some(limit) => args.show(limit),
        None => args.push(b""),
    }
    args.show(millis(WaitQueue::KEPT_FOR));
    match wait.nonce {
        Some(nonce) => args.push(&nonce.digit_bytes()),
        None => args.push(b""),
    }
}

/// A duration in the unit of the scripts. A duration that they cannot express counts as endless.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
