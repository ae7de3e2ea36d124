//! The rows of the table: which locks, and in which order.

use std::cmp::Reverse;
use std::time::Duration;

use leasehold::{Fence, Holder, HolderInfo, Key, KeyState, Snapshot};

use crate::say::plain;
use crate::table;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    #[default]
    Key,
    Waiting,
    Held,
    Left,
    Fence,
    Label,
}

/// The orders, one after another, and their names.
const ORDERS: [(Sort, &str); 6] = [
    (Sort::Key, "key"),
    (Sort::Waiting, "most waiting"),
    (Sort::Held, "longest held"),
    (Sort::Left, "least left"),
    (Sort::Fence, "newest fence"),
    (Sort::Label, "label"),
];

impl Sort {
    pub(crate) const fn name(self) -> &'static str {
        ORDERS[self as usize].1
    }

    pub(crate) const fn next(self) -> Self {
        ORDERS[(self as usize + 1) % ORDERS.len()].0
    }
}

/// A lock, or a share of one.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) seen: Snapshot,
    /// The index of the holder; `None` if nobody holds it.
    nth: Option<usize>,
}

impl Row {
    pub(crate) fn holding(&self) -> Option<&HolderInfo> {
        self.seen.state.holders.get(self.nth?)
    }

    /// Identifies the row, also after the lock was looked at again.
    pub(crate) fn identity(&self) -> (&Key, Option<Holder>) {
        (&self.seen.state.key, self.holding().and_then(|holding| holding.owner.holder()))
    }

    /// The cells, when the data is this old.
    pub(crate) fn cells(&self, since: Duration) -> table::Row {
        let state = later(&self.seen, since);
        table::row(&state, self.nth.and_then(|nth| state.holders.get(nth)))
    }

    fn label(&self) -> String {
        self.holding().map_or_else(String::new, |holding| plain(&holding.owner.to_string()))
    }

    fn left(&self) -> Option<Duration> {
        Some(self.holding()?.remaining?.saturating_sub(self.seen.ago))
    }

    fn held_for(&self) -> Option<Duration> {
        Some(self.seen.state.held_for(self.holding()?)? + self.seen.ago)
    }

    fn fence(&self) -> Option<Fence> {
        self.holding()?.fence
    }
}

/// The lock as it is now if nothing has happened to it, when the data is this old.
pub(crate) fn later(seen: &Snapshot, since: Duration) -> KeyState {
    let ago = seen.ago + since;
    let mut state = KeyState::clone(&seen.state);
    state.clock = state.clock.map(|clock| clock + ago);
    for holding in &mut state.holders {
        holding.remaining = holding.remaining.map(|left| left.saturating_sub(ago));
    }
    for waiter in &mut state.waiters {
        waiter.waited += ago;
    }
    state
}

/// The locks that match the filter, in order. The data is sorted by key, and this sort is stable.
pub(crate) fn arranged(snapshots: &[Snapshot], filter: &str, sort: Sort, reversed: bool) -> Vec<Row> {
    let filter = filter.to_lowercase();
    let mut rows: Vec<Row> =
        snapshots.iter().filter(|seen| passes(seen, &filter)).flat_map(rows_of).collect();
    match sort {
        Sort::Key => {}
        Sort::Waiting => rows.sort_by_key(|row| Reverse(row.seen.state.waiters.len())),
        Sort::Held => rows.sort_by_key(|row| Reverse(row.held_for())),
        Sort::Left => rows.sort_by_key(|row| (row.left().is_none(), row.left())),
        Sort::Fence => rows.sort_by_key(|row| Reverse(row.fence())),
        Sort::Label => rows.sort_by_cached_key(|row| (row.holding().is_none(), row.label())),
    }
    if reversed {
        rows.reverse();
    }
    rows
}

fn rows_of(seen: &Snapshot) -> Vec<Row> {
    let row = |nth| Row { seen: seen.clone(), nth };
    match seen.state.holders.len() {
        0 => vec![row(None)],
        count => (0..count).map(Some).map(row).collect(),
    }
}

/// True if the text occurs in the key, or in the description of a holder or a waiter.
fn passes(seen: &Snapshot, filter: &str) -> bool {
    let has = |text: &str| text.to_lowercase().contains(filter);
    let state = &seen.state;
    filter.is_empty()
        || has(&state.key.to_string())
        || state.holders.iter().any(|holding| has(&holding.owner.to_string()))
        || state.waiters.iter().any(|waiter| {
            has(&waiter.holder.to_string()) || waiter.label.as_ref().is_some_and(|label| has(label.as_str()))
        })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use leasehold::{Label, Owner, Stamp, Waiter};

    use super::super::view::tests::view;
    use super::*;

    /// A lock that was looked at this many seconds ago: its holder's label, fence and remaining
    /// seconds, if it is held, and how many wait.
    fn seen(key: &str, ago: u64, held: Option<(&str, u64, Option<u64>)>, waiting: usize) -> Snapshot {
        let key = Key::new(key).unwrap();
        let holder = Holder::from_bits(1 << 96);
        let held = held.map(|(label, second, left)| {
            let owner = Owner::Holder { holder, label: Label::new(label).ok() };
            let left = left.map(Duration::from_secs);
            HolderInfo::exclusive(key.clone(), owner, Fence::new(second * 1_000_000), left)
        });
        let waiters = vec![Waiter::exclusive(holder, None, Duration::ZERO); waiting];
        let state = KeyState::new(key, held.into_iter().collect(), waiters);
        let mut seen = view().known.unwrap().snapshots[0].clone();
        seen.state = Arc::new(state.at(Stamp::from_micros(100_000_000 - ago * 1_000_000)));
        seen.ago = Duration::from_secs(ago);
        seen
    }

    #[test]
    fn a_lock_that_was_looked_at_earlier_is_shown_as_it_is_by_now() {
        let state = later(&seen("k", 5, Some(("x", 50, Some(12))), 1), Duration::from_secs(2));
        let holding = &state.holders[0];
        assert_eq!(holding.remaining, Some(Duration::from_secs(5)));
        assert_eq!(state.held_for(holding), Some(Duration::from_secs(52)));
        assert_eq!(state.waiters[0].waited, Duration::from_secs(7));
    }

    #[test]
    fn each_order_puts_first_what_it_is_named_after_and_last_what_lacks_it() {
        let all = [
            seen("a", 0, Some(("y", 60, Some(8))), 0),
            seen("b", 0, None, 1),
            seen("c", 5, Some(("z", 50, Some(12))), 2),
            seen("d", 0, Some(("x", 70, None)), 0),
        ];
        let order = |sort, reversed| -> String {
            arranged(&all, "", sort, reversed).iter().map(|row| row.seen.state.key.to_string()).collect()
        };
        for (sort, expected) in [
            (Sort::Key, "abcd"),
            (Sort::Waiting, "cbad"),
            (Sort::Held, "cadb"),
            (Sort::Left, "cabd"),
            (Sort::Fence, "dacb"),
            (Sort::Label, "dacb"),
        ] {
            assert_eq!(order(sort, false), expected, "{}", sort.name());
            assert_eq!(order(sort, true), expected.chars().rev().collect::<String>(), "{}", sort.name());
        }
    }
}
