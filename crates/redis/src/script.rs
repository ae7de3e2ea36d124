//! What is said to the server and what it answers, without saying it.
//!
//! One script serves each request, so that nothing can come between its looking and its writing. The texts are constant,
//! names travel only in `KEYS`, everything else in `ARGV`; each text opens with its contract.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use leasehold_core::{
    Answer, Attempt, Fence, GrantAnswer, HoldAnswer, Holder, Key, KeyState, LastFence, Request, Stamp,
    Tenancy, Tenant,
};
use redis::{Cmd, Value, cmd};

use crate::slot::{Side, side_key};
use crate::wire::{self, number};

/// Gives a holder all keys of a claim, or none.
pub static GRANT: Script = Script::new(concat!(
    include_str!("scripts/read.lua"),
    include_str!("scripts/own.lua"),
    include_str!("scripts/grant.lua")
));
/// Lets a lease last a ttl from now.
pub static RENEW: Script = Script::new(concat!(
    include_str!("scripts/read.lua"),
    include_str!("scripts/own.lua"),
    include_str!("scripts/renew.lua")
));
/// Takes back what a holder holds.
pub static RELEASE: Script = Script::new(concat!(
    include_str!("scripts/read.lua"),
    include_str!("scripts/own.lua"),
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
    let _ = window;
    match request {
        Request::Grant { attempt, not_after, .. } => {
            let value = wire::value_of(attempt.holder, attempt.label.as_ref());
            let not_after = not_after.map_or_else(String::new, |limit| limit.as_micros().to_string());
            let [ttl, keep] = lengths(attempt);
            Call { script: &GRANT, keys: keys(attempt), args: vec![value, ttl, keep, not_after.into()] }
        }
        Request::Renew(attempt) => {
            let [ttl, keep] = lengths(attempt);
            let holder = attempt.holder.digits().into();
            Call { script: &RENEW, keys: keys(attempt), args: vec![holder, ttl, keep] }
        }
        Request::Release(attempt) => {
            Call { script: &RELEASE, keys: keys(attempt), args: vec![attempt.holder.digits().into()] }
        }
        // Nobody has this id, so nothing is released.
        Request::Advance(of) => {
            let keys = of.iter().flat_map(pair).collect();
            Call { script: &RELEASE, keys, args: vec![vec![b'0'; Holder::DIGITS]] }
        }
        Request::Inspect(key) => Call { script: &INSPECT, keys: pair(key).into(), args: Vec::new() },
    }
}

/// Each key of a claim, and its fence key behind it.
fn keys(attempt: &Attempt) -> Vec<Vec<u8>> {
    attempt.claim.keys().flat_map(pair).collect()
}

fn pair(key: &Key) -> [Vec<u8>; 2] {
    [key.as_bytes().to_vec(), side_key(Side::Fence, key)]
}

/// The ttl, and how long the fence is remembered, in milliseconds.
fn lengths(attempt: &Attempt) -> [Vec<u8>; 2] {
    let keep = LastFence::kept_for(attempt.ttl).as_millis();
    [attempt.ttl.as_millis().to_string().into(), keep.to_string().into()]
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
    let answer = match request {
        Request::Grant { attempt, .. } => Answer::Grant(fields.grant(attempt)?),
        Request::Renew(attempt) => Answer::Renew(fields.hold(attempt)?),
        Request::Release(attempt) => Answer::Release(fields.hold(attempt)?),
        Request::Advance(_) => Answer::Advance,
        Request::Inspect(key) => {
            let tenancies = fields.tenancy(key)?.into_iter().collect();
            Answer::Inspect(KeyState::new(key.clone(), tenancies, Vec::new()))
        }
    };
    Ok(Reply { answer, unfinished: Vec::new() })
}

/// The server's time in the answer to a grant, which has it last.
pub(crate) fn time_of_grant(value: &Value) -> Option<Stamp> {
    let Value::Array(fields) = value else { return None };
    let Some(Value::BulkString(micros)) = fields.last() else { return None };
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
            (DONE, [Value::BulkString(fence), _]) => {
                let fence = number(fence).and_then(Fence::new).ok_or_else(|| self.strange())?;
                GrantAnswer::Granted { fence }
            }
            (HELD, _) => match self.tenancy(self.key(attempt)?)? {
                Some(held_by) => GrantAnswer::Busy { held_by, place: None },
                None => return Err(self.strange()),
            },
            (TOO_LATE, [Value::BulkString(time)]) => {
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
            (NO_LOCK, [_, Value::Int(pttl)]) => (Tenant::NotALock, None, *pttl),
            (HELD, [_, Value::BulkString(value), Value::Int(pttl), Value::BulkString(fence), ..]) => {
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
        let nth = match self.rest.first() {
            Some(Value::Int(nth)) => nth.checked_sub(1).and_then(|nth| usize::try_from(nth).ok()),
            _ => None,
        };
        nth.and_then(|nth| attempt.claim.keys().nth(nth)).ok_or_else(|| self.strange())
    }

    fn strange(&self) -> String {
        strange(format_args!("code {}, then {} fields", self.code, self.rest.len()))
    }
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
        let grant =
            |not_after| called(&Request::Grant { attempt: attempt(&["b", "a"]), wait: None, not_after });
        let call = grant(Some(Stamp::from_micros(1_700_000_000_000_000)));
        assert_eq!(shown(&call.keys), ["a", "leasehold:f{a}a", "b", "leasehold:f{b}b"]);
        let value = format!("lh1-{DIGITS} web-3");
        assert_eq!(shown(&call.args), [&*value, "10000", "600000", "1700000000000000"]);
        assert_eq!(shown(&grant(None).args), [&*value, "10000", "600000", ""]);

        let long = attempt(&["a"]).with_ttl(Ttl::MAX);
        let call = called(&Request::Renew(long));
        assert_eq!(shown(&call.args), [DIGITS, "31536000000", "63072000000"]);
        let call = called(&Request::Release(attempt(&["a"])));
        assert_eq!((shown(&call.keys).len(), shown(&call.args)), (2, vec![DIGITS.to_owned()]));
        let call = called(&Request::Inspect(Key::new("a").unwrap()));
        assert_eq!((shown(&call.keys).len(), call.args.len()), (2, 0));
    }

    #[test]
    fn commands_have_the_number_of_keys_before_the_keys() {
        let call = called(&Request::Release(attempt(&["a"])));
        let words: Vec<_> = [call.by_sha(), call.by_text()]
            .iter()
            .map(|command| String::from_utf8(command.get_packed_command()).unwrap())
            .collect();
        assert!(
            words[0].starts_with(&format!("*6\r\n$7\r\nEVALSHA\r\n$40\r\n{}\r\n$1\r\n2\r\n", RELEASE.sha()))
        );
        assert!(words[1].starts_with("*6\r\n$4\r\nEVAL\r\n") && words[1].contains(RELEASE.text()));
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
        let strange = [
            Value::Nil,
            Value::Okay,
            Value::Array(vec![]),
            Value::Array(vec![text("0")]),
            Value::Array(vec![int(0)]),
            Value::Array(vec![int(0), text("9007199254740992"), text("1")]),
            Value::Array(vec![int(1), int(1)]),
            Value::Array(vec![int(3), int(0), text("1")]),
            Value::Array(vec![int(3), int(2), text("1")]),
            Value::Array(vec![int(6), int(1), text("1")]),
            Value::Array(vec![int(i64::MIN), int(i64::MIN)]),
        ];
        for value in strange {
            let request = Request::Grant { attempt: attempt(&["a"]), wait: None, not_after: None };
            assert!(decode(&request, value.clone()).is_err(), "{value:?}");
        }
    }
}
