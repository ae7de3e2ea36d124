//! Records that a server keeps besides leases: marks of jobs, and records of broken leases.

use std::time::Duration;

use leasehold_core::{
    Attempt, BreakAnswer, BreakRecord, Fault, HoldAnswer, Key, LeaseBreak, Mark, Marked, Stamp,
};
use redis::{Value, cmd};

use super::list::scan_sides;
use crate::client::Client;
use crate::connection::route::Route;
use crate::redirect::Redirect;
use crate::reply::{break_in, mark_in, marked_in};
use crate::script::{FORGET, MARKED, Script, break_call, mark_call, opening_call, side_call};
use crate::slot::{Side, side_key};
use crate::wire;

/// How many names the server scans in one call of SCAN; see the scan for continuous watching.
const SCANNED_AT_ONCE: usize = 5_000;

const FETCHED_AT_ONCE: usize = 1000;

/// The content of side keys of one kind, with their keys, and the server's time.
pub(crate) type Remembered = (Vec<(Key, Vec<u8>)>, Stamp);

impl Client {
    /// A mark that comes late is written if the attempt still holds its keys; it was true when it
    /// was sent.
    pub(crate) async fn mark(
        &self,
        attempt: &Attempt,
        mark: &Mark,
        keep: Duration,
        route: &mut Route,
    ) -> Result<HoldAnswer, Fault> {
        let call = mark_call(attempt, mark, keep, self.asked_alone());
        let answer = self.ask(route, &call, |value| mark_in(value, attempt)).await?;
        if let (HoldAnswer::Done, Some(confirmation)) = (&answer, self.confirmation) {
            self.confirm(confirmation, route, self.runtime.now()).await?;
        }
        Ok(answer)
    }

    pub(crate) async fn marked(&self, key: &Key, route: &mut Route) -> Result<Marked, Fault> {
        self.ask(route, &side_call(&MARKED, Side::Mark, key), |value| marked_in(value, key)).await
    }

    pub(crate) async fn forget(&self, key: &Key, route: &mut Route) -> Result<Option<Mark>, Fault> {
        let forgotten = self.side(&FORGET, Side::Mark, key, route).await?;
        // Also without a mark: an earlier try may have deleted it unconfirmed.
        if let Some(confirmation) = self.confirmation {
            self.confirm(confirmation, route, self.runtime.now()).await?;
        }
        let Some(value) = forgotten else { return Ok(None) };
        // It is deleted too, since it was in the way.
        let no_mark = || {
            let side = side_key(Side::Mark, key);
            let side = side.escape_ascii();
            self.faults.lasting(format_args!("{side} held something that was not a mark: it was deleted"))
        };
        wire::read_mark(&value).map(Some).ok_or_else(no_mark)
    }

    pub(crate) async fn break_lease(
        &self,
        key: &Key,
        lease: &LeaseBreak,
        route: &mut Route,
    ) -> Result<BreakAnswer, Fault> {
        let said_at = self.channels().cloned().unwrap_or_default().broken();
        let call = break_call(key, lease, self.window(), &said_at, self.asked_alone());
        self.ask(route, &call, |value| break_in(value, key)).await
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
        let mut route = self.any_route().await?;
        let (mut keys, mut cursor) = (Vec::new(), Some(b"0".to_vec()));
        while let Some(from) = &cursor {
            let scan = scan_sides(from, side, prefix, SCANNED_AT_ONCE);
            let heard = self.say_once(&mut route, &scan, self.call_limit).await?;
            let (next, names) = self.scanned(heard)?;
            keys.extend(names.iter().filter_map(|name| side.key_of(name, prefix)));
            cursor = next;
        }
        // A scan may return a key twice.
        keys.sort_unstable();
        keys.dedup();
        let mut found = Vec::with_capacity(keys.len());
        for part in keys.chunks(FETCHED_AT_ONCE) {
            let fetch = |key| cmd("GET").arg(side_key(side, key)).take();
            let heard = self.say(&mut route, part.iter().map(fetch).collect()).await?;
            for (key, heard) in part.iter().zip(heard) {
                match (heard, gone.as_deref_mut()) {
                    (Ok(Value::BulkString(value)), _) => found.push((key.clone(), value)),
                    // It has expired meanwhile, or is something else, which `doctor` reports.
                    (Ok(_), _) => {}
                    (Err(error), _) if error.code() == "WRONGTYPE" => {}
                    (Err(error), Some(gone)) if Redirect::of(&error).is_some() => gone.push(key.clone()),
                    (Err(error), _) => return Err(self.faults.of_scanned(&error)),
                }
            }
        }
        let heard = self.call(&mut route, &opening_call()).await?;
        Ok((found, self.time_in(heard, "TIME")?))
    }

    /// The content of a side key, read or deleted by a script that answers as `marked` does.
    async fn side(
        &self,
        script: &'static Script,
        side: Side,
        key: &Key,
        route: &mut Route,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let heard = self.call(route, &side_call(script, side, key)).await?;
        let Value::Array(fields) = heard.map_err(|error| self.faults.of_refusal(&error))? else {
            let strange = "the answer to a script is none of its own: is this a Redis server?";
            return Err(self.faults.lasting(strange));
        };
        match fields.as_slice() {
            [Value::Int(0), Value::BulkString(value), Value::BulkString(_)] => Ok(Some(value.clone())),
            [Value::Int(6), Value::BulkString(_)] => Ok(None),
            _ => Err(self.faults.lasting(format_args!(
                "{} holds something that is not ours: find out who wrote it, and delete it",
                side_key(side, key).escape_ascii()
            ))),
        }
    }
}

pub(crate) fn marks_of((found, now): Remembered) -> Vec<(Key, Marked)> {
    let read =
        |(key, value): (Key, Vec<u8>)| Some((key, Marked { mark: Some(wire::read_mark(&value)?), now }));
    found.into_iter().filter_map(read).collect()
}

pub(crate) fn breaks_of((found, _): Remembered) -> Vec<BreakRecord> {
    found.into_iter().filter_map(|(key, value)| wire::read_break(&key, &value)).collect()
}
