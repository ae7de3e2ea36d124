//! Rests after a release, on keys that other libraries poll.

use std::sync::Mutex;
use std::time::Duration;

use leasehold_core::{Backoff, Claim, Instant, Key, locked};

use crate::recent::Recent;

/// When this process last released each key, where it polls for them.
///
/// A process that released a key and asked again at once would nearly always be first: others find
/// the key free only if they poll in between.
#[derive(Debug)]
pub(crate) struct Pauses {
    interval: Backoff,
    released: Mutex<Recent<Key, ()>>,
}

impl Pauses {
    pub(crate) fn new(interval: Backoff) -> Self {
        let longest = interval.delay(0, u64::MAX);
        Self { interval, released: Mutex::new(Recent::new(longest)) }
    }

    /// These keys are released now.
    pub(crate) fn note(&self, claim: &Claim, now: Instant) {
        let mut released = locked(&self.released);
        claim.keys().for_each(|key| released.note(key, now, |_| ()));
    }

    /// For how long a request for these keys should rest first. `random` chooses within the
    /// interval.
    pub(crate) fn left(&self, claim: &Claim, now: Instant, random: u64) -> Duration {
        let rest = self.interval.delay(0, random);
        let released = locked(&self.released);
        let latest = claim.keys().filter_map(|key| released.get(key, now)).map(|((), at)| *at).max();
        latest.map_or(Duration::ZERO, |at| (at + rest).saturating_since(now))
    }
}

/// How often in a row the store refused requests for each key.
///
/// A refusal that will not pass by itself is returned at once. A program that ignores it and asks
/// again in a loop would take a processor and a server with it.
#[derive(Debug)]
pub(crate) struct Refusals(Mutex<Recent<Key, u32>>);

/// Refusals that are further apart are not in a row.
const IN_A_ROW: Duration = Duration::from_secs(5);

impl Default for Refusals {
    fn default() -> Self {
        Self(Mutex::new(Recent::new(IN_A_ROW)))
    }
}

impl Refusals {
    /// A request for this key was refused now.
    pub(crate) fn note(&self, key: &Key, now: Instant) {
        let mut in_a_row = locked(&self.0);
        in_a_row.note(key, now, |count| count.map_or(1, |count| count.saturating_add(1)));
    }

    /// How long a request for these keys should rest first. `random` chooses within the jitter.
    pub(crate) fn left(&self, claim: &Claim, now: Instant, random: u64) -> Duration {
        let in_a_row = locked(&self.0);
        let rest = |(count, at): &(u32, Instant)| {
            (*at + Backoff::WHILE_SILENT.delay(count.saturating_sub(1), random)).saturating_since(now)
        };
        in_a_row.get(claim.first_key(), now).map_or(Duration::ZERO, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(names: &[&str]) -> Claim {
        Claim::exclusive_all(names.iter().map(|name| Key::new(name).unwrap())).unwrap()
    }

    fn at(ms: u64) -> Instant {
        Instant::from_nanos((1_000_000 + ms) * 1_000_000)
    }

    #[test]
    fn a_key_rests_for_an_interval_after_its_release() {
        let interval = Duration::from_millis(100);
        let pauses = Pauses::new(Backoff::new(interval, interval).unwrap());
        let left = |names: &[&str], ms| pauses.left(&claim(names), at(ms), 0).as_millis();
        assert_eq!(left(&["a"], 0), 0);
        pauses.note(&claim(&["a", "b"]), at(0));
        pauses.note(&claim(&["b"]), at(20));
        assert_eq!((left(&["a"], 10), left(&["b", "c"], 30), left(&["c"], 30)), (40, 40, 0));
        assert_eq!(left(&["a", "b"], 70), 0);
        assert!(pauses.left(&claim(&["b"]), at(20), u64::MAX) > Duration::from_millis(99));
    }

    #[test]
    fn each_refusal_in_a_row_makes_the_rest_longer_up_to_a_second() {
        let (refusals, key) = (Refusals::default(), Key::new("k").unwrap());
        let claim = Claim::exclusive(key.clone());
        let left = |ms| refusals.left(&claim, at(ms), 0).as_millis();
        assert_eq!(left(0), 0);
        for rest in [10, 20, 40, 80, 160, 320, 500, 500] {
            refusals.note(&key, at(0));
            assert_eq!((left(0), left(600)), (rest, 0));
        }
        assert_eq!(refusals.left(&Claim::exclusive(Key::new("other").unwrap()), at(0), 0), Duration::ZERO);
        refusals.note(&key, at(6000));
        assert_eq!(left(6000), 10, "the row is over");
    }
}
