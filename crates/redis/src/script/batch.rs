//! Scripts that serve many claims at once: their arguments, and the meaning of their answers for
//! each claim.
//!
//! A batch serves exclusive claims on one key each, if the key is free or held by the requester and
//! nobody waits for it. It does not answer any other claim; the script of a single request does. So
//! only that script has to handle queues, shares and other programs' values.

use leasehold_core::{Attempt, Fence, Key, LastFence, Mode, Stamp, Ttl};
use redis::Value;

use super::call::Call;
use super::encode::millis;
use super::texts::{BATCH_GRANT, BATCH_RELEASE, BATCH_RENEW};
use super::words::Words;
use crate::reply::strange;
use crate::slot::{MEMBER_KEY, Side, Sides, member_key_in, slot_of};
use crate::wire::{self, Flag, number};

/// The most claims in one script, which takes a server about a tenth of a millisecond. Others wait
/// meanwhile.
pub const MOST: usize = 64;

/// The key of a claim that batches serve.
#[must_use]
pub fn batched_key(attempt: &Attempt) -> Option<&Key> {
    match attempt.claim.wants() {
        [want] if want.mode == Mode::Exclusive => Some(&want.key),
        _ => None,
    }
}

/// The run of a server that vouches for its leases to a quorum, the longest TTL of the quorum, and
/// in a cluster the slot.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a test asks as a member is asked")]
pub struct Vouching<'a> {
    /// The run; `None` if the URL says that the server forgets nothing.
    pub run: Option<&'a str>,
    /// The longest ttl.
    pub longest: Ttl,
    /// True if each slot has its own record of a run.
    pub by_slot: bool,
}

/// Grants each attempt its key if that is free and nobody waits for it. All attempts have the same
/// TTL. With `vouching`, they have proposals with the same longest TTL; in a cluster, all keys are
/// in one slot.
///
/// # Panics
///
/// If an attempt's claim is of another kind, or it has no proposal at a member.
#[must_use]
pub fn grant_batch(attempts: &[&Attempt], not_after: Stamp, vouching: Option<Vouching<'_>>) -> Call {
    let mut keys = Words::for_claims(attempts.len(), 3);
    for attempt in attempts {
        let key = key_of(attempt);
        keys.push(key.as_bytes());
        keys.write(|name| Sides::of(key).write(Side::Waiters, name));
    }
    fences(attempts, &mut keys);
    let mut args = Words::for_claims(attempts.len(), 2);
    args.show(not_after.as_micros());
    ttl(attempts, &mut args);
    vouch(attempts, vouching, &mut keys, &mut args);
    for attempt in attempts {
        value(attempt, &mut args);
        if vouching.is_some() {
            args.show(attempt.proposal.expect("a member is asked with a proposal").fence);
        }
    }
    Call { script: &BATCH_GRANT, keys, args }
}

/// Deletes the key of each attempt whose value is still the one that its grant wrote.
///
/// # Panics
///
/// If an attempt's claim is not an exclusive one on one key.
#[must_use]
pub fn release_batch(attempts: &[&Attempt]) -> Call {
    let (mut keys, mut args) = (Words::for_claims(attempts.len(), 1), Words::for_claims(attempts.len(), 1));
    for attempt in attempts {
        keys.push(key_of(attempt).as_bytes());
        value(attempt, &mut args);
    }
    Call { script: &BATCH_RELEASE, keys, args }
}

/// Deletes a key that still has this value, as a batch of one lease does.
#[must_use]
pub fn delete_call(key: &Key, value: &[u8]) -> Call {
    let [keys, args] = [key.as_bytes(), value].map(|word| [word].into_iter().collect());
    Call { script: &BATCH_RELEASE, keys, args }
}

/// Extends the lease of each attempt to its TTL from now, if its key still has the value that the
/// grant wrote. `vouching` is as for grants.
///
/// # Panics
///
/// If an attempt's claim is not an exclusive one on one key.
#[must_use]
pub fn renew_batch(attempts: &[&Attempt], vouching: Option<Vouching<'_>>) -> Call {
    let (mut keys, mut args) = (Words::for_claims(attempts.len(), 2), Words::for_claims(attempts.len(), 1));
    for attempt in attempts {
        keys.push(key_of(attempt).as_bytes());
    }
    fences(attempts, &mut keys);
    ttl(attempts, &mut args);
    vouch(attempts, vouching, &mut keys, &mut args);
    for attempt in attempts {
        value(attempt, &mut args);
    }
    Call { script: &BATCH_RENEW, keys, args }
}

/// The answer to a batch of grants.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers must handle every field")]
pub struct Granted {
    /// The server's clock.
    pub now: Stamp,
    /// The fence of each claim, or `None` if the script of a single request has to serve it.
    /// Without any, all came too late.
    pub fences: Option<Vec<Option<Fence>>>,
}

/// Reads the answer to a batch of this many grants.
///
/// # Errors
///
/// A message, if the answer is not one of the script's.
pub fn read_grants(value: &Value, claims: usize) -> Result<Granted, String> {
    let read = || {
        let Value::Array(fields) = value else { return None };
        let (Value::BulkString(time), answers) = fields.split_first()? else { return None };
        let now = number(time).map(Stamp::from_micros)?;
        let fence = |answer: &Value| match answer {
            Value::Nil => Some(None),
            Value::BulkString(fence) => Some(Some(Fence::new(number(fence)?)?)),
            _ => None,
        };
        let fences = if answers.is_empty() { None } else { Some(each(answers, claims, fence)?) };
        Some(Granted { now, fences })
    };
    read().ok_or_else(|| strange(format_args!("to a batch of {claims} grants")))
}

/// Reads the answer to a batch of this many releases or renewals: true if it was done, false if the
/// script of a single request has to serve it.
///
/// # Errors
///
/// A message, if the answer is not one of the script's.
pub fn read_done(value: &Value, claims: usize) -> Result<Vec<bool>, String> {
    let done = |answer: &Value| match answer {
        Value::Int(1) => Some(true),
        Value::Int(0) => Some(false),
        _ => None,
    };
    let all = if let Value::Array(answers) = value { each(answers, claims, done) } else { None };
    all.ok_or_else(|| strange(format_args!("to a batch of {claims} claims")))
}

/// One answer for each claim, or none at all: with a missing answer, a claim would get the answer
/// of another one.
fn each<T>(answers: &[Value], claims: usize, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    if answers.len() != claims {
        return None;
    }
    answers.iter().map(read).collect()
}

fn key_of(attempt: &Attempt) -> &Key {
    batched_key(attempt).expect("batches serve claims on one key, wanted alone")
}

fn fences(attempts: &[&Attempt], keys: &mut Words) {
    for attempt in attempts {
        keys.write(|name| Sides::of(key_of(attempt)).write(Side::Fence, name));
    }
}

fn vouch(attempts: &[&Attempt], vouching: Option<Vouching<'_>>, keys: &mut Words, args: &mut Words) {
    let Some(Vouching { run, longest, by_slot }) = vouching else { return };
    match attempts.first() {
        Some(first) if by_slot => keys.push(member_key_in(slot_of(key_of(first).as_bytes())).as_bytes()),
        _ => keys.push(MEMBER_KEY.as_bytes()),
    }
    args.push(run.unwrap_or_default().as_bytes());
    args.show(millis(longest.duration()));
}

fn value(attempt: &Attempt, args: &mut Words) {
    args.write(|bytes| wire::write_value(Flag::Plain, attempt.holder, attempt.label.as_ref(), bytes));
}

/// The TTL that all attempts have, and how long their fences are kept.
fn ttl(attempts: &[&Attempt], args: &mut Words) {
    let ttl = attempts.first().map_or(Ttl::DEFAULT, |first| first.ttl);
    debug_assert!(attempts.iter().all(|attempt| attempt.ttl == ttl), "a batch has one ttl");
    args.show(millis(ttl.duration()));
    args.show(millis(LastFence::kept_for(ttl)));
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

    const A: &str = "lh1-000000000000000000000000000000ab web-3";
    const B: &str = "lh1-000000000000000000000000000000cd web-3";

    #[test]
    fn batches_have_these_keys_and_arguments() {
        let [a, b] = [attempt("a", 0xab), attempt("b", 0xcd)];
        let not_after = Stamp::from_micros(1_700_000_000_000_000);
        let fences = ["leasehold:f{a}a", "leasehold:f{b}b"].map(String::from);

        let call = grant_batch(&[&a, &b], not_after, None);
        let keys = ["a", "leasehold:w{a}a", "b", "leasehold:w{b}b"].map(String::from);
        assert_eq!(shown(&call.keys), [&keys[..], &fences].concat());
        assert_eq!(shown(&call.args), ["1700000000000000", "30000", "600000", A, B]);
        let call = release_batch(&[&a, &b]);
        assert_eq!(
            (shown(&call.keys), shown(&call.args)),
            (vec!["a".into(), "b".into()], vec![A.into(), B.into()])
        );
        let call = renew_batch(&[&a, &b], None);
        assert_eq!(shown(&call.keys), [&["a".to_owned(), "b".into()][..], &fences].concat());
        assert_eq!(shown(&call.args), ["30000", "600000", A, B]);
    }

    #[test]
    fn batches_at_a_member_have_its_key_and_the_run_and_the_proposals() {
        let longest = Ttl::new(std::time::Duration::from_secs(60)).unwrap();
        let a = attempt("a", 0xab);
        let a = a.at_member(a.holder, Proposal { fence: Fence::new(7).unwrap(), max_ttl: longest });
        let vouching = |by_slot| Some(Vouching { run: Some("c0ffee"), longest, by_slot });
        let call = grant_batch(&[&a], Stamp::from_micros(9), vouching(false));
        assert_eq!((call.keys.len(), shown(&call.keys).pop().unwrap()), (4, "leasehold:member".into()));
        assert_eq!(shown(&call.args), ["9", "30000", "600000", "c0ffee", "60000", A, "7"]);
        let call = renew_batch(&[&a], vouching(true));
        assert_eq!(shown(&call.keys), ["a", "leasehold:f{a}a", "leasehold:member{a}"]);
        assert_eq!(shown(&call.args), ["30000", "600000", "c0ffee", "60000", A]);
    }

    #[test]
    fn only_exclusive_claims_of_one_key_are_batched() {
        let [a, b] = ["a", "b"].map(|key| Key::new(key).unwrap());
        let of = |claim| Attempt::new(claim, Holder::from_bits(0xab), None, Ttl::DEFAULT);
        assert_eq!(batched_key(&of(Claim::exclusive(a.clone()))), Some(&a));
        assert_eq!(batched_key(&of(Claim::exclusive_all([a.clone(), b]).unwrap())), None);
        assert_eq!(batched_key(&of(Claim::shared([a.clone()]).unwrap())), None);
        assert_eq!(batched_key(&of(Claim::permits([a], 1, 1).unwrap())), None);
    }

    /// A claim must never get the answer of another claim.
    #[test]
    fn an_answer_that_does_not_fit_the_claims_is_an_error() {
        let text = |text: &str| Value::BulkString(text.into());
        let grants = |fields: &[Value]| read_grants(&Value::Array(fields.to_vec()), 2);
        let (now, fence) = (Stamp::from_micros(5), Fence::new(7));
        let answer = grants(&[text("5"), text("7"), Value::Nil]);
        assert_eq!(answer, Ok(Granted { now, fences: Some(vec![fence, None]) }));
        assert_eq!(grants(&[text("5")]), Ok(Granted { now, fences: None }));
        for strange in [
            &[][..],
            &[text("5"), text("7")],
            &[text("5"), text("7"), text("8"), text("9")],
            &[text("5"), text("x"), Value::Nil],
            &[text("5"), Value::Int(7), Value::Nil],
            &[Value::Nil, text("7"), Value::Nil],
        ] {
            assert!(grants(strange).is_err(), "{strange:?}");
        }
        let done = |fields: &[i64]| {
            read_done(&Value::Array(fields.iter().map(|field| Value::Int(*field)).collect()), 2)
        };
        assert_eq!(done(&[1, 0]), Ok(vec![true, false]));
        assert!([&[][..], &[1], &[1, 0, 1], &[1, 2]].iter().all(|strange| done(strange).is_err()));
        assert!(read_grants(&Value::Okay, 0).is_err() && read_done(&Value::Nil, 0).is_err());
    }
}
