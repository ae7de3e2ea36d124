//! Remembers which keys were waited for or refused lately, as far as this process has noticed.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Mutex;
use std::time::Duration;

use crate::{Instant, Key, locked};

/// Remembers which keys were waited for or refused lately, as far as this process has noticed. A
/// request for such a key skips a store's shorter way for uncontended ones, which would refuse it.
///
/// It may forget a key or mistake one for another: either costs one command, or a little time.
#[derive(Debug)]
pub struct Contended {
    /// It has read the seed.
    hasher: DefaultHasher,
    slots: Mutex<Slots>,
}

const SLOTS: usize = 1024;

/// The digest of a key, and when somebody was last seen waiting for it.
type Slots = Box<[Option<(u64, Instant)>; SLOTS]>;

/// A contended key stays contended for a while.
const LATELY: Duration = Duration::from_secs(10);

impl Contended {
    /// The seed should be random, so that nobody can choose keys that are mistaken for others.
    #[must_use]
    pub fn new(seed: u128) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write_u128(seed);
        Self { hasher, slots: Mutex::new(Box::new([None; SLOTS])) }
    }

    /// The digest of a key. Few keys share one.
    #[must_use]
    pub fn digest(&self, key: &Key) -> u64 {
        let mut hasher = self.hasher.clone();
        key.hash(&mut hasher);
        hasher.finish()
    }

    /// Notes that a key of this digest was waited for or refused.
    pub fn note(&self, digest: u64, now: Instant) {
        locked(&self.slots)[digest as usize % SLOTS] = Some((digest, now));
    }

    /// Returns true if that was noted lately. If it was never, the clock is not read.
    #[must_use]
    pub fn has(&self, digest: u64, now: impl FnOnce() -> Instant) -> bool {
        let noted = locked(&self.slots)[digest as usize % SLOTS];
        noted.is_some_and(|(noted, at)| noted == digest && now().saturating_since(at) < LATELY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So a simulation repeats itself.
    #[test]
    fn the_seed_alone_decides_which_keys_are_mistaken_for_others() {
        let key = Key::new("a").unwrap();
        let [one, same, other] = [1, 1, 2].map(|seed| Contended::new(seed).digest(&key));
        assert!(one == same && one != other);
    }

    #[test]
    fn a_key_is_contended_for_a_while_after_somebody_waited_for_it() {
        let at = |seconds: u64| Instant::from_nanos((100 + seconds) * 1_000_000_000);
        let contended = Contended::new(7);
        let [wanted, other] = ["a", "b"].map(|key| contended.digest(&Key::new(key).unwrap()));
        let has = |digest, seconds| contended.has(digest, || at(seconds));
        assert!(!has(wanted, 0));
        contended.note(wanted, at(0));
        assert!(has(wanted, 9) && !has(other, 9));
        assert!(!has(wanted, 10));
    }
}
