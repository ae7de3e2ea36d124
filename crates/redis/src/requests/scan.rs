//! Scans for continuous watching: one part at a time, with few commands that each inspect many
//! keys.

use leasehold_core::{Fault, FaultCause, Key, KeyState, ScanPage, ScanPosition};
use redis::{Cmd, Value, cmd};

use super::list::{escaped, scanned};
use crate::client::{Client, Source};
use crate::connection::route::Route;
use crate::reply::state_in;
use crate::script::survey_call;
use crate::slot::Side;
use crate::wire;

/// How many keys the server scans in one call. With a million keys, on a machine that was busy with
/// other work, Valkey 9.1 and Redis 8.2 needed two and three milliseconds of processor time for
/// them, Redis 6.2 and 7.0 five and six: others wait no longer than that. The whole scan takes two
/// hundred calls.
const AT_ONCE: usize = 5_000;

/// How many strings one command fetches, to see whether they are leases. Ours have at most some
/// hundred bytes.
const FETCHED_AT_ONCE: usize = 1000;

impl Client {
    /// How many keys one command inspects. A script keeps the server busy for some ten microseconds
    /// per key, and longer if the queues are long.
    pub(crate) const INSPECTED_AT_ONCE: usize = 100;

    /// One call of SCAN, which skips everything that is not ours: every key that one of us holds or
    /// waits for has a fence or a queue, whose names show that. So other programs' keys are never
    /// read, and their names are not transferred.
    ///
    /// A lock whose fence the server evicted is not found until somebody waits for it.
    pub(crate) async fn scan(&self, prefix: &[u8], from: u64) -> Result<ScanPage, Fault> {
        let mut route = self.route(self.call_limit).await?;
        let heard = self.say(&mut route, vec![scan_command(from, prefix)]).await?.pop();
        let heard = heard.ok_or_else(|| self.faults.passing("the server gave no answer to SCAN"))?;
        let heard = heard.map_err(|error| self.faults.of_refusal(&error))?;
        let scanned = scanned(heard).and_then(|(next, names)| Some((wire::number(&next)?, names)));
        let Some((next, names)) = scanned else {
            return Err(self.faults.lasting("unexpected answer to SCAN: is this a Redis server?"));
        };
        let (mut waited_for, mut remembered) = (Vec::new(), Vec::new());
        for (side, key) in names.iter().filter_map(|name| named(name, prefix)) {
            match side {
                Side::Queue => waited_for.push(key),
                _ => remembered.push(key),
            }
        }
        let mut commands = 1;
        // A fence is kept for long after the release of its lock. Nodes of a cluster refuse to
        // fetch from several slots at once. And the program's own client may mistake an answer that
        // looks like a message for one, if the strings are another program's.
        let fetches = !self.is_node() && matches!(self.source, Source::Ours(_));
        if fetches && !remembered.is_empty() {
            commands += u32::try_from(remembered.len().div_ceil(FETCHED_AT_ONCE)).unwrap_or(u32::MAX - 1);
            remembered = self.held_among(&mut route, remembered).await?;
        }
        waited_for.append(&mut remembered);
        waited_for.sort_unstable();
        waited_for.dedup();
        let next = Some(next).filter(|next| *next > 0);
        let scanned = next.map_or(ScanPage::WHOLE, thousandths);
        Ok(ScanPage::part(waited_for, next.map(|at| ScanPosition { section: 0, at }), scanned, commands))
    }

    /// The keys whose strings begin like a lease.
    async fn held_among(&self, route: &mut Route, keys: Vec<Key>) -> Result<Vec<Key>, Fault> {
        let fetch = |part: &[Key]| {
            let mut command = cmd("MGET");
            part.iter().for_each(|key| {
                command.arg(key.as_bytes());
            });
            command
        };
        let heard = self.say(route, keys.chunks(FETCHED_AT_ONCE).map(fetch).collect()).await?;
        let mut values = Vec::with_capacity(keys.len());
        for heard in heard {
            match heard.map_err(|error| self.faults.of_refusal(&error))? {
                Value::Array(part) => values.extend(part),
                _ => return Err(self.faults.lasting("unexpected answer to MGET: is this a Redis server?")),
            }
        }
        let held = |value: &Value| matches!(value, Value::BulkString(value) if value.starts_with(wire::MARK));
        Ok(keys.into_iter().zip(values).filter(|(_, value)| held(value)).map(|(key, _)| key).collect())
    }

    /// The states of these keys, with one command for every
    /// [`INSPECTED_AT_ONCE`](Self::INSPECTED_AT_ONCE).
    pub(crate) async fn inspect_many(&self, keys: &[Key]) -> Result<Vec<KeyState>, Fault> {
        let mut route = self.route(self.call_limit).await?;
        let mut states = Vec::with_capacity(keys.len());
        for part in keys.chunks(Self::INSPECTED_AT_ONCE) {
            let heard = self.call(&mut route, &survey_call(part), self.call_limit).await?;
            let answers = match heard.map_err(|error| self.faults.of_refusal(&error)) {
                Ok(Value::Array(answers)) if answers.len() == part.len() => answers,
                // One of them has data that cannot be read: inspect each of them alone.
                Err(fault) if fault.cause == FaultCause::WrongType => {
                    states.extend(self.inspect_each(&mut route, part, None).await?);
                    continue;
                }
                Err(fault) => return Err(fault),
                Ok(_) => return Err(self.faults.lasting("the answer to a survey is none of the script's")),
            };
            for (key, answer) in part.iter().zip(answers) {
                states.push(self.read(Ok(answer), |value| state_in(value, key))?);
            }
        }
        Ok(states)
    }
}

fn scan_command(from: u64, prefix: &[u8]) -> Cmd {
    let mut pattern = Key::RESERVED.as_bytes().to_vec();
    pattern.extend(b"[fl]{*}");
    escaped(prefix, &mut pattern);
    pattern.push(b'*');
    let mut command = cmd("SCAN");
    command.arg(from).arg("MATCH").arg(pattern).arg("COUNT").arg(AT_ONCE);
    command
}

/// The kind of a side key, and its key, if that has the prefix.
fn named(name: &[u8], prefix: &[u8]) -> Option<(Side, Key)> {
    let (side, tagged) = name.strip_prefix(Key::RESERVED.as_bytes())?.split_first()?;
    let side = match side {
        b'f' => Side::Fence,
        b'l' => Side::Queue,
        _ => return None,
    };
    let tagged = tagged.strip_prefix(b"{")?;
    // The first braces are ours, and the key follows them.
    let key = &tagged[tagged.iter().position(|&byte| byte == b'}')? + 1..];
    if key.starts_with(prefix) { Some((side, Key::new(key).ok()?)) } else { None }
}

/// The progress that a cursor stands for. Servers count in the bits of the hash table from the
/// highest down, so that nothing is skipped when the table grows meanwhile: with its bits reversed,
/// the cursor is a binary fraction.
fn thousandths(cursor: u64) -> u16 {
    let share = (u128::from(cursor.reverse_bits()) * u128::from(ScanPage::WHOLE)) >> 64;
    u16::try_from(share).unwrap_or(ScanPage::WHOLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_fences_and_lines_lead_to_their_keys_and_others_to_none() {
        let found = |name: &[u8], prefix: &[u8]| {
            named(name, prefix).map(|(side, key)| (side, key.as_bytes().to_vec()))
        };
        assert_eq!(found(b"leasehold:f{1ps}invoice:42", b"inv"), Some((Side::Fence, b"invoice:42".to_vec())));
        assert_eq!(found(b"leasehold:l{2ml}{}", b""), Some((Side::Queue, b"{}".to_vec())));
        assert_eq!(found(b"leasehold:w{1ps}invoice:42", b""), None);
        assert_eq!(found(b"leasehold:f{x}other}inv", b"inv"), None);
        assert_eq!(found(b"leasehold:member", b""), None);
        assert_eq!(found(b"leasehold:f{x}", b""), None);
        assert_eq!(found(b"invoice:42", b""), None);
    }

    #[test]
    fn a_prefix_is_looked_for_verbatim() {
        let words = String::from_utf8(scan_command(7, b"a*").get_packed_command()).unwrap();
        assert!(words.contains("\r\n7\r\n") && words.contains("leasehold:[fl]{*}a\\**\r\n"), "{words}");
    }

    #[test]
    fn cursors_say_how_far_a_walk_has_come() {
        // A table of eight slots is scanned in this order.
        assert_eq!([4, 2, 6, 1, 5, 3, 7].map(thousandths), [125, 250, 375, 500, 625, 750, 875]);
        assert_eq!(thousandths(u64::MAX), 999);
    }
}
