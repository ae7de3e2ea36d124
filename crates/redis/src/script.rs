//! What is said to the server and what it answers, without saying it.
//!
//! One script serves each request, so that nothing can come between its looking and its writing. The texts are constant,
//! names travel only in `KEYS`, everything else in `ARGV`; each text opens with its contract.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use leasehold_core::{
    Answer, Attempt, Fence, GrantAnswer, HoldAnswer, Holder, Key, KeyState, Label, LastFence, Line, Place,
    Request, Stamp, Tenancy, Tenant, Ticket, Wait, Waiter,
};
use redis::{Cmd, Value, cmd};

pub use crate::native::{DeleteIfEqual, native_pair, native_release};
use crate::slot::{Side, side_key};
use crate::wire::{self, number};

/// Gives a holder all keys of a claim, or none.
pub static GRANT: Script = Script::new(concat!(
    include_str!("scripts/read.lua"),
    include_str!("scripts/state.lua"),
    include_str!("scripts/line.lua"),
    include_str!("scripts/grant.lua")
));
/// Lets a lease last a ttl from now.
pub static RENEW: Script = Script::new(concat!(
    include_str!("scripts/read.lua"),
    include_str!("scripts/state.lua"),
    include_str!("scripts/line.lua"),
    include_str!("scripts/renew.lua")
));
/// Takes back what a holder holds.
pub static RELEASE: Script = Script::new(concat!(
    include_str!("scripts/read.lua"),
    include_str!("scripts/state.lua"),
    include_str!("scripts/line.lua"),
    include_str!("scripts/release.lua")
));
/// Says who holds a key.
pub static INSPECT: Script =
    Script::new(concat!(include_str!("scripts/read.lua"), include_str!("scripts/inspect.lua")));
/// Finds out whether scripts may be run, and what time it is.
pub static OPEN: Script = Script::new(include_str!("scripts/open.lua"));

/// A script, known to servers by the SHA-1 of its text.
#[derive(Debug)]
pub struct Script {
    text: &'static str,
    sha: OnceLock<String>,
}

impl Script {
    /// A script of this text.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        Self { text, sha: OnceLock::new() }
    }

    /// The text.
    #[must_use]
    pub const fn text(&self) -> &'static str {
        self.text
    }

    /// The SHA-1 of the text, in small hexadecimal digits.
    #[must_use]
    pub fn sha(&self) -> &str {
        self.sha.get_or_init(|| redis::Script::new(self.text).get_hash().to_owned())
    }
}

/// A script with its keys and arguments.
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a test runs a script of its own with the keys and arguments of another"
)]
pub struct Call {
    /// The script.
    pub script: &'static Script,
    /// `KEYS`.
    pub keys: Vec<Vec<u8>>,
    /// `ARGV`.
    pub args: Vec<Vec<u8>>,
}

impl Call {
    /// The command that runs the script if the server knows it, and answers `NOSCRIPT` otherwise.
    #[must_use]
    pub fn by_sha(&self) -> Cmd {
        self.command("EVALSHA", self.script.sha())
    }

    /// The command that runs the script whether or not the server knows it; afterwards it does.
    #[must_use]
    pub fn by_text(&self) -> Cmd {
        self.command("EVAL", self.script.text())
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = cmd(name);
        command.arg(script).arg(self.keys.len()).arg(&self.keys).arg(&self.args);
        command
    }
}

/// The call that finds out whether scripts may be run.
pub(crate) fn opening_call() -> Call {
    Call { script: &OPEN, keys: Vec::new(), args: Vec::new() }
}

/// The call that serves a request. A lock that it hands over may remain unclaimed for `window`.
#[must_use]
pub fn call_for(request: &Request, window: Duration) -> Call {
    let window = window.as_millis().to_string().into();
    match request {
        Request::Grant { attempt, wait, not_after } => {
            let [ttl, keep] = lengths(attempt);
            let not_after = not_after.map_or_else(String::new, |limit| limit.as_micros().to_string()).into();
            let mut args =
                vec![holder(attempt), window, wire::tail_of(attempt.label.as_ref()), ttl, keep, not_after];
            args.extend(wait.iter().flat_map(|wait| waiting(attempt, wait)));
            Call { script: &GRANT, keys: keys(attempt), args }
        }
        Request::Renew(attempt) => {
            let [ttl, keep] = lengths(attempt);
            Call { script: &RENEW, keys: keys(attempt), args: vec![holder(attempt), window, ttl, keep] }
        }
        Request::Release(attempt) => {
            Call { script: &RELEASE, keys: keys(attempt), args: vec![holder(attempt), window] }
        }
        // Nobody has this id, so nothing is released, and all is handed on.
        Request::Advance(of) => {
            let keys = of.iter().flat_map(with_sides).collect();
            Call { script: &RELEASE, keys, args: vec![vec![b'0'; Holder::DIGITS], window] }
        }
        Request::Inspect(key) => Call { script: &INSPECT, keys: with_sides(key).into(), args: Vec::new() },
    }
}

/// Each key of a claim, and its side keys behind it.
fn keys(attempt: &Attempt) -> Vec<Vec<u8>> {
    attempt.claim.keys().flat_map(with_sides).collect()
}

fn with_sides(key: &Key) -> [Vec<u8>; 4] {
    let side = |side| side_key(side, key);
    [key.as_bytes().to_vec(), side(Side::Fence), side(Side::Line), side(Side::Waiters)]
}

fn holder(attempt: &Attempt) -> Vec<u8> {
    attempt.holder.digits().into()
}

/// The ttl, and how long the fence is remembered, in milliseconds.
fn lengths(attempt: &Attempt) -> [Vec<u8>; 2] {
    let keep = LastFence::kept_for(attempt.ttl).as_millis();
    [attempt.ttl.as_millis().to_string().into(), keep.to_string().into()]
}

/// What an attempt that waits says besides.
fn waiting(attempt: &Attempt, wait: &Wait) -> [Vec<u8>; 5] {
    let channel = wait.channel.as_ref().map_or_else(Vec::new, |channel| channel.as_bytes().to_vec());
    debug_assert!(!channel.contains(&b' '), "a channel that was not made by wire::channel_of");
    let place = wait.ticket.as_ref().and_then(|(at, ticket)| {
        let nth = attempt.claim.keys().position(|key| key == at)? + 1;
        Some([nth.to_string(), ticket.get().to_string()])
    });
    let [nth, ticket] = place.unwrap_or_default().map(Vec::from);
    let limit = wait.line_limit.map_or_else(String::new, |limit| limit.to_string()).into();
    [channel, nth, ticket, limit, Line::KEPT_FOR.as_millis().to_string().into()]
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever asks must handle all of it")]
pub struct Reply {
    /// The answer.
    pub answer: Answer,
    /// Keys that are free although somebody waits: more waiters were gone than one request clears away. Whoever asked sends
    /// [`Request::Advance`] for them.
    pub unfinished: Vec<Key>,
}

/// Reads the answer to a request.
///
/// # Errors
///
/// In words, when the server says something that is no answer of the script's, or that a fence key cannot be used.
pub fn decode(request: &Request, value: Value) -> Result<Reply, String> {
    let fields = Fields::of(value)?;
    let (answer, keys): (_, Vec<_>) = match request {
        Request::Grant { attempt, .. } => {
            (Answer::Grant(fields.grant(attempt)?), attempt.claim.keys().collect())
        }
        Request::Renew(attempt) => (Answer::Renew(fields.hold(attempt)?), attempt.claim.keys().collect()),
        Request::Release(attempt) => (Answer::Release(fields.hold(attempt)?), attempt.claim.keys().collect()),
        Request::Advance(keys) => (Answer::Advance, keys.iter().collect()),
        Request::Inspect(key) => {
            let tenancies = fields.tenancy(key)?.into_iter().collect();
            let state = KeyState::new(key.clone(), tenancies, fields.waiters()?);
            return Ok(Reply { answer: Answer::Inspect(state), unfinished: Vec::new() });
        }
    };
    Ok(Reply { answer, unfinished: fields.unfinished(&keys)? })
}

/// The server's time in the answer to a grant.
pub(crate) fn time_of_grant(value: &Value) -> Option<Stamp> {
    let Value::Array(fields) = value else { return None };
    let [.., Value::BulkString(micros), Value::Array(_)] = fields.as_slice() else { return None };
    number(micros).map(Stamp::from_micros)
}

/// The answer to `TIME`.
pub(crate) fn time_of(value: &Value) -> Option<Stamp> {
    let Value::Array(fields) = value else { return None };
    let [Value::BulkString(seconds), Value::BulkString(micros)] = fields.as_slice() else { return None };
    let seconds = number(seconds)?.checked_mul(1_000_000)?;
    seconds.checked_add(number(micros)?).map(Stamp::from_micros)
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

/// The fields of an answer: a code first, and then what belongs to it.
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

    fn grant(&self, attempt: &Attempt) -> Result<GrantAnswer, String> {
        Ok(match (self.code, self.rest.as_slice()) {
            (DONE, [Value::BulkString(fence), Value::BulkString(_), Value::Array(_)]) => {
                let fence = number(fence).and_then(Fence::new).ok_or_else(|| self.strange())?;
                GrantAnswer::Granted { fence }
            }
            (HELD, _) => GrantAnswer::Busy { held_by: self.held_by(attempt)?, place: None },
            (STANDS, [_, _, _, _, Value::BulkString(ticket), Value::Int(before), Value::Int(stood), ..]) => {
                let ticket = number(ticket).map(Ticket::new).ok_or_else(|| self.strange())?;
                let before = u64::try_from(*before).map_err(|_| self.strange())?;
                let place = Some(Place { ticket, before, stood: *stood == 1 });
                GrantAnswer::Busy { held_by: self.held_by(attempt)?, place }
            }
            (FULL, [_, _, _, _, Value::Int(length), ..]) => {
                let length = u64::try_from(*length).map_err(|_| self.strange())?;
                GrantAnswer::LineFull { held_by: self.held_by(attempt)?, length }
            }
            (UNFINISHED, _) => GrantAnswer::Unfinished,
            (TOO_LATE, [Value::BulkString(time), ..]) => {
                let now = number(time).map(Stamp::from_micros).ok_or_else(|| self.strange())?;
                GrantAnswer::TooLate { now }
            }
            (NO_LOCK, _) => GrantAnswer::NotALock { key: self.key(attempt)?.clone() },
            (FENCES_SPENT, _) => GrantAnswer::FencesSpent { key: self.key(attempt)?.clone() },
            (FENCE_UNREADABLE, _) => {
                let side = side_key(Side::Fence, self.key(attempt)?);
                return Err(format!(
                    "{} holds something that is no fence: find out who wrote it, and delete it",
                    side.escape_ascii()
                ));
            }
            _ => return Err(self.strange()),
        })
    }

    /// Who holds the key that the attempt did not get.
    fn held_by(&self, attempt: &Attempt) -> Result<Tenancy, String> {
        self.tenancy(self.key(attempt)?)?.ok_or_else(|| self.strange())
    }

    fn hold(&self, attempt: &Attempt) -> Result<HoldAnswer, String> {
        if self.code == DONE {
            return Ok(HoldAnswer::Done);
        }
        let key = self.key(attempt)?;
        Ok(HoldAnswer::NotHeld { key: key.clone(), held_by: self.tenancy(key)? })
    }

    /// Who the answer says holds a key.
    fn tenancy(&self, key: &Key) -> Result<Option<Tenancy>, String> {
        let (tenant, fence, remaining) = match (self.code, self.rest.as_slice()) {
            (FREE, _) => return Ok(None),
            (NO_LOCK, [_, Value::Int(pttl), ..]) => (Tenant::NotALock, None, *pttl),
            (
                HELD | STANDS | FULL,
                [_, Value::BulkString(value), Value::Int(pttl), Value::BulkString(fence), ..],
            ) => {
                let tenant = wire::read(value);
                let ours = matches!(tenant, Tenant::Holder { .. });
                (tenant, number(fence).and_then(Fence::new).filter(|_| ours), *pttl)
            }
            _ => return Err(self.strange()),
        };
        let remaining = u64::try_from(remaining).ok().map(Duration::from_millis);
        Ok(Some(Tenancy::exclusive(key.clone(), tenant, fence, remaining)))
    }

    /// The key that the answer is about.
    fn key<'a>(&self, attempt: &'a Attempt) -> Result<&'a Key, String> {
        let nth = self.rest.first().and_then(nth_of);
        nth.and_then(|nth| attempt.claim.keys().nth(nth)).ok_or_else(|| self.strange())
    }

    /// Who waits, which comes last in the answer to an inspection, behind the server's time.
    fn waiters(&self) -> Result<Vec<Waiter>, String> {
        let [.., Value::BulkString(time), Value::Array(line)] = self.rest.as_slice() else {
            return Err(self.strange());
        };
        let now = number(time).map(Stamp::from_micros).ok_or_else(|| self.strange())?;
        let waiter = |said: &[Value]| {
            let [Value::BulkString(digits), Value::BulkString(ticket), Value::BulkString(tail)] = said else {
                return None;
            };
            let label = tail.strip_prefix(b" ").map(Label::read);
            let waited = Stamp::from_micros(number(ticket)?).saturating_until(now);
            Some(Waiter::exclusive(Holder::from_digits(digits)?, label, waited))
        };
        line.chunks(3).map(|said| waiter(said).ok_or_else(|| self.strange())).collect()
    }

    /// Which keys are free although somebody waits, which comes last in the answer.
    fn unfinished(&self, keys: &[&Key]) -> Result<Vec<Key>, String> {
        let Some(Value::Array(nths)) = self.rest.last() else { return Err(self.strange()) };
        let key = |nth: &Value| Some((*keys.get(nth_of(nth)?)?).clone());
        nths.iter().map(|nth| key(nth).ok_or_else(|| self.strange())).collect()
    }

    fn strange(&self) -> String {
        strange(format_args!("code {}, then {} fields", self.code, self.rest.len()))
    }
}

/// Scripts count from 1.
fn nth_of(value: &Value) -> Option<usize> {
    let Value::Int(nth) = value else { return None };
    usize::try_from(*nth).ok()?.checked_sub(1)
}

/// Says nothing of what is in the fields: holders' ids are secrets.
fn strange(form: fmt::Arguments<'_>) -> String {
    format!("the server answered what the script never does ({form}): find out what stands between us and it")
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Claim, Holder, Label, Ttl};

    use super::*;

    fn attempt(keys: &[&str]) -> Attempt {
        let claim = Claim::exclusive_all(keys.iter().map(|key| Key::new(key).unwrap())).unwrap();
        let ttl = Ttl::new(Duration::from_secs(10)).unwrap();
        Attempt::new(claim, Holder::from_bits(0xab), Label::new("web-3").ok(), ttl)
    }

    fn shown(words: &[Vec<u8>]) -> Vec<String> {
        words.iter().map(|word| word.escape_ascii().to_string()).collect()
    }

    fn called(request: &Request) -> Call {
        call_for(request, Duration::from_secs(2))
    }

    const DIGITS: &str = "000000000000000000000000000000ab";

    #[test]
    fn calls_have_these_keys_and_arguments() {
        let grant = |not_after, wait| {
            let request = Request::Grant { attempt: attempt(&["b", "a"]), wait, not_after };
            called(&request)
        };
        let call = grant(Some(Stamp::from_micros(1_700_000_000_000_000)), None);
        let of_a = ["a", "leasehold:f{a}a", "leasehold:l{a}a", "leasehold:w{a}a"];
        let of_b = ["b", "leasehold:f{b}b", "leasehold:l{b}b", "leasehold:w{b}b"];
        assert_eq!(shown(&call.keys), [of_a, of_b].concat());
        let what = [DIGITS, "2000", " web-3", "10000", "600000"];
        assert_eq!(shown(&call.args), [&what[..], &["1700000000000000"]].concat());
        assert_eq!(shown(&grant(None, None).args), [&what[..], &[""]].concat());

        let ticket = Some((Key::new("b").unwrap(), Ticket::new(1_600_000_000_000_000)));
        let wait = Wait { channel: Some(wire::channel_of(0xcd)), ticket, line_limit: Some(50) };
        let channel = "leasehold:000000000000000000000000000000cd";
        let waits = [channel, "2", "1600000000000000", "50", "15000"];
        assert_eq!(shown(&grant(None, Some(wait)).args), [&what[..], &[""], &waits[..]].concat());
        let waits = ["", "", "", "", "15000"];
        assert_eq!(shown(&grant(None, Some(Wait::default())).args), [&what[..], &[""], &waits[..]].concat());

        let long = attempt(&["a"]).with_ttl(Ttl::MAX);
        let call = called(&Request::Renew(long));
        assert_eq!(shown(&call.args), [DIGITS, "2000", "31536000000", "63072000000"]);
        let call = called(&Request::Release(attempt(&["a"])));
        assert_eq!(
            (shown(&call.keys), shown(&call.args)),
            (shown(&of_a.map(Into::into)), shown(&[DIGITS, "2000"].map(Into::into)))
        );
        let call = called(&Request::Advance(vec![Key::new("a").unwrap()]));
        let nobody = "0".repeat(32);
        assert_eq!((call.keys.len(), shown(&call.args)), (4, shown(&[&*nobody, "2000"].map(Into::into))));
        let call = called(&Request::Inspect(Key::new("a").unwrap()));
        assert_eq!((call.keys.len(), call.args.len()), (4, 0));
    }

    #[test]
    fn commands_have_the_number_of_keys_before_the_keys() {
        let call = called(&Request::Release(attempt(&["a"])));
        let words: Vec<_> = [call.by_sha(), call.by_text()]
            .iter()
            .map(|command| String::from_utf8(command.get_packed_command()).unwrap())
            .collect();
        assert!(
            words[0].starts_with(&format!("*9\r\n$7\r\nEVALSHA\r\n$40\r\n{}\r\n$1\r\n4\r\n", RELEASE.sha()))
        );
        assert!(words[1].starts_with("*9\r\n$4\r\nEVAL\r\n") && words[1].contains(RELEASE.text()));
    }

    #[test]
    fn every_script_opens_with_its_contract() {
        for script in [&GRANT, &RENEW, &RELEASE, &INSPECT, &OPEN] {
            assert!(script.text().starts_with("-- "));
            assert!(script.text().contains("-- KEYS") && script.text().contains("ARGV"));
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error_and_not_a_panic() {
        let int = Value::Int;
        let text = |text: &str| Value::BulkString(text.into());
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
            Value::Array(vec![
                int(7),
                int(1),
                text("x"),
                int(1),
                text(""),
                text("1"),
                int(-1),
                int(0),
                none(),
            ]),
            Value::Array(vec![int(8), int(1), text("x"), int(1), text(""), int(-1), text("1"), none()]),
            Value::Array(vec![int(i64::MIN), int(i64::MIN)]),
        ];
        for value in strange {
            let request = Request::Grant { attempt: attempt(&["a"]), wait: None, not_after: None };
            assert!(decode(&request, value.clone()).is_err(), "{value:?}");
        }
    }
}
