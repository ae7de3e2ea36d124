//! Scripts that serve many claims at once: their arguments, and what their answers mean.
//!
//! A batch serves exclusive claims on one key each, if the key is free or held by the requester and
//! nobody waits for it. It does not answer any other claim; the script of a single request does. So
//! only that script has to handle queues, shares and other programs' values.

use std::borrow::Borrow;
use std::cmp::Ordering;

use leasehold_core::{Attempt, Fence, Key, LastFence, Stamp, Ttl};
use redis::Value;

use super::call::{BATCH, BATCH_RENEW, Call, MEMBER_BATCH, MEMBER_BATCH_RENEW};
use crate::reply::strange;
use crate::slot::{FenceKeys, MEMBER_KEY, Side, Sides, member_key_in, segment, slot_of, tag_of};
use crate::wire::{self, Flag, number};

/// The order of attempts in a batch: those whose keys have the same fence key stand together.
pub(crate) fn by_segment(one: &Attempt, other: &Attempt) -> Ordering {
    segment(key_of(one)).cmp(segment(key_of(other)))
}

/// The run of a server that vouches for its leases to a quorum, and the longest TTL of the quorum.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a test asks as a member is asked")]
pub struct Vouching<'a> {
    /// The run; `None` if the URL says that the server forgets nothing.
    pub run: Option<&'a str>,
    /// The longest ttl.
    pub longest: Ttl,
}

/// Grants each attempt its key if that is free and nobody waits for it, and deletes the key of each
/// attempt of `releases` that holds it without waiters. All grants have the same TTL, and those
/// whose keys have the same part up to the first colon stand together. With `vouching`, they have
/// the same proposal; in a cluster (`by_slot`), all keys are in one slot. No key is there twice.
///
/// # Panics
///
/// If an attempt's claim is of another kind, or a grant has no proposal at a member.
#[must_use]
pub fn batch_call<A: Borrow<Attempt>>(
    grants: &[A],
    releases: &[A],
    not_after: Stamp,
    vouching: Option<Vouching<'_>>,
    by_slot: bool,
) -> Call {
    let fence_keys = FenceKeys { at_member: vouching.is_some(), by_slot };
    let fence_key_count = by_fence_key(grants).count();
    let proposal = |first: &A| first.borrow().proposal.expect("a member is asked with a proposal");
    let fence = vouching.and(grants.first()).map(|first| proposal(first).fence.to_string());
    let fence = fence.as_ref().map(String::as_bytes);
    let script = if vouching.is_some() { &MEMBER_BATCH } else { &BATCH };
    let keys = 2 * grants.len() + fence_key_count + releases.len() + usize::from(vouching.is_some());
    let mut call = Call::new(script, keys, 7 + fence_key_count + 2 * grants.len() + releases.len());
    push_keys(grants, &mut call);
    grants.iter().for_each(|grant| call.join(Sides::of(key_of(grant)).parts(Side::Waiters)));
    push_fence_keys(grants, fence_keys, &mut call);
    push_keys(releases, &mut call);
    if vouching.is_some() {
        push_member_key(grants, by_slot, &mut call);
    }

    call.show(fence_key_count);
    if !grants.is_empty() {
        call.show(not_after.as_micros());
        lengths(grants).into_iter().for_each(|length| call.show(length));
        fence.into_iter().for_each(|fence| call.push(fence));
        by_fence_key(grants).for_each(|claims| call.show(claims.len()));
        if vouching.is_some() {
            grants.iter().for_each(|grant| call.push(tag_of(key_of(grant)).as_bytes()));
        }
    }
    for grant in grants {
        let Attempt { holder, label, .. } = grant.borrow();
        let [space, label] = wire::tail_parts(label.as_ref());
        call.join([&wire::beginning_of(Flag::Plain, *holder), fence.unwrap_or_default(), space, label]);
    }
    push_beginnings(releases, &mut call);
    if let Some(vouching) = vouching {
        vouch(vouching, &mut call);
    }
    call
}

/// Deletes a key that still has this value, as a batch of one release does.
#[must_use]
pub fn delete_call(key: &Key, value: &[u8]) -> Call {
    Call::of(&BATCH, &[key.as_bytes()], &[b"0", value])
}

/// Extends the lease of each attempt to its TTL from now, if it holds its key without waiters.
/// The attempts and `vouching` are as for grants in a batch.
///
/// # Panics
///
/// If an attempt's claim is not an exclusive one on one key.
#[must_use]
pub fn renew_batch<A: Borrow<Attempt>>(
    attempts: &[A],
    vouching: Option<Vouching<'_>>,
    by_slot: bool,
) -> Call {
    let fence_keys = FenceKeys { at_member: vouching.is_some(), by_slot };
    let script = if vouching.is_some() { &MEMBER_BATCH_RENEW } else { &BATCH_RENEW };
    let keys = attempts.len() + by_fence_key(attempts).count() + usize::from(vouching.is_some());
    let mut call = Call::new(script, keys, 4 + attempts.len());
    push_keys(attempts, &mut call);
    push_fence_keys(attempts, fence_keys, &mut call);
    if vouching.is_some() {
        push_member_key(attempts, by_slot, &mut call);
    }
    lengths(attempts).into_iter().rev().for_each(|length| call.show(length));
    push_beginnings(attempts, &mut call);
    if let Some(vouching) = vouching {
        vouch(vouching, &mut call);
    }
    call
}

/// The answer to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers must handle every field")]
pub struct Served {
    /// What became of the grants.
    pub granted: Granted,
    /// True for each release that is done, in their order; the script of a single request has to
    /// serve the others.
    pub released: Vec<bool>,
}

/// What became of the grants of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every field")]
pub enum Granted {
    /// Each claim has its fence, or `None` if the script of a single request has to serve it.
    Served {
        /// The server's clock.
        now: Stamp,
        /// One for each claim, in their order.
        fences: Vec<Option<Fence>>,
    },
    /// All came too late.
    TooLate {
        /// The server's clock.
        now: Stamp,
    },
    /// There were none.
    Nothing,
}

/// Reads the answer to a batch of these grants and this many releases.
///
/// # Errors
///
/// A message, if the answer is not one of the script's.
pub fn read_batch<A: Borrow<Attempt>>(
    value: &Value,
    grants: &[A],
    releases: usize,
    at_member: bool,
) -> Result<Served, String> {
    let read = || {
        let Value::BulkString(text) = value else { return None };
        let mut parts = text.split(|&byte| byte == b'|');
        let time = parts.next()?;
        // What the answer says besides, unless everything is done as expected.
        let others = match [parts.next(), parts.next(), parts.next()] {
            [None, ..] => None,
            [Some(left), Some(fences), None] => Some((left, fences)),
            _ => return None,
        };
        let (is_late, time) = time.strip_prefix(b"-").map_or((false, time), |time| (true, time));
        let mut granted = match (grants.first(), others) {
            (None, _) => (!is_late && time == b"+").then_some(Granted::Nothing)?,
            (Some(_), _) if is_late => Granted::TooLate { now: read_time(time)? },
            (Some(first), others) => {
                let now = read_time(time)?;
                let proposed = first.borrow().proposal.filter(|_| at_member).map(|proposal| proposal.fence);
                let fences = match others {
                    None => vec![Some(proposed.or_else(|| Fence::new(now.as_micros()))?); grants.len()],
                    Some((_, fences)) if at_member => read_fences(fences, grants.len())?,
                    Some((_, fences)) => read_fences_by_key(fences, grants)?,
                };
                Granted::Served { now, fences }
            }
        };
        let mut released = vec![true; releases];
        let (left, fences) = others.unwrap_or_default();
        for nth in words(left) {
            let nth = index(nth)?;
            match (nth.checked_sub(grants.len()), &mut granted) {
                (Some(release), _) => *released.get_mut(release)? = false,
                (None, Granted::Served { fences, .. }) => *fences.get_mut(nth)? = None,
                (None, _) => return None,
            }
        }
        let has_fences = matches!(granted, Granted::Served { .. });
        (has_fences || fences.is_empty()).then_some(Served { granted, released })
    };
    let count = grants.len() + releases;
    read().ok_or_else(|| strange(format_args!("to a batch of {count} grants and releases")))
}

/// Reads the answer to a batch of this many renewals: true if it was done, false if the
/// script of a single request has to serve it.
///
/// # Errors
///
/// A message, if the answer is not one of the script's.
pub fn read_done(value: &Value, claims: usize) -> Result<Vec<bool>, String> {
    let read = || {
        let Value::BulkString(left) = value else { return None };
        // A member that may have forgotten leases serves none.
        if left == b"-" {
            return Some(vec![false; claims]);
        }
        let mut done = vec![true; claims];
        let left: &[u8] = match &left[..] {
            [] => return None,
            b"+" => &[],
            left => left,
        };
        for nth in words(left) {
            *done.get_mut(index(nth)?)? = false;
        }
        Some(done)
    };
    read().ok_or_else(|| strange(format_args!("to a batch of {claims} renewals")))
}

/// The words of a part, with spaces between them.
fn words(part: &[u8]) -> impl Iterator<Item = &[u8]> {
    part.split(|&byte| byte == b' ').filter(|_| !part.is_empty())
}

/// The index of the request with this number, which counts from 1.
fn index(word: &[u8]) -> Option<usize> {
    usize::try_from(number(word)?).ok()?.checked_sub(1)
}

fn read_time(word: &[u8]) -> Option<Stamp> {
    number(word).map(Stamp::from_micros)
}

fn read_fence(word: &[u8]) -> Option<Fence> {
    Fence::new(number(word)?)
}

/// The fence of all claims, and then the number and the fence of each claim that has another one.
fn read_fences(fences: &[u8], claims: usize) -> Option<Vec<Option<Fence>>> {
    let mut fences = words(fences);
    let mut by_claim = vec![Some(read_fence(fences.next()?)?); claims];
    while let Some(nth) = fences.next() {
        *by_claim.get_mut(index(nth)?)? = Some(read_fence(fences.next()?)?);
    }
    Some(by_claim)
}

/// One fence for all claims whose keys have the same fence key.
fn read_fences_by_key<A: Borrow<Attempt>>(fences: &[u8], grants: &[A]) -> Option<Vec<Option<Fence>>> {
    let (mut by_claim, mut fences) = (Vec::with_capacity(grants.len()), words(fences));
    for claims in by_fence_key(grants) {
        let fence = read_fence(fences.next()?)?;
        by_claim.resize(by_claim.len() + claims.len(), Some(fence));
    }
    fences.next().is_none().then_some(by_claim)
}

/// The attempts whose keys have the same fence key, which stand together.
fn by_fence_key<A: Borrow<Attempt>>(attempts: &[A]) -> impl Iterator<Item = &[A]> {
    attempts.chunk_by(|one, other| by_segment(one.borrow(), other.borrow()).is_eq())
}

fn key_of(attempt: &impl Borrow<Attempt>) -> &Key {
    attempt.borrow().claim.exclusive_key().expect("batches serve claims on one key, wanted alone")
}

fn push_keys(attempts: &[impl Borrow<Attempt>], call: &mut Call) {
    attempts.iter().for_each(|attempt| call.push(key_of(attempt).as_bytes()));
}

fn push_fence_keys(attempts: &[impl Borrow<Attempt>], fence_keys: FenceKeys, call: &mut Call) {
    by_fence_key(attempts).for_each(|claims| call.join(fence_keys.parts(key_of(&claims[0]))));
}

fn push_member_key(attempts: &[impl Borrow<Attempt>], by_slot: bool, call: &mut Call) {
    match attempts.first().filter(|_| by_slot) {
        Some(first) => call.push(member_key_in(slot_of(key_of(first).as_bytes())).as_bytes()),
        None => call.push(MEMBER_KEY.as_bytes()),
    }
}

/// Adds the part of each value before the fence.
fn push_beginnings(attempts: &[impl Borrow<Attempt>], call: &mut Call) {
    let beginning = |attempt: &Attempt| wire::beginning_of(Flag::Plain, attempt.holder);
    attempts.iter().for_each(|attempt| call.push(&beginning(attempt.borrow())));
}

/// Adds the last arguments at a member.
fn vouch(Vouching { run, longest }: Vouching<'_>, call: &mut Call) {
    call.push(run.unwrap_or_default().as_bytes());
    call.show(longest.as_millis());
}

/// The TTL that all attempts have, and how long their fences are kept, in ms.
fn lengths(attempts: &[impl Borrow<Attempt>]) -> [u128; 2] {
    let ttl = attempts.first().map_or(Ttl::DEFAULT, |first| first.borrow().ttl);
    debug_assert!(attempts.iter().all(|attempt| attempt.borrow().ttl == ttl), "a batch has one ttl");
    [ttl.duration(), LastFence::kept_for(ttl)].map(|length| length.as_millis())
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Claim, Holder, Label, Proposal};

    use super::*;

    fn attempt(key: &str, bits: u128) -> Attempt {
        let claim = Claim::exclusive(Key::new(key).unwrap());
        Attempt::new(claim, Holder::from_bits(bits), Label::new("web-3").ok(), Ttl::DEFAULT)
    }

    /// A claim must never get the answer of another claim.
    #[test]
    fn an_answer_that_does_not_fit_the_claims_is_an_error() {
        let text = |text: &str| Value::BulkString(text.into());
        let all = [attempt("x:a", 1), attempt("x:b", 2), attempt("y:a", 3)];
        let all = all.each_ref();
        let read = |answer: &str| read_batch(&text(answer), &all, 2, false);
        let (now, [five, seven, eight]) = (Stamp::from_micros(5), [5, 7, 8].map(Fence::new));
        let served = |fences: [Option<Fence>; 3], released: [bool; 2]| {
            Ok(Served { granted: Granted::Served { now, fences: fences.into() }, released: released.into() })
        };
        assert_eq!(read("5"), served([five; 3], [true; 2]));
        assert_eq!(read("5|2 5|7 8"), served([seven, None, eight], [true, false]));
        let late =
            |released: [bool; 2]| Ok(Served { granted: Granted::TooLate { now }, released: released.into() });
        assert_eq!(read("-5"), late([true; 2]));
        assert_eq!(read("-5|4|"), late([false, true]));
        let [time, fence] = ["9007199254740992", "5||7 9007199254740992"];
        for strange in [
            "", "+", "x", "--5", "5|", "5||", "5|2|", "5||7 8|", "||7 8", "5 5||7 8", "5||7", "5||7 8 9",
            "5||7 x", "5||7  8", fence, "5|6|7 8", "5|0|7 8", "5|x|7 8", "-5|1|", "-5||7 8", "-5|", time,
        ] {
            assert!(read(strange).is_err(), "{strange}");
        }
        let proposal = Proposal { fence: seven.unwrap(), max_ttl: Ttl::DEFAULT };
        let asked = all[..2].iter().map(|&attempt| attempt.at_member(attempt.holder, proposal));
        let asked: Vec<_> = asked.collect();
        let at_member = |answer: &str| read_batch(&text(answer), &asked, 0, true);
        let granted = |answer: &str| at_member(answer).map(|served| served.granted);
        assert_eq!(granted("5"), Ok(Granted::Served { now, fences: vec![seven, seven] }));
        assert_eq!(granted("5|2|7"), Ok(Granted::Served { now, fences: vec![seven, None] }));
        assert_eq!(granted("5||7 2 8"), Ok(Granted::Served { now, fences: vec![seven, eight] }));
        for strange in ["", "7 2", "7 3 8", "7 0 8", "7 8", "x"] {
            assert!(at_member(&format!("5||{strange}")).is_err(), "{strange}");
        }
        let released = |answer: &str| read_batch::<Attempt>(&text(answer), &[], 2, false);
        let nothing =
            |released: [bool; 2]| Ok(Served { granted: Granted::Nothing, released: released.into() });
        assert_eq!(released("+"), nothing([true; 2]));
        assert_eq!(released("+|1|"), nothing([false, true]));
        for strange in ["", "5", "-", "-+", "5|1|", "|1|", "+|1|7", "+|3|", "+|0|", "+|", "+|1"] {
            assert!(released(strange).is_err(), "{strange}");
        }
        let done = |answer: &str| read_done(&text(answer), 2);
        assert_eq!(done("+"), Ok(vec![true; 2]));
        assert_eq!(done("2"), Ok(vec![true, false]));
        assert_eq!(done("-"), Ok(vec![false; 2]));
        for strange in ["", "3", "0", "|", "2|", "x", "1  2", "--", "++"] {
            assert!(done(strange).is_err(), "{strange}");
        }
        assert!(read_batch::<Attempt>(&Value::Okay, &[], 0, false).is_err());
        assert!(read_done(&Value::Nil, 0).is_err());
    }
}
