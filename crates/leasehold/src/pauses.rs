//! Rests after a release, on keys that other libraries poll.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leasehold_core::{Backoff, Claim, Instant, Key};

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
        let mut released = self.released.lock().unwrap_or_else(PoisonError::into_inner);
        claim.keys().for_each(|key| released.note(key, now, |_| ()));
    }

    /// For how long a request for these keys should rest first. `random` chooses within the
    /// interval.
    pub(crate) fn left(&self, claim: &Claim, now: Instant, random: u64) -> Duration {
        let rest = self.interval.delay(0, random);
        let released = self.released.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = claim.keys().filter_map(|key| released.get(key, now)).map(|((), at)| *at).max();
        latest.map_or(Duration::ZERO, |at| (at + rest).saturating_since(now))
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
}
