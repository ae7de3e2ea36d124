//! Decodes the answers of the scripts.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Answer, Attempt, BreakAnswer, Fence, GrantAnswer, HoldAnswer, Holder, HolderInfo, Key, KeyState, Label,
    Marked, Misuse, Mode, Owner, Quarantined, QueuePosition, RaiseAnswer, Request, Stamp, Ticket, Waiter,
};
use redis::{Value, from_redis_value_ref};

use crate::slot::{Side, side_key};
use crate::wire::{self, number};

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers must handle every field")]
pub struct Reply {
    /// The answer.
    pub answer: Answer,
    /// Keys that are free although somebody waits, because more waiters were gone than one request
    /// removes. The caller sends [`Request::Advance`] for them.
    pub unfinished: Vec<Key>,
}

/// The answer to a request of one kind. At a member of a quorum that abstains, there is none, but
/// only how long it abstains.
#[derive(Debug)]
pub(crate) struct Decoded<T> {
    pub(crate) answer: Result<T, Quarantined>,
    /// As in [`Reply`].
    pub(crate) unfinished: Vec<Key>,
}

impl<T> Decoded<T> {
    fn whole(answer: T) -> Self {
        Self { answer: Ok(answer), unfinished: Vec::new() }
    }

    fn map(self, wrap: impl FnOnce(T) -> Answer) -> Reply {
        let answer = match self.answer {
            Ok(answer) => wrap(answer),
            Err(Quarantined { left }) => Answer::Quarantined { left },
        };
        Reply { answer, unfinished: self.unfinished }
    }
}

/// Decodes the answer to a request.
///
/// # Errors
///
/// A message, if the answer is not one of the script's, or if a fence key cannot be used.
pub fn decode(request: &Request, value: Value) -> Result<Reply, String> {
    Ok(match request {
        Request::Grant { attempt, .. } => grant_in(value, attempt)?.map(Answer::Grant),
        Request::Renew(attempt) => held_in(value, attempt)?.map(Answer::Renew),
        Request::Rejoin { attempt, .. } => held_in(value, attempt)?.map(Answer::Rejoin),
        Request::Raise(attempt) => raise_in(value, attempt)?.map(Answer::Raise),
        Request::Transfer { attempt, .. } => held_in(value, attempt)?.map(Answer::Transfer),
        Request::Release(attempt) => released_in(value, attempt)?.map(Answer::Release),
        Request::Advance(keys) => Reply { answer: Answer::Advance, unfinished: advance_in(value, keys)? },
        Request::Mark { attempt, .. } => mark_in(value, attempt)?.map(Answer::Mark),
        Request::Marked(key) => marked_in(value, key)?.map(Answer::Marked),
        Request::Break { key, .. } => break_in(value, key)?.map(Answer::Break),
        Request::Inspect(key) => state_in(value, key)?.map(Answer::Inspect),
    })
}

pub(crate) fn grant_in(value: Value, attempt: &Attempt) -> Result<Decoded<GrantAnswer>, String> {
    at_member(value, attempt, Fields::grant)
}

/// The answer to a renewal, to taking a lease again, or to a transfer.
pub(crate) fn held_in(value: Value, attempt: &Attempt) -> Result<Decoded<HoldAnswer>, String> {
    at_member(value, attempt, Fields::hold)
}

pub(crate) fn raise_in(value: Value, attempt: &Attempt) -> Result<Decoded<RaiseAnswer>, String> {
    at_member(value, attempt, Fields::raise)
}

/// The answer to a release.
pub(crate) fn released_in(value: Value, attempt: &Attempt) -> Result<Decoded<HoldAnswer>, String> {
    let fields = Fields::of(value)?;
    Ok(Decoded { answer: Ok(fields.hold(attempt)?), unfinished: fields.unfinished_of(attempt)? })
}

/// The keys of a request to hand keys over that are not handed over yet.
pub(crate) fn advance_in(value: Value, keys: &[Key]) -> Result<Vec<Key>, String> {
    Fields::of(value)?.unfinished(|nth| keys.get(nth))
}

pub(crate) fn mark_in(value: Value, attempt: &Attempt) -> Result<Decoded<HoldAnswer>, String> {
    Ok(Decoded::whole(Fields::of(value)?.hold(attempt)?))
}

pub(crate) fn marked_in(value: Value, key: &Key) -> Result<Decoded<Marked>, String> {
    Ok(Decoded::whole(Fields::of(value)?.marked(key)?))
}

pub(crate) fn break_in(value: Value, key: &Key) -> Result<Decoded<BreakAnswer>, String> {
    let fields = Fields::of(value)?;
    let unfinished = fields.unfinished(|nth| [key].get(nth).copied())?;
    Ok(Decoded { answer: Ok(fields.broken(key)?), unfinished })
}

pub(crate) fn state_in(value: Value, key: &Key) -> Result<Decoded<KeyState>, String> {
    Ok(Decoded::whole(Fields::of(value)?.seen(key)?))
}

/// An answer that a member of a quorum may refuse to give.
fn at_member<T>(
    value: Value,
    attempt: &Attempt,
    read: impl FnOnce(&Fields, &Attempt) -> Result<T, String>,
) -> Result<Decoded<T>, String> {
    let fields = Fields::of(value)?;
    if let Some(abstains) = fields.abstains(attempt)? {
        return Ok(Decoded { answer: Err(abstains), unfinished: Vec::new() });
    }
    Ok(Decoded { answer: Ok(read(&fields, attempt)?), unfinished: fields.unfinished_of(attempt)? })
}

/// The server's time in the answer to a grant.
pub(crate) fn time_of_grant(value: &Value) -> Option<Stamp> {
    let Value::Array(fields) = value else { return None };
    let [.., Value::BulkString(micros), Value::Array(_)] = fields.as_slice() else { return None };
    number(micros).map(Stamp::from_micros)
}

/// The answer to `TIME`.
pub(crate) fn time_of(value: &Value) -> Option<Stamp> {
    let (seconds, micros): (u64, u64) = from_redis_value_ref(value).ok()?;
    seconds.checked_mul(1_000_000)?.checked_add(micros).map(Stamp::from_micros)
}

/// The run of the server in the answer to `INFO`, if it contains one.
pub(crate) fn run_of(value: &Value) -> Option<Arc<str>> {
    let text = text_of(value)?;
    let run = text.lines().find_map(|line| line.strip_prefix("run_id:"))?.trim();
    let is_one = !run.is_empty() && run.len() <= 64 && run.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_one.then(|| run.into())
}

/// The text of an answer. Bytes that are not UTF-8 are replaced.
pub(crate) fn text_of(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes)),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.into()),
        _ => None,
    }
}

/// True if a server says in its answer to `ROLE` that it is a master. `None` if it is not valid.
pub(crate) fn is_master(role: &Value) -> Option<bool> {
    let Value::Array(fields) = role else { return None };
    Some(text_of(fields.first()?)? == "master")
}

const DONE: i64 = 0;
const HELD: i64 = 1;
const TOO_LATE: i64 = 2;
const NO_LOCK: i64 = 3;
const FENCES_SPENT: i64 = 4;
const FENCE_UNREADABLE: i64 = 5;
const FREE: i64 = 6;
const STANDS: i64 = 7;
const FULL: i64 = 8;
const UNFINISHED: i64 = 9;
const QUARANTINED: i64 = 10;
const TTL_TOO_LONG: i64 = 11;
const HELD_TOGETHER: i64 = 12;

/// The fields of an answer: first a code, then its data.
struct Fields {
    code: i64,
    rest: Vec<Value>,
}

impl Fields {
    fn of(value: Value) -> Result<Self, String> {
        let Value::Array(mut fields) = value else {
            return Err(strange(format_args!("no array")));
        };
        match fields.first() {
            Some(&Value::Int(code)) => {
                fields.remove(0);
                Ok(Self { code, rest: fields })
            }
            _ => Err(strange(format_args!("no code"))),
        }
    }

    /// Answers that only a member of a quorum gives.
    fn abstains(&self, attempt: &Attempt) -> Result<Option<Quarantined>, String> {
        let Some(proposal) = attempt.proposal else { return Ok(None) };
        match (self.code, self.rest.as_slice()) {
            (QUARANTINED, [Value::Int(left), ..]) => {
                let left = u64::try_from(*left).map_err(|_| self.strange())?;
                Ok(Some(Quarantined { left: Duration::from_millis(left) }))
            }
            (TTL_TOO_LONG, _) => {
                Err(Misuse::TtlOverLongest { asked: attempt.ttl, longest: proposal.max_ttl }.to_string())
            }
            _ => Ok(None),
        }
    }

    fn grant(&self, attempt: &Attempt) -> Result<GrantAnswer, String> {
        Ok(match (self.code, self.rest.as_slice()) {
            (DONE, [Value::BulkString(fence), Value::BulkString(_), Value::Array(_)]) => {
                let fence = number(fence).and_then(Fence::new).ok_or_else(|| self.strange())?;
                GrantAnswer::Granted { fence }
            }
            (HELD, _) => GrantAnswer::Busy { held_by: self.held_by(attempt)?, place: None },
            (STANDS, [_, _, _, Value::BulkString(ticket), Value::Int(before), Value::Int(stood), ..]) => {
                let ticket = number(ticket).map(Ticket::new).ok_or_else(|| self.strange())?;
                let before = u64::try_from(*before).map_err(|_| self.strange())?;
                let place = Some(QueuePosition { ticket, before, stood: *stood == 1 });
                GrantAnswer::Busy { held_by: self.held_by(attempt)?, place }
            }
            (FULL, [_, _, _, Value::Int(length), ..]) => {
                let length = u64::try_from(*length).map_err(|_| self.strange())?;
                GrantAnswer::QueueFull { held_by: self.held_by(attempt)?, length }
            }
            (UNFINISHED, _) => GrantAnswer::Unfinished,
            (TOO_LATE, [Value::BulkString(time), ..]) => {
                let now = number(time).map(Stamp::from_micros).ok_or_else(|| self.strange())?;
                GrantAnswer::TooLate { now }
            }
            (NO_LOCK, _) => GrantAnswer::NotALock { key: self.key(attempt)?.clone() },
            (FENCES_SPENT, _) => GrantAnswer::FencesSpent { key: self.key(attempt)?.clone() },
            (FENCE_UNREADABLE, _) => return Err(self.no_fence()),
            _ => return Err(self.strange()),
        })
    }

    fn no_fence(&self) -> String {
        let [_, Value::BulkString(name), ..] = self.rest.as_slice() else { return self.strange() };
        let name = name.escape_ascii();
        format!("{name} holds something that is not a fence: find out who wrote it, and delete it")
    }

    fn raise(&self, attempt: &Attempt) -> Result<RaiseAnswer, String> {
        if let (DONE, [Value::BulkString(fence), Value::Array(_)]) = (self.code, self.rest.as_slice()) {
            let fence = number(fence).and_then(Fence::new).ok_or_else(|| self.strange())?;
            return Ok(RaiseAnswer::Raised { fence });
        }
        match self.hold(attempt)? {
            HoldAnswer::NotHeld { key, held_by } => Ok(RaiseAnswer::NotHeld { key, held_by }),
            HoldAnswer::Done => Err(self.strange()),
        }
    }

    /// The holder of the key that the attempt did not get.
    fn held_by(&self, attempt: &Attempt) -> Result<HolderInfo, String> {
        self.holding(self.key(attempt)?)?.ok_or_else(|| self.strange())
    }

    fn hold(&self, attempt: &Attempt) -> Result<HoldAnswer, String> {
        match self.code {
            DONE => return Ok(HoldAnswer::Done),
            FENCE_UNREADABLE => return Err(self.no_fence()),
            _ => {}
        }
        let key = self.key(attempt)?;
        Ok(HoldAnswer::NotHeld { key: key.clone(), held_by: self.holding(key)? })
    }

    fn marked(&self, key: &Key) -> Result<Marked, String> {
        let now = |time: &[u8]| number(time).map(Stamp::from_micros).ok_or_else(|| self.strange());
        match (self.code, self.rest.as_slice()) {
            (FREE, [Value::BulkString(time)]) => Ok(Marked { mark: None, now: now(time)? }),
            (DONE, [Value::BulkString(value), Value::BulkString(time)]) => {
                let mark = wire::read_mark(value).ok_or_else(|| no_mark(key))?;
                Ok(Marked { mark: Some(mark), now: now(time)? })
            }
            (NO_LOCK, _) => Err(no_mark(key)),
            _ => Err(self.strange()),
        }
    }

    fn broken(&self, key: &Key) -> Result<BreakAnswer, String> {
        if self.code != DONE {
            return Ok(BreakAnswer::NotHeld { held_by: self.holding(key)? });
        }
        let holding = self.holding(key)?.ok_or_else(|| self.strange())?;
        Ok(BreakAnswer::Broken { holding })
    }

    /// The holder of a key in the answer; of several, the one whose share ends first.
    fn holding(&self, key: &Key) -> Result<Option<HolderInfo>, String> {
        let (owner, mode, fence, remaining) = match (self.code, self.rest.as_slice()) {
            (FREE, _) => return Ok(None),
            (NO_LOCK, [_, Value::Int(pttl), ..]) => (Owner::NotALock, Mode::Exclusive, None, *pttl),
            (DONE | HELD | STANDS | FULL, [_, Value::BulkString(value), Value::Int(pttl), ..]) => {
                let (owner, fence) = wire::read(value);
                (owner, Mode::Exclusive, fence, *pttl)
            }
            (DONE | HELD | STANDS | FULL, [_, Value::Array(share), Value::Int(left), ..]) => {
                let (owner, mode, fence) =
                    holder_of_a_share(share).ok_or_else(|| strangers(1, Side::Holders, key))?;
                (owner, mode, fence, *left)
            }
            _ => return Err(self.strange()),
        };
        let remaining = u64::try_from(remaining).ok().map(Duration::from_millis);
        Ok(Some(HolderInfo::exclusive(key.clone(), owner, fence, remaining).in_mode(mode)))
    }

    /// The state of a key in the answer to an inspection.
    fn seen(&self, key: &Key) -> Result<KeyState, String> {
        let (holders, strange_holders) = self.holders(key)?;
        let (line, strange_waiters) = self.waiters()?;
        let state = KeyState::new(key.clone(), holders, line).at(self.time()?);
        let mut strange = [(strange_holders, Side::Holders), (strange_waiters, Side::Queue)].into_iter();
        Ok(match strange.find(|(count, _)| *count > 0) {
            Some((count, side)) => state.damaged(strangers(count, side, key)),
            None => state,
        })
    }

    /// All holders in the answer to an inspection, by fence, and the number of foreign entries.
    fn holders(&self, key: &Key) -> Result<(Vec<HolderInfo>, usize), String> {
        let (HELD_TOGETHER, [_, Value::BulkString(marker), Value::Array(shares), ..]) =
            (self.code, self.rest.as_slice())
        else {
            return Ok((self.holding(key)?.into_iter().collect(), 0));
        };
        let (now, mut holders, mut strange) = (self.time()?, Vec::new(), 0);
        for share in shares.chunks(5) {
            let read = || {
                let [digits, Value::BulkString(ends), weight, fence, tail] = share else { return None };
                let marker = Value::BulkString(marker.clone());
                let share = [&marker, digits, weight, fence, tail].map(Clone::clone);
                let (owner, mode, fence) = holder_of_a_share(&share)?;
                let ends = number(ends).filter(|ends| *ends <= wire::ENDS_MAX)?;
                let ends = Stamp::from_micros(ends * 1000);
                let remaining = Some(now.saturating_until(ends));
                Some(HolderInfo::exclusive(key.clone(), owner, fence, remaining).in_mode(mode))
            };
            match read() {
                Some(holding) => holders.push(holding),
                None => strange += 1,
            }
        }
        holders.sort_by_key(|holding| (holding.fence, holding.owner.holder()));
        Ok((holders, strange))
    }

    /// The key that the answer concerns.
    fn key<'a>(&self, attempt: &'a Attempt) -> Result<&'a Key, String> {
        let nth = self.rest.first().and_then(nth_of);
        nth.and_then(|nth| attempt.claim.keys().nth(nth)).ok_or_else(|| self.strange())
    }

    /// The server's time, which comes before the queue in the answer to an inspection.
    fn time(&self) -> Result<Stamp, String> {
        let [.., Value::BulkString(time), Value::Array(_)] = self.rest.as_slice() else {
            return Err(self.strange());
        };
        number(time).map(Stamp::from_micros).ok_or_else(|| self.strange())
    }

    /// The waiters, which come last in the answer to an inspection, and the number of entries that
    /// are not ours.
    fn waiters(&self) -> Result<(Vec<Waiter>, usize), String> {
        let now = self.time()?;
        let Some(Value::Array(line)) = self.rest.last() else { return Err(self.strange()) };
        let waiter = |said: &[Value]| {
            let [
                Value::BulkString(digits),
                Value::BulkString(ticket),
                Value::BulkString(mode),
                Value::BulkString(tail),
            ] = said
            else {
                return None;
            };
            let label = tail.strip_prefix(b" ").map(Label::read);
            let waited = Stamp::from_micros(number(ticket)?).saturating_until(now);
            // An entry that another program wrote is handed over as if it wanted the key
            // exclusively, so it is shown that way.
            let mode = wire::read_mode(mode).unwrap_or(Mode::Exclusive);
            Some(Waiter::exclusive(Holder::from_digits(digits)?, label, waited).in_mode(mode))
        };
        let waiters: Vec<_> = line.chunks(4).filter_map(waiter).collect();
        let strange = line.len().div_ceil(4) - waiters.len();
        Ok((waiters, strange))
    }

    fn unfinished_of(&self, attempt: &Attempt) -> Result<Vec<Key>, String> {
        self.unfinished(|nth| attempt.claim.keys().nth(nth))
    }

    /// The keys that are free although somebody waits, which come last in the answer.
    fn unfinished<'a>(&self, key: impl Fn(usize) -> Option<&'a Key>) -> Result<Vec<Key>, String> {
        let Some(Value::Array(nths)) = self.rest.last() else { return Err(self.strange()) };
        let key = |nth: &Value| key(nth_of(nth)?).cloned();
        nths.iter().map(|nth| key(nth).ok_or_else(|| self.strange())).collect()
    }

    fn strange(&self) -> String {
        strange(format_args!("code {}, then {} fields", self.code, self.rest.len()))
    }
}

fn strangers(count: usize, side: Side, key: &Key) -> String {
    let side = side_key(side, key);
    let members = if count == 1 { "member that is" } else { "members that are" };
    format!("{} has {count} {members} not ours: find out who wrote there, and delete it", side.escape_ascii())
}

fn no_mark(key: &Key) -> String {
    let side = side_key(Side::Mark, key);
    let side = side.escape_ascii();
    format!("{side} holds something that is not a mark: find out who wrote it, and delete it")
}

/// The owner of a share, its mode and its fence, from the marker, digits, weight, fence and tail.
fn holder_of_a_share(said: &[Value]) -> Option<(Owner, Mode, Option<Fence>)> {
    let [
        Value::BulkString(marker),
        Value::BulkString(digits),
        Value::BulkString(weight),
        Value::BulkString(fence),
        Value::BulkString(tail),
    ] = said
    else {
        return None;
    };
    let weight = number(weight).and_then(|weight| u32::try_from(weight).ok())?;
    let label = tail.strip_prefix(b" ").map(Label::read);
    let owner = Owner::Holder { holder: Holder::from_digits(digits)?, label };
    Some((owner, wire::family(marker)?.mode(weight), number(fence).and_then(Fence::new)))
}

/// Scripts count from 1.
pub(crate) fn nth_of(value: &Value) -> Option<usize> {
    let Value::Int(nth) = value else { return None };
    usize::try_from(*nth).ok()?.checked_sub(1)
}

/// Shows nothing of the fields: holders' ids are secrets.
pub(crate) fn strange(form: fmt::Arguments<'_>) -> String {
    format!("the server answered what the script never does ({form}): find out what stands between us and it")
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Claim, Ttl};

    use super::*;

    const DIGITS: &str = "000000000000000000000000000000cd";

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn held_by_a_share(share: &[&str]) -> Value {
        let share = Value::Array(share.iter().map(|it| text(it)).collect());
        let time = text("1700000000000000");
        Value::Array(vec![
            Value::Int(HELD),
            Value::Int(1),
            share,
            Value::Int(1500),
            time,
            Value::Array(vec![]),
        ])
    }

    #[test]
    fn a_share_is_read_as_its_holders() {
        let key = Key::new("a").unwrap();
        let attempt =
            Attempt::new(Claim::exclusive(key.clone()), Holder::from_bits(0xab), None, Ttl::DEFAULT);
        let request = Request::Grant { attempt, wait: None, not_after: None };
        let value = held_by_a_share(&["lh1 permits 4", DIGITS, "2", "7", " web-3"]);
        let owner = Owner::Holder { holder: Holder::from_bits(0xcd), label: Label::new("web-3").ok() };
        let held_by = HolderInfo::exclusive(key, owner, Fence::new(7), Some(Duration::from_millis(1500)))
            .in_mode(Mode::permits(2, 4).unwrap());
        let answer = Answer::Grant(GrantAnswer::Busy { held_by, place: None });
        assert_eq!(decode(&request, value), Ok(Reply { answer, unfinished: Vec::new() }));
    }

    #[test]
    fn an_unexpected_reply_is_an_error_and_not_a_panic() {
        let int = Value::Int;
        let none = || Value::Array(vec![]);
        let strange = [
            Value::Nil,
            Value::Okay,
            none(),
            Value::Array(vec![text("0")]),
            Value::Array(vec![int(0)]),
            Value::Array(vec![int(0), text("1"), text("1")]),
            Value::Array(vec![int(0), text("9007199254740992"), text("1"), none()]),
            Value::Array(vec![int(0), text("1"), text("1"), Value::Array(vec![int(2)])]),
            Value::Array(vec![int(0), text("1"), text("1"), Value::Array(vec![int(0)])]),
            Value::Array(vec![int(1), int(1)]),
            Value::Array(vec![int(3), int(0), text("1"), none()]),
            Value::Array(vec![int(3), int(2), text("1"), none()]),
            Value::Array(vec![int(6), int(1), text("1"), none()]),
            Value::Array(vec![int(7), int(1), text("x"), int(1), text("1"), int(-1), int(0), none()]),
            Value::Array(vec![int(8), int(1), text("x"), int(1), int(-1), text("1"), none()]),
            Value::Array(vec![int(i64::MIN), int(i64::MIN)]),
            held_by_a_share(&["lh1 shared", "ab", "1", "7", ""]),
            held_by_a_share(&["lh1 shared", DIGITS, "-1", "7", ""]),
            held_by_a_share(&["lh2 shared", DIGITS, "1", "7", ""]),
            held_by_a_share(&["lh1 shared", DIGITS, "1", "7"]),
        ];
        let claim = Claim::exclusive(Key::new("a").unwrap());
        let attempt = Attempt::new(claim, Holder::from_bits(0xab), None, Ttl::DEFAULT);
        for value in strange {
            let request = Request::Grant { attempt: attempt.clone(), wait: None, not_after: None };
            assert!(decode(&request, value.clone()).is_err(), "{value:?}");
        }
    }
}
