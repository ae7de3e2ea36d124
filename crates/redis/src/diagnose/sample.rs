//! Samples our own entries on the server, and other programs' entries in their places.
//!
//! The sample is bounded: a server may have millions of keys, and each question takes time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_core::{Fault, Finding, Key, Mark, Severity};
use redis::{Cmd, Value, cmd};

use super::diagnosis_run::{DiagnosisRun, Setting};
use crate::connection::send::ServerReply;
use crate::requests::list::{beginning_of, scan, scanned};
use crate::slot::Side;
use crate::wire::MARK;

/// The number of scanned parts of the keys, each of [`AT_ONCE`] keys.
const PARTS: usize = 32;

/// How many keys the server scans in one call: that takes it less than a millisecond.
const AT_ONCE: usize = 1000;

/// The number of our own entries that are checked in detail.
const CLOSELY: usize = 500;

/// The number of questions that are sent together.
const QUESTIONS: usize = 200;

/// The number of findings of a kind that get their own line.
const NAMED: usize = 5;

/// Apart from marks, no entry of ours is of any use for longer once nobody uses it.
const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

struct SideKey {
    name: Vec<u8>,
    kind: u8,
    key: Option<Key>,
}

#[derive(Default)]
struct Seen {
    scanned: usize,
    whole: bool,
    found: BTreeMap<Odd, Vec<Vec<u8>>>,
    hidden: usize,
}

/// What may be wrong with an entry, in the order of the findings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Odd {
    Endless,
    Strange,
    NoLock,
    Stuck,
    HeldForEver,
}

impl DiagnosisRun<'_> {
    pub(super) async fn sample(&mut self) -> Result<(), Fault> {
        let mut seen = Seen::default();
        let Some(met) = self.scan(&mut seen).await? else { return Ok(()) };
        let looked_at = met.len().min(CLOSELY);
        for part in met[..looked_at].chunks(QUESTIONS / 2) {
            let questions = part.iter().flat_map(|met| [pttl(&met.name), met.question()]).collect();
            let heard = self.ask(questions).await?;
            for (met, heard) in part.iter().zip(heard.chunks(2)) {
                seen.side(met, &heard[0], &heard[1]);
            }
        }
        let keys: BTreeSet<_> = met[..looked_at].iter().filter_map(|met| met.key.clone()).collect();
        let keys: Vec<_> = keys.into_iter().collect();
        for part in keys.chunks(QUESTIONS / 2) {
            let heard = self
                .ask(part.iter().flat_map(|key| [beginning_of(key), pttl(key.as_bytes())]).collect())
                .await?;
            for (key, heard) in part.iter().zip(heard.chunks(2)) {
                seen.key(key, &heard[0], &heard[1]);
            }
        }
        self.tell(&seen, met.len(), looked_at);
        Ok(())
    }

    /// The side keys among the first keys of the scan. `None` if scanning is not permitted, which
    /// another check reports.
    async fn scan(&mut self, seen: &mut Seen) -> Result<Option<Vec<SideKey>>, Fault> {
        let mut met = Vec::new();
        let mut cursor = b"0".to_vec();
        for _ in 0..PARTS {
            let scan = scan(&cursor, Key::RESERVED.as_bytes(), b"", AT_ONCE);
            let Some(Ok(value)) = self.ask(vec![scan]).await?.pop() else { return Ok(None) };
            let Some((next, names)) = scanned(value) else { return Ok(None) };
            seen.scanned += AT_ONCE;
            met.extend(names.into_iter().filter_map(SideKey::read));
            seen.whole = next.is_none();
            let Some(next) = next else { break };
            cursor = next;
        }
        Ok(Some(met))
    }

    fn tell(&mut self, seen: &Seen, met: usize, looked_at: usize) {
        let mut more = 0;
        for (odd, names) in &seen.found {
            for name in names.iter().take(NAMED) {
                self.found(odd.finding(name, &self.setting));
            }
            more += names.len().saturating_sub(NAMED);
        }
        let extent =
            if seen.whole { "all keys".into() } else { format!("about {} keys, not all", seen.scanned) };
        let mut what = format!("scanned {extent}; inspected {looked_at} of {met} entries of Leasehold");
        if seen.hidden > 0 {
            what += &format!(", {} of which this user may not read", seen.hidden);
        }
        if more > 0 {
            what += &format!("; {more} more findings of the kinds above are left out");
        }
        self.found(self.setting.note("sample", what));
    }
}

impl Odd {
    fn finding(self, name: &[u8], setting: &Setting) -> Finding {
        // A job whose mark ends too early is done again.
        let is_mark = name.starts_with(&Side::Mark.prefix());
        let name = quoted(name);
        let keep = |how_long: Duration| format!("PEXPIRE {name} {}", how_long.as_millis());
        let for_a_minute = keep(Duration::from_secs(60));
        let finding =
            |severity, about, what, why| setting.finding(severity, about, format_args!("{name} {what}"), why);
        match self {
            Self::Endless => {
                let why = "Leasehold gives each entry an expiry: without one, it takes memory for ever";
                finding(Severity::Warning, "leftovers", "has no end (PERSIST by somebody?)", why)
                    .at_server(keep(if is_mark { Mark::FOR_EVER } else { A_DAY }))
            }
            Self::Strange => {
                let why =
                    "requests for its lock get an error or a wrong fence: the name is reserved for Leasehold";
                finding(Severity::Unsafe, "foreign", "holds something that is not ours", why)
                    .at_server(format_args!("DEL {name}"))
            }
            Self::NoLock => {
                let what = "was used as a lock, and holds something that is none";
                finding(Severity::Warning, "foreign", what, "whoever asks for this lock is refused")
                    .advice(format_args!("look at it (TYPE {name}); delete it, or lock by another name"))
            }
            Self::Stuck => {
                let why = "if that died, whoever asks for this lock waits for ever";
                finding(Severity::Warning, "foreign", "is held without an end by another program", why)
                    .at_server(for_a_minute)
            }
            Self::HeldForEver => {
                let why = "if its holder died, whoever asks for this lock waits for ever";
                finding(Severity::Warning, "leftovers", "is held without an end (PERSIST by somebody?)", why)
                    .at_server(for_a_minute)
            }
        }
    }
}

impl SideKey {
    /// Reads a name that has the form of a side key.
    fn read(name: Vec<u8>) -> Option<Self> {
        let [kind, b'{', tagged @ ..] = name.strip_prefix(Key::RESERVED.as_bytes())? else { return None };
        let end = tagged.iter().position(|&byte| byte == b'}')?;
        // The fences of many keys have the beginning of their names.
        let key = if matches!(kind, b'c' | b'f') { None } else { Key::new(&tagged[end + 1..]).ok() };
        b"bcfhilmw".contains(kind).then_some(*kind).map(|kind| Self { name, kind, key })
    }

    /// A command that shows whether it has the type that we use.
    fn question(&self) -> Cmd {
        let (name, rest): (_, &[&str]) = match self.kind {
            b'l' | b'h' => ("ZCARD", &[]),
            b'w' | b'i' => ("HGET", &[""]),
            b'f' => ("HSCAN", &["0", "COUNT", "100"]),
            _ => ("GETRANGE", &["0", "15"]),
        };
        cmd(name).arg(&self.name).arg(rest).take()
    }
}

impl Seen {
    fn note(&mut self, odd: Odd, name: &[u8]) {
        self.found.entry(odd).or_default().push(name.to_vec());
    }

    fn side(&mut self, met: &SideKey, pttl: &ServerReply, asked: &ServerReply) {
        let is_hidden = |heard: &ServerReply| heard.as_ref().is_err_and(|error| error.code() == "NOPERM");
        if is_hidden(pttl) || is_hidden(asked) {
            self.hidden += 1;
        }
        if let Ok(Value::Int(-1)) = pttl {
            self.note(Odd::Endless, &met.name);
        }
        let is_fence = |digits: &[u8]| digits.iter().all(u8::is_ascii_digit);
        let strange = match asked {
            Err(error) => error.code() == "WRONGTYPE",
            // An entry that expired meanwhile reads as nothing.
            Ok(Value::BulkString(digits)) if met.kind == b'c' => !is_fence(digits),
            Ok(fields) if met.kind == b'f' => scanned(fields.clone()).is_some_and(|(_, fields)| {
                fields.chunks_exact(2).any(|field| field[0] != b"about" && !is_fence(&field[1]))
            }),
            Ok(_) => false,
        };
        if strange {
            self.note(Odd::Strange, &met.name);
        }
    }

    fn key(&mut self, key: &Key, beginning: &ServerReply, pttl: &ServerReply) {
        match (beginning, pttl) {
            (Err(error), _) if error.code() == "WRONGTYPE" => self.note(Odd::NoLock, key.as_bytes()),
            (Ok(Value::BulkString(beginning)), Ok(Value::Int(-1))) => {
                self.note(if beginning == MARK { Odd::HeldForEver } else { Odd::Stuck }, key.as_bytes());
            }
            _ => {}
        }
    }
}

fn pttl(name: &[u8]) -> Cmd {
    cmd("PTTL").arg(name).take()
}

/// A name in the syntax of `redis-cli`.
fn quoted(name: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\".contains(byte);
    let escaped = name.escape_ascii();
    if !name.is_empty() && name.iter().all(plain) { escaped.to_string() } else { format!("\"{escaped}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_key_is_known_by_its_form() {
        let read =
            |name: &str| SideKey::read(name.into()).map(|met| (met.kind, met.key.map(|key| key.to_string())));
        assert_eq!(read("leasehold:w{1ps}invoice:42"), Some((b'w', Some("invoice:42".into()))));
        assert_eq!(read("leasehold:l{2ml}{}"), Some((b'l', Some("{}".into()))));
        assert_eq!(read("leasehold:b{1ps}invoice:42"), Some((b'b', Some("invoice:42".into()))));
        assert_eq!(read("leasehold:c{-}invoice:"), Some((b'c', None)));
        assert_eq!(read("leasehold:f{-}"), Some((b'f', None)));
        for name in ["leasehold:member", "leasehold:x{a}b", "leasehold:f{a", "leasehold:", "other"] {
            assert_eq!(read(name), None, "{name}");
        }
    }

    #[test]
    fn names_are_written_as_redis_cli_reads_them() {
        assert_eq!(quoted(b"leasehold:f{a}b"), "leasehold:f{a}b");
        assert_eq!(quoted(b"a b\"\\\n\xff"), "\"a b\\\"\\\\\\n\\xff\"");
    }
}
