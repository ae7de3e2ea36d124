//! The holders and waiters of one key, and of all keys that are held or waited for: these are found
//! with SCAN, one part at a time, and never with KEYS, which blocks the server for everybody else.

use std::collections::BTreeMap;

use leasehold_core::{Fault, FaultCause, Key, KeyState};
use redis::{Cmd, ServerError, Value, cmd, from_redis_value};

use crate::client::Client;
use crate::connection::route::Route;
use crate::connection::send::ServerReply;
use crate::redirect::Redirect;
use crate::reply::state_in;
use crate::script::inspect_call;
use crate::slot::Side;
use crate::wire;

/// How many keys the server scans in one call: that takes it less than a millisecond.
const AT_ONCE: usize = 1000;

/// How many inspections are sent together. Each runs a script; this many take the server about as
/// long as scanning [`AT_ONCE`] keys.
const INSPECTED_AT_ONCE: usize = 100;

/// One scan of all keys of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanPattern {
    /// For strings that begin like our leases.
    Leases,
    /// For queues. Another program's key is in use too if one of our requests waits for it.
    Queues,
}

impl ScanPattern {
    fn command(self, cursor: &[u8], prefix: &[u8], by_type: bool) -> Cmd {
        let (mut command, kind) = match self {
            Self::Leases => (scan(cursor, b"", prefix, AT_ONCE), "string"),
            Self::Queues => (scan_sides(cursor, Side::Queue, prefix, AT_ONCE), "zset"),
        };
        if by_type {
            command.arg("TYPE").arg(kind);
        }
        command
    }

    /// The key of a name, if there is one and it has the prefix.
    pub(super) fn key(self, name: &[u8], prefix: &[u8]) -> Option<Key> {
        match self {
            Self::Leases => name.starts_with(prefix).then(|| Key::new(name).ok()).flatten(),
            Self::Queues => Side::Queue.key_of(name, prefix),
        }
    }
}

impl Client {
    pub(crate) async fn inspect(&self, key: &Key, route: &mut Route) -> Result<KeyState, Fault> {
        self.ask(route, &inspect_call(key, self.asked_alone()), |value| state_in(value, key)).await
    }

    /// All keys with this prefix that our holders hold or that somebody waits for, in byte order.
    ///
    /// Only the results and one part of the scan are kept in memory.
    /// If the server is a node of a cluster, `gone` gets the keys that moved to another node during
    /// the scan.
    pub(crate) async fn list(
        &self,
        prefix: &[u8],
        mut gone: Option<&mut Vec<Key>>,
    ) -> Result<Vec<KeyState>, Fault> {
        let mut route = self.any_route().await?;
        // A scan may return a key twice, and both scans may find it.
        let mut found = BTreeMap::new();
        for pattern in [ScanPattern::Leases, ScanPattern::Queues] {
            let mut by_type = true;
            let mut cursor = Some(b"0".to_vec());
            while let Some(from) = &cursor {
                let command = pattern.command(from, prefix, by_type);
                let heard = self.say_once(&mut route, &command, self.call_limit).await?;
                // Servers before 6.0. Asking for a key shows that it has another type.
                if by_type && heard.as_ref().is_err_and(is_syntax_error) {
                    by_type = false;
                    continue;
                }
                let (next, names) = self.scanned(heard)?;
                let keys = names.iter().filter_map(|name| pattern.key(name, prefix));
                let mut keys: Vec<_> = keys.filter(|key| !found.contains_key(key)).collect();
                if pattern == ScanPattern::Leases {
                    keys = self.that_look_held(&mut route, keys).await?;
                }
                let states = self.inspect_each(&mut route, &keys, gone.as_deref_mut()).await?;
                for state in states.into_iter().filter(KeyState::is_in_use) {
                    found.insert(state.key.clone(), state);
                }
                cursor = next;
            }
        }
        Ok(found.into_values().collect())
    }

    pub(super) fn scanned(&self, heard: ServerReply) -> Result<ScanPart, Fault> {
        let value = heard.map_err(|error| self.faults.of_refusal(&error))?;
        scanned(value).ok_or_else(|| self.faults.unexpected("SCAN"))
    }

    /// The keys whose strings begin like a lease. Of others, not even the string is transferred.
    pub(super) async fn that_look_held(&self, route: &mut Route, keys: Vec<Key>) -> Result<Vec<Key>, Fault> {
        let heard = self.say(route, keys.iter().map(beginning_of).collect()).await?;
        let mut held = Vec::new();
        for (key, heard) in keys.into_iter().zip(heard) {
            match heard {
                Ok(Value::BulkString(beginning)) if beginning == wire::MARK => held.push(key),
                Ok(_) => {}
                // It is something else by now, or always was, if the server cannot filter by type.
                Err(error) if error.code() == "WRONGTYPE" => {}
                // The inspection will find out where it moved.
                Err(error) if self.is_node() && Redirect::of(&error).is_some() => held.push(key),
                Err(error) => return Err(self.faults.of_scanned(&error)),
            }
        }
        Ok(held)
    }

    /// The states of these keys, except those that have moved away.
    pub(super) async fn inspect_each(
        &self,
        route: &mut Route,
        keys: &[Key],
        mut gone: Option<&mut Vec<Key>>,
    ) -> Result<Vec<KeyState>, Fault> {
        let mut states = Vec::new();
        for part in keys.chunks(INSPECTED_AT_ONCE) {
            let calls: Vec<_> = part.iter().map(|key| inspect_call(key, self.asked_alone())).collect();
            let heard = self.call_all(route, &calls).await?;
            for (key, heard) in part.iter().zip(heard) {
                if let (Some(gone), Err(error)) = (gone.as_deref_mut(), &heard)
                    && Redirect::of(error).is_some()
                {
                    gone.push(key.clone());
                    continue;
                }
                states.push(self.seen(key, heard)?);
            }
        }
        Ok(states)
    }

    fn seen(&self, key: &Key, heard: ServerReply) -> Result<KeyState, Fault> {
        among_others(key, self.read(heard, |value| state_in(value, key)))
    }
}

/// The result of an inspection of one key among others. If some data of the key cannot be read, the
/// key is shown as damaged, and the others are shown nevertheless.
pub(crate) fn among_others(key: &Key, seen: Result<KeyState, Fault>) -> Result<KeyState, Fault> {
    match seen {
        Err(fault) if fault.cause == FaultCause::WrongType => {
            Ok(KeyState::new(key.clone(), Vec::new(), Vec::new()).damaged(fault.reason))
        }
        seen => seen,
    }
}

/// One call of SCAN, for the names that match `before`, the prefix literally, and anything.
pub(crate) fn scan(cursor: &[u8], before: &[u8], prefix: &[u8], count: usize) -> Cmd {
    let mut pattern = before.to_vec();
    for &byte in prefix {
        if b"*?[]\\".contains(&byte) {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern.push(b'*');
    cmd("SCAN").arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(count).take()
}

/// The same for the side keys of a kind whose keys have the prefix.
pub(super) fn scan_sides(cursor: &[u8], side: Side, prefix: &[u8], count: usize) -> Cmd {
    scan(cursor, &[&side.prefix()[..], b"*}"].concat(), prefix, count)
}

/// A command for the part of a key's string by which a lease is known.
pub(crate) fn beginning_of(key: &Key) -> Cmd {
    cmd("GETRANGE").arg(key.as_bytes()).arg(0).arg(wire::MARK.len() - 1).take()
}

/// The next cursor if this is not the last part, and the names of this part.
type ScanPart = (Option<Vec<u8>>, Vec<Vec<u8>>);

pub(crate) fn scanned(value: Value) -> Option<ScanPart> {
    let (next, names): (Vec<u8>, _) = from_redis_value(value).ok()?;
    Some((Some(next).filter(|next| next != b"0"), names))
}

fn is_syntax_error(error: &ServerError) -> bool {
    error.details().is_some_and(|details| details.contains("syntax error"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_matched_verbatim() {
        let is_sent = |command: Cmd, words: &str| {
            let sent = command.get_packed_command();
            assert!(sent.ends_with(words.as_bytes()), "{}", sent.escape_ascii());
        };
        is_sent(scan(b"7", b"", b"", 5), "\r\n7\r\n$5\r\nMATCH\r\n$1\r\n*\r\n$5\r\nCOUNT\r\n$1\r\n5\r\n");
        let before_count = |pattern: &str| format!("\r\n{pattern}\r\n$5\r\nCOUNT\r\n$1\r\n5\r\n");
        is_sent(scan(b"0", b"*", b"a*?[b-c]\\^", 5), &before_count("*a\\*\\?\\[b-c\\]\\\\^*"));
        is_sent(scan_sides(b"0", Side::Queue, b"a*", 5), &before_count("leasehold:l{*}a\\**"));
    }

    #[test]
    fn a_side_key_is_no_lease() {
        assert_eq!(ScanPattern::Leases.key(b"leasehold:f{x}k", b""), None);
    }
}
