//! Checks that all processes' beliefs are compatible.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

use crate::wish::{Wanted, can_be_together, is_over_full};

/// One hold, as its holder saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a hold has no more to it")]
pub struct Hold {
    /// The process.
    pub process: u32,
    /// The task in it.
    pub task: u32,
    /// The mode.
    pub mode: Wanted,
    /// The keys.
    pub keys: Vec<String>,
    /// The fence.
    pub fence: u64,
    /// When it asked.
    pub asked: u64,
    /// When it got the guard.
    pub from: u64,
    /// When it released, or its lease ended.
    pub until: u64,
}

/// All holds of a run.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    holds: Vec<Hold>,
    tasks: BTreeSet<(u32, u32)>,
    /// Requests that were never served, with their time.
    waiting: BTreeMap<(u32, u32), u64>,
    end: u64,
}

impl Judge {
    /// Reads the history of all processes.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    #[must_use]
    pub fn of(history: &Path) -> Self {
        let text = fs::read_to_string(history).expect("a history");
        let mut judge = Self::default();
        let mut open = BTreeMap::<(u32, u32), Hold>::new();
        let mut ended = BTreeSet::new();
        // The last line of a killed process may be cut off.
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let words: Vec<_> = line.split(' ').collect();
            let [at, process, task, what, mode, keys, fence, until] = words[..] else { panic!("{line}") };
            let number = |word: &str| word.parse::<u64>().unwrap_or_else(|_| panic!("{line}"));
            let (at, until) = (number(at), number(until));
            let who = (number(process) as u32, number(task) as u32);
            judge.end = judge.end.max(at);
            judge.tasks.insert(who);
            // The process was stopped at once, and anything that it recorded meanwhile does not
            // count.
            if ended.contains(&who) {
                continue;
            }
            if what == "ends" {
                ended.insert(who);
            }
            match what {
                "asks" => {
                    judge.waiting.insert(who, at);
                }
                "in" => {
                    let asked = judge.waiting.remove(&who).unwrap_or(at);
                    let keys = keys.split(',').map(ToOwned::to_owned).collect();
                    let mode = self::mode(mode).unwrap_or_else(|| panic!("{line}"));
                    let fence = number(fence);
                    let hold =
                        Hold { process: who.0, task: who.1, mode, keys, fence, asked, from: at, until };
                    open.insert(who, hold);
                }
                "on" => {
                    if let Some(hold) = open.get_mut(&who) {
                        hold.until = until;
                    }
                }
                _ => {
                    if let Some(mut hold) = open.remove(&who) {
                        hold.until = at.min(hold.until);
                        judge.holds.push(hold);
                    }
                }
            }
        }
        judge.holds.extend(open.into_values());
        judge.holds.sort_by_key(|hold| hold.from);
        judge
    }

    /// All holds, by their start.
    #[must_use]
    pub fn holds(&self) -> &[Hold] {
        &self.holds
    }

    /// Describes a holder that held a key next to an incompatible one, or with which more permits
    /// were held than there are.
    #[must_use]
    pub fn too_many(&self) -> Option<String> {
        let mut inside = BTreeMap::<&str, Vec<&Hold>>::new();
        for hold in &self.holds {
            for key in &hold.keys {
                let others = inside.entry(key).or_default();
                others.retain(|other| other.until > hold.from);
                let together = others.iter().all(|other| can_be_together(other.mode, hold.mode));
                if !together || is_over_full(others.iter().map(|other| other.mode), hold.mode) {
                    return Some(format!("{hold:?}\nbeside {others:?}"));
                }
                others.push(hold);
            }
        }
        None
    }

    /// Describes two holds of one key with the same fence, or an exclusive one whose fence is not
    /// greater than those that ended before it began.
    #[must_use]
    pub fn fence_out_of_order(&self) -> Option<String> {
        let mut highest = BTreeMap::<&str, (u64, &Hold)>::new();
        let mut seen = BTreeSet::new();
        for hold in &self.holds {
            for key in &hold.keys {
                if !seen.insert((key, hold.fence)) {
                    return Some(format!("twice: {hold:?}"));
                }
                let (last, before) = *highest.entry(key).or_insert((0, hold));
                if hold.mode == Wanted::Alone && hold.fence < last {
                    return Some(format!("{hold:?}\nafter {before:?}"));
                }
                if hold.fence > last {
                    highest.insert(key, (hold.fence, hold));
                }
            }
        }
        None
    }

    /// The longest wait, including requests that were never served, and the number of grants of the
    /// task that had the fewest.
    #[must_use]
    pub fn longest_wait(&self) -> (Duration, usize) {
        let served = self.holds.iter().map(|hold| hold.from - hold.asked);
        let unserved = self.waiting.values().map(|since| self.end - since);
        let longest = served.chain(unserved).max().unwrap_or(0);
        let times = |who: &(u32, u32)| self.holds.iter().filter(|it| (it.process, it.task) == *who).count();
        (Duration::from_nanos(longest), self.tasks.iter().map(times).min().unwrap_or(0))
    }
}

/// Parses a mode as [`HistoryWriter`](super::HistoryWriter) writes it.
fn mode(word: &str) -> Option<Wanted> {
    match (word, word.split_once('/')) {
        ("alone", _) => Some(Wanted::Alone),
        ("read", _) => Some(Wanted::Read),
        (_, Some((weight, of))) => Some(Wanted::Permits(weight.parse().ok()?, of.parse().ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(mode: &str, fence: u64, from: u64, until: u64) -> Hold {
        let (mode, keys) = (super::mode(mode).unwrap(), vec!["k".to_owned()]);
        Hold { process: 1, task: fence as u32, mode, keys, fence, asked: from, from, until }
    }

    fn judge(holds: &[Hold]) -> Judge {
        Judge { holds: holds.to_vec(), ..Judge::default() }
    }

    #[test]
    fn only_incompatible_holders_are_reported() {
        let together =
            |one: &str, other: &str| judge(&[hold(one, 1, 0, 9), hold(other, 2, 5, 12)]).too_many();
        for (one, other) in [("read", "read"), ("1/3", "2/3")] {
            assert_eq!(together(one, other), None);
        }
        for (one, other) in [
            ("read", "alone"),
            ("alone", "read"),
            ("alone", "alone"),
            ("1/2", "1/3"),
            ("2/3", "2/3"),
            ("read", "1/2"),
        ] {
            assert!(together(one, other).is_some(), "{one} {other}");
            assert_eq!(judge(&[hold(one, 1, 0, 5), hold(other, 2, 5, 12)]).too_many(), None);
        }
    }

    #[test]
    fn a_fence_that_repeats_or_falls_is_found() {
        let alone = |fence, from| hold("alone", fence, from, from + 1);
        assert!(judge(&[alone(2, 0), alone(1, 5)]).fence_out_of_order().is_some());
        assert!(judge(&[hold("read", 2, 0, 1), hold("read", 2, 0, 1)]).fence_out_of_order().is_some());
        assert_eq!(
            judge(&[alone(1, 0), hold("read", 3, 5, 6), hold("read", 2, 6, 7)]).fence_out_of_order(),
            None
        );
    }
}
