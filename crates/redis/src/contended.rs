//! For which keys somebody waited lately, as far as this process has noticed.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::{Instant, Key};

/// For which keys somebody waited lately, as far as this process has noticed: what is only quicker where nobody waits is not worth
/// a try there.
///
/// It may forget, and take one key for another; both cost one command, or the time that a command takes a server.
#[derive(Debug)]
pub(crate) struct Contended {
    hash: RandomState,
    slots: Mutex<[Option<(u64, Instant)>; SLOTS]>,
}

const SLOTS: usize = 64;

/// A key that is wanted by several is so for a while.
const LATELY: Duration = Duration::from_secs(10);

impl Default for Contended {
    fn default() -> Self {
        Self { hash: RandomState::new(), slots: Mutex::new([None; SLOTS]) }
    }
}

impl Contended {
    /// Somebody waits for a key now.
    pub(crate) fn note(&self, key: &Key, now: Instant) {
        let (slot, hash) = self.place_of(key);
        self.slots()[slot] = Some((hash, now));
    }

    /// Whether somebody waited for a key lately.
    pub(crate) fn has(&self, key: &Key, now: Instant) -> bool {
        let (slot, hash) = self.place_of(key);
        self.slots()[slot].is_some_and(|(noted, at)| noted == hash && now.saturating_since(at) < LATELY)
    }

    fn place_of(&self, key: &Key) -> (usize, u64) {
        let hash = self.hash.hash_one(key);
        (hash as usize % SLOTS, hash)
    }

    fn slots(&self) -> MutexGuard<'_, [Option<(u64, Instant)>; SLOTS]> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_contended_for_a_while_after_somebody_waited_for_it() {
        let at = |seconds: u64| Instant::from_nanos((100 + seconds) * 1_000_000_000);
        let (contended, [wanted, other]) =
            (Contended::default(), ["a", "b"].map(|key| Key::new(key).unwrap()));
        assert!(!contended.has(&wanted, at(0)));
        contended.note(&wanted, at(0));
        assert!(contended.has(&wanted, at(9)) && !contended.has(&other, at(9)));
        assert!(!contended.has(&wanted, at(10)));
    }
}
