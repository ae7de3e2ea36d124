//! Scripts that serve many claims at once: their arguments, and the meaning of their answers for
//! each claim.
//!
//! A batch serves exclusive claims on one key each, if the key is free or held by the requester and
//! nobody waits for it. It does not answer any other claim; the script of a single request does. So
//! only that script has to handle queues, shares and other programs' values.

use std::cmp::Ordering;

use leasehold_core::{Attempt, Fence, Key, LastFence, Stamp, Ttl};
use redis::Value;

use super::call::Call;
use super::encode::millis;
use super::texts::{BATCH, BATCH_RENEW, MEMBER_BATCH, MEMBER_BATCH_RENEW};
use super::words::Words;
use crate::reply::{nth_of, strange};
use crate::slot::{FenceKeys, MEMBER_KEY, Side, Sides, member_key_in, segment, slot_of};
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
pub fn batch_call(
    grants: &[&Attempt],
    releases: &[&Attempt],
    not_after: Stamp,
    vouching: Option<Vouching<'_>>,
    by_slot: bool,
) -> Call {
    let fence_keys = FenceKeys { by_key: vouching.is_some(), by_slot };
    let mut keys = Words::for_claims(2 * grants.len() + releases.len(), 1);
    let mut args = Words::for_claims(grants.len() + releases.len(), 1);
    let proposal = |first: &&Attempt| first.proposal.expect("a member is asked with a proposal");
    let fence = vouching.and(grants.first()).map(|first| proposal(first).fence.to_string());
    args.show(grants.len());
    if !grants.is_empty() {
        let (ttl, kept) = lengths(grants);
        [not_after.as_micros(), ttl, kept].into_iter().for_each(|number| args.show(number));
        for attempt in grants {
            keys.push(key_of(attempt).as_bytes());
        }
        for attempt in grants {
            keys.write(|name| Sides::of(key_of(attempt)).write(Side::Waiters, name));
        }
        if vouching.is_none() {
            args.show(by_fence_key(grants, fence_keys).count());
        }
        for claims in by_fence_key(grants, fence_keys) {
            keys.write(|name| fence_keys.write(key_of(claims[0]), name));
            if vouching.is_none() {
                args.show(claims.len());
            }
        }
    }
    fence.iter().for_each(|fence| args.push(fence.as_bytes()));
    for attempt in grants {
        args.write(|bytes| {
            bytes.extend_from_slice(&wire::beginning_of(Flag::Plain, attempt.holder));
            fence.iter().for_each(|fence| bytes.extend_from_slice(fence.as_bytes()));
            wire::write_tail(attempt.label.as_ref(), bytes);
        });
    }
    for attempt in releases {
        keys.push(key_of(attempt).as_bytes());
        args.push(&wire::beginning_of(Flag::Plain, attempt.holder));
    }
    vouch(grants, vouching, by_slot, &mut keys, &mut args);
    let script = if vouching.is_some() { &MEMBER_BATCH } else { &BATCH };
    Call { script, keys, args }
}

/// Deletes a key that still has this value, as a batch of one release does.
#[must_use]
pub fn delete_call(key: &Key, value: &[u8]) -> Call {
    let (keys, args) = ([key.as_bytes()].into_iter().collect(), [b"0", value].into_iter().collect());
    Call { script: &BATCH, keys, args }
}

/// Extends the lease of each attempt to its TTL from now, if it holds its key without waiters.
/// The attempts and `vouching` are as for grants in a batch.
///
/// # Panics
///
/// If an attempt's claim is not an exclusive one on one key.
#[must_use]
pub fn renew_batch(attempts: &[&Attempt], vouching: Option<Vouching<'_>>, by_slot: bool) -> Call {
    let fence_keys = FenceKeys { by_key: vouching.is_some(), by_slot };
    let (mut keys, mut args) = (Words::for_claims(attempts.len(), 2), Words::for_claims(attempts.len(), 1));
    for attempt in attempts {
        keys.push(key_of(attempt).as_bytes());
    }
    for leases in by_fence_key(attempts, fence_keys) {
        keys.write(|name| fence_keys.write(key_of(leases[0]), name));
    }
    let (ttl, kept) = lengths(attempts);
    [kept, ttl].into_iter().for_each(|number| args.show(number));
    for attempt in attempts {
        args.push(&wire::beginning_of(Flag::Plain, attempt.holder));
    }
    let script = if vouching.is_some() { &MEMBER_BATCH_RENEW } else { &BATCH_RENEW };
    vouch(attempts, vouching, by_slot, &mut keys, &mut args);
    Call { script, keys, args }
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
pub fn read_batch(
    value: &Value,
    grants: &[&Attempt],
    releases: usize,
    at_member: bool,
) -> Result<Served, String> {
    let count = grants.len() + releases;
    let read = || {
        let Value::Array(fields) = value else { return None };
        let [Value::Int(served), Value::Array(left), time, Value::Array(fences)] = &fields[..] else {
            return None;
        };
        if usize::try_from(*served) != Ok(count) {
            return None;
        }
        let mut released = vec![true; releases];
        let mut by_claim = match &fences[..] {
            [] => Vec::new(),
            fences if at_member => read_fences(fences, grants.len())?,
            fences => read_fences_by_key(fences, grants)?,
        };
        for nth in left {
            let nth = nth_of(nth)?;
            match nth.checked_sub(grants.len()) {
                Some(release) => *released.get_mut(release)? = false,
                None => *by_claim.get_mut(nth)? = None,
            }
        }
        let granted = if grants.is_empty() {
            (*time == Value::Nil).then_some(Granted::Nothing)?
        } else {
            let now = Stamp::from_micros(text_number(time)?);
            if fences.is_empty() {
                Granted::TooLate { now }
            } else {
                Granted::Served { now, fences: by_claim }
            }
        };
        Some(Served { granted, released })
    };
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
        let Value::Array(fields) = value else { return None };
        // A member that may have forgotten leases serves none.
        let (mut done, left) = match &fields[..] {
            [] => return Some(vec![false; claims]),
            [Value::Int(count), Value::Array(left)] if usize::try_from(*count) == Ok(claims) => {
                (vec![true; claims], left)
            }
            _ => return None,
        };
        for nth in left {
            *done.get_mut(nth_of(nth)?)? = false;
        }
        Some(done)
    };
    read().ok_or_else(|| strange(format_args!("to a batch of {claims} renewals")))
}

/// The fence of all claims, and then the number and the fence of each claim that has another one.
fn read_fences(fences: &[Value], claims: usize) -> Option<Vec<Option<Fence>>> {
    let (first, others) = fences.split_first()?;
    let mut by_claim = vec![Some(read_fence(first)?); claims];
    for other in others.chunks(2) {
        let [nth, fence] = other else { return None };
        *by_claim.get_mut(nth_of(nth)?)? = Some(read_fence(fence)?);
    }
    Some(by_claim)
}

/// One fence for all claims whose keys have the same fence key.
fn read_fences_by_key(fences: &[Value], grants: &[&Attempt]) -> Option<Vec<Option<Fence>>> {
    let (mut by_claim, mut fences) = (Vec::with_capacity(grants.len()), fences.iter());
    for claims in by_fence_key(grants, FenceKeys { by_key: false, by_slot: false }) {
        let fence = read_fence(fences.next()?)?;
        by_claim.resize(by_claim.len() + claims.len(), Some(fence));
    }
    fences.next().is_none().then_some(by_claim)
}

fn read_fence(value: &Value) -> Option<Fence> {
    Fence::new(text_number(value)?)
}

fn text_number(value: &Value) -> Option<u64> {
    if let Value::BulkString(digits) = value { number(digits) } else { None }
}

/// The attempts whose keys have the same fence key, which stand together.
fn by_fence_key<'a>(
    attempts: &'a [&'a Attempt],
    fence_keys: FenceKeys,
) -> impl Iterator<Item = &'a [&'a Attempt]> {
    attempts.chunk_by(move |one, other| !fence_keys.by_key && by_segment(one, other).is_eq())
}

fn key_of(attempt: &Attempt) -> &Key {
    attempt.claim.exclusive_key().expect("batches serve claims on one key, wanted alone")
}

fn vouch(
    attempts: &[&Attempt],
    vouching: Option<Vouching<'_>>,
    by_slot: bool,
    keys: &mut Words,
    args: &mut Words,
) {
    let Some(Vouching { run, longest }) = vouching else { return };
    match attempts.first() {
        Some(first) if by_slot => keys.push(member_key_in(slot_of(key_of(first).as_bytes())).as_bytes()),
        _ => keys.push(MEMBER_KEY.as_bytes()),
    }
    args.push(run.unwrap_or_default().as_bytes());
    args.show(millis(longest.duration()));
}

/// The TTL that all attempts have, and how long their fences are kept, in ms.
fn lengths(attempts: &[&Attempt]) -> (u64, u64) {
    let ttl = attempts.first().map_or(Ttl::DEFAULT, |first| first.ttl);
    debug_assert!(attempts.iter().all(|attempt| attempt.ttl == ttl), "a batch has one ttl");
    (millis(ttl.duration()), millis(LastFence::kept_for(ttl)))
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Claim, Holder, Label, Proposal};

    use super::*;

    fn attempt(key: &str, bits: u128) -> Attempt {
        let claim = Claim::exclusive(Key::new(key).unwrap());
        Attempt::new(claim, Holder::from_bits(bits), Label::new("web-3").ok(), Ttl::DEFAULT)
    }

    fn shown(words: &Words) -> Vec<String> {
        words.iter().map(|word| word.escape_ascii().to_string()).collect()
    }

    const A: &str = "000000000000000000000000000000ab";
    const B: &str = "000000000000000000000000000000cd";

    #[test]
    fn batches_have_these_keys_and_arguments() {
        let [a, b, c] = [attempt("x:a", 0xab), attempt("x:b", 0xcd), attempt("c", 0xab)];
        let d = attempt("d", 0xcd);
        let not_after = Stamp::from_micros(1_700_000_000_000_000);
        let tailed = [A, B, A].map(|digits| format!("lh1-{digits}. web-3"));
        let values = [A, B, A].map(|digits| format!("lh1-{digits}."));
        let fence_keys = |tags: [&str; 2]| {
            [format!("leasehold:c{{{}}}x:", tags[0]), format!("leasehold:c{{{}}}", tags[1])]
        };
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();

        let call = batch_call(&[&a, &b, &c], &[&d], not_after, None, false);
        let waiters = ["leasehold:w{-01}x:a", "leasehold:w{-02}x:b", "leasehold:w{c}c"];
        let keys = [&words(&["x:a", "x:b", "c"])[..], &words(&waiters)].concat();
        assert_eq!(shown(&call.keys), [&keys[..], &fence_keys(["-", "-"]), &words(&["d"])].concat());
        let args = words(&["3", "1700000000000000", "30000", "600000", "2", "2", "1"]);
        assert_eq!(shown(&call.args), [&args[..], &tailed, &values[1..2]].concat());
        let call = batch_call(&[], &[&a, &b, &c], not_after, None, false);
        assert_eq!(shown(&call.keys), words(&["x:a", "x:b", "c"]));
        assert_eq!(shown(&call.args), [&words(&["0"])[..], &values].concat());
        let call = renew_batch(&[&a, &b, &c], None, false);
        let keys = words(&["x:a", "x:b", "c"]);
        assert_eq!(shown(&call.keys), [&keys[..], &fence_keys(["-", "-"])].concat());
        assert_eq!(shown(&call.args), [&words(&["600000", "30000"])[..], &values].concat());
        let call = renew_batch(&[&c], None, true);
        assert_eq!(shown(&call.keys), ["c", "leasehold:c{c}"], "in its slot");
    }

    #[test]
    fn batches_at_a_member_have_its_key_and_the_run_and_the_proposals() {
        let longest = Ttl::new(std::time::Duration::from_secs(60)).unwrap();
        let [a, b] = [("a", 0xab), ("b", 0xcd)].map(|(key, bits)| {
            let ours = attempt(key, bits);
            ours.at_member(ours.holder, Proposal { fence: Fence::new(7).unwrap(), max_ttl: longest })
        });
        let vouching = Some(Vouching { run: Some("c0ffee"), longest });
        let call = batch_call(&[&a, &b], &[], Stamp::from_micros(9), vouching, false);
        let keys = ["a", "b", "leasehold:w{a}a", "leasehold:w{b}b", "leasehold:f{a}a", "leasehold:f{b}b"];
        assert_eq!(shown(&call.keys), [&keys[..], &["leasehold:member"]].concat());
        let [tailed_a, tailed_b] = [A, B].map(|digits| format!("lh1-{digits}.7 web-3"));
        let args = ["2", "9", "30000", "600000", "7", &tailed_a, &tailed_b, "c0ffee", "60000"];
        assert_eq!(shown(&call.args), args);
        let call = renew_batch(&[&a], vouching, true);
        assert_eq!(shown(&call.keys), ["a", "leasehold:f{a}a", "leasehold:member{a}"]);
        assert_eq!(shown(&call.args), ["600000", "30000", &format!("lh1-{A}."), "c0ffee", "60000"]);
    }

    /// A claim must never get the answer of another claim.
    #[test]
    fn an_answer_that_does_not_fit_the_claims_is_an_error() {
        let text = |text: &str| Value::BulkString(text.into());
        let list = |fields: &[Value]| Value::Array(fields.to_vec());
        let all = [attempt("x:a", 1), attempt("x:b", 2), attempt("y:a", 3)];
        let all = all.each_ref();
        let (int, none) = (Value::Int, || list(&[]));
        let read = |fields: &[Value]| read_batch(&list(fields), &all, 2, false);
        let (now, [seven, eight]) = (Stamp::from_micros(5), [7, 8].map(Fence::new));
        let fences = list(&[text("7"), text("8")]);
        assert_eq!(
            read(&[int(5), list(&[int(2), int(5)]), text("5"), fences.clone()]),
            Ok(Served {
                granted: Granted::Served { now, fences: vec![seven, None, eight] },
                released: vec![true, false]
            })
        );
        assert_eq!(
            read(&[int(5), list(&[int(4)]), text("5"), none()]),
            Ok(Served { granted: Granted::TooLate { now }, released: vec![false, true] })
        );
        for strange in [
            &[][..],
            &[int(5), none(), text("5")],
            &[int(4), none(), text("5"), fences.clone()],
            &[int(6), none(), text("5"), fences.clone()],
            &[int(5), none(), text("5"), list(&[text("7")])],
            &[int(5), none(), text("5"), list(&[text("7"), text("8"), text("9")])],
            &[int(5), none(), text("5"), list(&[text("7"), text("x")])],
            &[int(5), none(), text("5"), list(&[text("7"), int(8)])],
            &[int(5), list(&[int(6)]), text("5"), fences.clone()],
            &[int(5), list(&[int(0)]), text("5"), fences.clone()],
            &[int(5), list(&[int(1)]), text("5"), none()],
            &[int(5), none(), Value::Nil, fences.clone()],
            &[int(5), none(), Value::Nil, none()],
            &[int(5), text("7"), text("5"), fences.clone()],
        ] {
            assert!(read(strange).is_err(), "{strange:?}");
        }
        let at_member = |fields: &[Value]| read_batch(&list(fields), &all[..2], 0, true);
        assert_eq!(
            at_member(&[int(2), list(&[int(2)]), text("5"), list(&[text("7")])]).map(|served| served.granted),
            Ok(Granted::Served { now, fences: vec![seven, None] })
        );
        assert_eq!(
            at_member(&[int(2), none(), text("5"), list(&[text("7"), int(2), text("8")])])
                .map(|served| served.granted),
            Ok(Granted::Served { now, fences: vec![seven, eight] })
        );
        for strange in [
            &[text("7"), int(2)][..],
            &[text("7"), int(3), text("8")],
            &[text("7"), int(0), text("8")],
            &[text("7"), text("8")],
            &[text("7"), int(2), int(8)],
            &[int(7)],
        ] {
            assert!(at_member(&[int(2), none(), text("5"), list(strange)]).is_err(), "{strange:?}");
        }
        let released = |fields: &[Value]| read_batch(&list(fields), &[], 2, false);
        assert_eq!(
            released(&[int(2), list(&[int(1)]), Value::Nil, none()]),
            Ok(Served { granted: Granted::Nothing, released: vec![false, true] })
        );
        assert!(released(&[int(2), none(), text("5"), none()]).is_err());
        assert!(released(&[int(2), none(), Value::Nil, fences]).is_err());
        let done = |fields: &[Value]| read_done(&list(fields), 2);
        assert_eq!(done(&[int(2), list(&[int(2)])]), Ok(vec![true, false]));
        assert_eq!(done(&[]), Ok(vec![false; 2]));
        for strange in [
            &[int(2)][..],
            &[int(1), none()],
            &[int(3), none()],
            &[int(2), list(&[int(3)])],
            &[int(2), list(&[int(0)])],
            &[none(), none()],
        ] {
            assert!(done(strange).is_err(), "{strange:?}");
        }
        assert!(read_batch(&Value::Okay, &[], 0, false).is_err() && read_done(&Value::Nil, 0).is_err());
    }
}
