//! Recent events, by key.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use leasehold_core::Instant;

/// The last time that something happened to each key, with what is known of it, for as long as that
/// counts.
#[derive(Debug)]
pub(crate) struct Recent<K, T> {
    entries: HashMap<K, (T, Instant)>,
    counts_for: Duration,
    sweep_at: usize,
}

/// With fewer entries than this, nothing is swept.
const FEW: usize = 1024;

impl<K: Clone + Eq + Hash, T> Recent<K, T> {
    pub(crate) fn new(counts_for: Duration) -> Self {
        Self { entries: HashMap::new(), counts_for, sweep_at: FEW }
    }

    /// Notes that it happened now; `change` makes the new value from the last one, if that still
    /// counts.
    pub(crate) fn note(&mut self, key: &K, now: Instant, change: impl FnOnce(Option<&T>) -> T) {
        if self.entries.len() >= self.sweep_at {
            let counts_for = self.counts_for;
            self.entries.retain(|_, (_, at)| now.saturating_since(*at) < counts_for);
            // So at least half of what a sweep looks at was added since the one before.
            self.sweep_at = FEW.max(2 * self.entries.len());
        }
        let value = change(self.get(key, now).map(|(value, _)| value));
        self.entries.insert(key.clone(), (value, now));
    }

    /// The last event of a key and its time, if it still counts.
    pub(crate) fn get(&self, key: &K, now: Instant) -> Option<&(T, Instant)> {
        self.entries.get(key).filter(|(_, at)| now.saturating_since(*at) < self.counts_for)
    }

    /// Forgets the last event of a key, and returns what was known of it.
    pub(crate) fn take(&mut self, key: &K) -> Option<T> {
        self.entries.remove(key).map(|(value, _)| value)
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::Key;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos((1_000_000 + ms) * 1_000_000)
    }

    #[test]
    fn an_event_counts_for_a_time_and_then_no_more() {
        let (mut recent, key) = (Recent::new(Duration::from_millis(100)), Key::new("k").unwrap());
        let count = |last: Option<&u32>| last.copied().unwrap_or(0) + 1;
        recent.note(&key, at(0), count);
        recent.note(&key, at(99), count);
        assert_eq!(recent.get(&key, at(198)), Some(&(2, at(99))));
        assert_eq!(recent.get(&key, at(199)), None);
        recent.note(&key, at(199), count);
        assert_eq!(recent.get(&key, at(199)), Some(&(1, at(199))));
    }

    #[test]
    fn only_keys_that_count_are_kept_at_a_bounded_cost_each() {
        const KEYS: u64 = 100_000;
        let mut recent = Recent::new(Duration::from_secs(10));
        let mut looked_at = 0;
        for number in 0..KEYS {
            let kept = recent.entries.len();
            assert!(kept <= 20_001, "{kept} of 10,000 that count");
            looked_at += if kept >= recent.sweep_at { kept } else { 0 };
            recent.note(&Key::new(number.to_string()).unwrap(), at(number), |_| ());
        }
        assert!(looked_at as u64 <= 3 * KEYS, "{looked_at}");
    }
}
