//! Scans for continuous watching: a part at a time, with few commands that each inspect many keys.

use std::slice;

use leasehold_core::{Fault, Key, KeyState, ScanPage, ScanPosition};
use redis::Value;

use super::list::{ScanPattern, scan};
use crate::client::Client;
use crate::connection::route::Route;
use crate::reply::{nth_of, state_in};
use crate::script::{locked_call, survey_call};
use crate::wire;

/// How many keys the server scans in one call. With a million keys, on a machine that was busy with
/// other work, Valkey 9.1 and Redis 8.2 needed two and three milliseconds of processor time for
/// them, Redis 6.2 and 7.0 five and six: others wait no longer than that. The whole scan takes two
/// hundred calls, and as many scripts that look at the keys found.
const AT_ONCE: usize = 5_000;

/// How many reads of one string each count as one command. They are sent together, and each takes a
/// node about a microsecond, so that this many take no longer than an inspection of
/// [`INSPECTED_AT_ONCE`](Client::INSPECTED_AT_ONCE) keys.
const READS_PER_COMMAND: usize = 1_000;

impl Client {
    /// How many keys one command inspects. A script keeps the server busy for some ten microseconds
    /// per key, and longer if the queues are long.
    pub(crate) const INSPECTED_AT_ONCE: usize = 100;

    /// One call of SCAN: for the keys themselves, of which those are kept whose strings begin like
    /// a lease, and for their queues. Of other programs' keys only the names are transferred.
    pub(crate) async fn scan(&self, prefix: &[u8], from: u64) -> Result<ScanPage, Fault> {
        let mut route = self.any_route().await?;
        let command = scan(from.to_string().as_bytes(), b"*", prefix, AT_ONCE);
        let heard = self.say_once(&mut route, &command, self.call_limit).await?;
        let (next, names) = self.scanned(heard)?;
        let number = |next: Vec<u8>| wire::number(&next).ok_or_else(|| self.faults.unexpected("SCAN"));
        let next = next.map(number).transpose()?;
        let queues = names.iter().filter_map(|name| ScanPattern::Queues.key(name, prefix)).collect();
        let others: Vec<_> = names.iter().filter_map(|name| ScanPattern::Leases.key(name, prefix)).collect();
        let (mut found, mut commands): (Vec<Key>, u32) = (queues, 1);
        found.extend(self.locked_among(&mut route, others, &mut commands).await?);
        found.sort_unstable();
        found.dedup();
        let scanned = next.map_or(ScanPage::WHOLE, thousandths);
        Ok(ScanPage::part(found, next.map(|at| ScanPosition { section: 0, at }), scanned, commands))
    }

    /// The keys whose strings begin like a lease or a marker. Nodes of a cluster refuse scripts
    /// with keys of several slots, so each of their keys is read by itself.
    async fn locked_among(
        &self,
        route: &mut Route,
        keys: Vec<Key>,
        commands: &mut u32,
    ) -> Result<Vec<Key>, Fault> {
        if self.is_node() {
            let reads = keys.len().div_ceil(READS_PER_COMMAND);
            *commands = commands.saturating_add(u32::try_from(reads).unwrap_or(u32::MAX));
            return self.that_look_held(route, keys).await;
        }
        let mut found = Vec::new();
        for part in keys.chunks(AT_ONCE) {
            *commands += 1;
            let heard = self.call(route, &locked_call(part)).await?;
            let Value::Array(nths) = heard.map_err(|error| self.faults.of_scanned(&error))? else {
                return Err(self.faults.lasting("the answer to a scan is not one of the script's"));
            };
            found.extend(nths.iter().filter_map(|nth| part.get(nth_of(nth)?)).cloned());
        }
        Ok(found)
    }

    /// The states of these keys, with one command for every
    /// [`INSPECTED_AT_ONCE`](Self::INSPECTED_AT_ONCE).
    pub(crate) async fn inspect_many(&self, keys: &[Key]) -> Result<Vec<KeyState>, Fault> {
        let mut route = self.any_route().await?;
        let mut states = Vec::with_capacity(keys.len());
        for part in keys.chunks(Self::INSPECTED_AT_ONCE) {
            let survey = survey_call(part, self.asked_alone().fence_keys());
            let heard = self.call(&mut route, &survey).await?;
            let answers = match heard.map_err(|error| self.faults.of_refusal(&error))? {
                Value::Array(answers) if answers.len() == part.len() => answers,
                _ => return Err(self.faults.lasting("the answer to a survey is none of the script's")),
            };
            for (key, answer) in part.iter().zip(answers) {
                match answer {
                    // Its data cannot be read: an inspection of it alone says why.
                    Value::Nil => {
                        states.extend(self.inspect_each(&mut route, slice::from_ref(key), None).await?);
                    }
                    answer => states.push(self.read(Ok(answer), |value| state_in(value, key))?),
                }
            }
        }
        Ok(states)
    }
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
    fn cursors_say_how_far_a_walk_has_come() {
        // A table of eight slots is scanned in this order.
        assert_eq!([4, 2, 6, 1, 5, 3, 7].map(thousandths), [125, 250, 375, 500, 625, 750, 875]);
        assert_eq!(thousandths(u64::MAX), 999);
    }
}
