//! Records that a server keeps besides leases: marks of jobs, and records of breaks.

use leasehold_core::{BreakRecord, Fault, Key, Mark, Marked, Stamp};
use redis::{Cmd, Value, cmd};

use super::list::escaped;
use crate::client::Client;
use crate::connection::route::Route;
use crate::redirect::Redirect;
use crate::reply::time_of;
use crate::script::{FORGET, MARKED, Script, opening_call, side_call};
use crate::slot::{Side, side_key};
use crate::wire;

/// How many names the server scans in one call of SCAN; see the scan for continuous watching.
const SCANNED_AT_ONCE: usize = 5_000;

/// How many strings are fetched together.
const FETCHED_AT_ONCE: usize = 1000;

/// The content of side keys of one kind, with their keys, and the server's time.
pub(crate) type Remembered = (Vec<(Key, Vec<u8>)>, Stamp);

impl Client {
    pub(crate) async fn forget(&self, key: &Key, route: &mut Route) -> Result<Option<Mark>, Fault> {
        let forgotten = self.side(&FORGET, Side::Mark, key, route).await?;
        // A value that was not a readable mark is deleted too, since it was in the way.
        Ok(forgotten.and_then(|value| wire::read_mark(&value)))
    }

    pub(crate) async fn last_break(
        &self,
        key: &Key,
        route: &mut Route,
    ) -> Result<Option<BreakRecord>, Fault> {
        let record = self.side(&MARKED, Side::Break, key, route).await?;
        Ok(record.and_then(|value| wire::read_break(key, &value)))
    }

    /// The content of all side keys of a kind whose keys have the prefix, in byte order. If the
    /// server is a node of a cluster, `gone` gets the keys that moved to another node meanwhile.
    pub(crate) async fn remembered(
        &self,
        side: Side,
        prefix: &[u8],
        mut gone: Option<&mut Vec<Key>>,
    ) -> Result<Remembered, Fault> {
        let mut route = self.route(self.call_limit).await?;
        let (mut keys, mut cursor) = (Vec::new(), b"0".to_vec());
        loop {
            let heard = self.say_once(&mut route, &scan(&cursor, side, prefix), self.call_limit).await?;
            let (next, names) = self.scanned(heard)?;
            keys.extend(names.iter().filter_map(|name| key_of(name, side, prefix)));
            if next == b"0" {
                break;
            }
            cursor = next;
        }
        // A scan may return a key twice.
        keys.sort_unstable();
        keys.dedup();
        let mut found = Vec::with_capacity(keys.len());
        for part in keys.chunks(FETCHED_AT_ONCE) {
            let fetch = |key| {
                let mut command = cmd("GET");
                command.arg(side_key(side, key));
                command
            };
            let heard = self.say(&mut route, part.iter().map(fetch).collect()).await?;
            for (key, heard) in part.iter().zip(heard) {
                match (heard, gone.as_deref_mut()) {
                    (Ok(Value::BulkString(value)), _) => found.push((key.clone(), value)),
                    // It has expired meanwhile, or is something else, which `doctor` reports.
                    (Ok(_), _) => {}
                    (Err(error), _) if error.code() == "WRONGTYPE" => {}
                    (Err(error), Some(gone)) if Redirect::of(&error).is_some() => gone.push(key.clone()),
                    (Err(error), _) => return Err(self.faults.of_refusal(&error)),
                }
            }
        }
        let heard = self.call(&mut route, &opening_call(), self.call_limit).await?;
        let value = heard.map_err(|error| self.faults.of_refusal(&error))?;
        let time = time_of(&value);
        let now =
            time.ok_or_else(|| self.faults.lasting("unexpected answer to TIME: is this a Redis server?"))?;
        Ok((found, now))
    }

    /// The content of a side key, read or deleted by a script that answers as `marked` does.
    async fn side(
        &self,
        script: &'static Script,
        side: Side,
        key: &Key,
        route: &mut Route,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let heard = self.call(route, &side_call(script, side, key), self.call_limit).await?;
        let answer = heard.map_err(|error| self.faults.of_refusal(&error))?;
        match answer {
            Value::Array(fields) => match fields.as_slice() {
                [Value::Int(0), Value::BulkString(value), Value::BulkString(_)] => Ok(Some(value.clone())),
                [Value::Int(6), Value::BulkString(_)] => Ok(None),
                _ => {
                    let name = side_key(side, key);
                    Err(self.faults.lasting(format_args!(
                        "{} holds something that is not ours: find out who wrote it, and delete it",
                        name.escape_ascii()
                    )))
                }
            },
            _ => {
                Err(self.faults.lasting("the answer to a script is none of its own: is this a Redis server?"))
            }
        }
    }
}

/// The entries that are marks of ours.
pub(crate) fn marks_of((found, now): Remembered) -> Vec<(Key, Marked)> {
    let read =
        |(key, value): (Key, Vec<u8>)| Some((key, Marked { mark: Some(wire::read_mark(&value)?), now }));
    found.into_iter().filter_map(read).collect()
}

/// The entries that are break records of ours.
pub(crate) fn breaks_of((found, _): Remembered) -> Vec<BreakRecord> {
    found.into_iter().filter_map(|(key, value)| wire::read_break(&key, &value)).collect()
}

fn scan(cursor: &[u8], side: Side, prefix: &[u8]) -> Cmd {
    let mut pattern = side.prefix();
    pattern.extend(b"*}");
    escaped(prefix, &mut pattern);
    pattern.push(b'*');
    let mut command = cmd("SCAN");
    command.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(SCANNED_AT_ONCE);
    command
}

/// The key of a side key's name, if it has the prefix.
fn key_of(name: &[u8], side: Side, prefix: &[u8]) -> Option<Key> {
    let tagged = name.strip_prefix(&*side.prefix())?;
    // The first braces are ours, and the key follows them.
    let key = &tagged[tagged.iter().position(|&byte| byte == b'}')? + 1..];
    if key.starts_with(prefix) { Key::new(key).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_mark_leads_to_its_key_and_others_to_none() {
        let found =
            |name: &[u8], prefix: &[u8]| key_of(name, Side::Mark, prefix).map(|key| key.as_bytes().to_vec());
        assert_eq!(found(b"leasehold:m{1ps}invoice:42", b"inv"), Some(b"invoice:42".to_vec()));
        assert_eq!(found(b"leasehold:m{2ml}{}", b""), Some(b"{}".to_vec()));
        assert_eq!(found(b"leasehold:b{1ps}invoice:42", b""), None);
        // The pattern matches it, because the prefix follows some brace.
        assert_eq!(found(b"leasehold:m{x}other}inv", b"inv"), None);
        assert_eq!(found(b"leasehold:member{x}", b""), None);
        let words = String::from_utf8(scan(b"0", Side::Break, b"a*").get_packed_command()).unwrap();
        assert!(words.contains("leasehold:b{*}a\\**\r\n"), "{words}");
    }
}
