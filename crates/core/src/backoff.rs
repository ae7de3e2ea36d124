//! Backoff: the pauses between two requests.

use std::time::Duration;

use crate::Misuse;

/// Growing, jittered delays: the n-th lies between half of `first · 2ⁿ` and the whole of it, and
/// never above `most`.
///
/// The jitter keeps waiters that started together from asking together. (Brooker, *Exponential
/// Backoff and Jitter*, 2015, which calls it equal jitter.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// In ns, like the other field: every waiter has a copy.
    first: u64,
    most: u64,
}

/// A millisecond in ns.
const MILLI: u64 = 1_000_000;

impl Backoff {
    /// Between requests for a lock that somebody holds, if the store cannot notify: 5 ms, because
    /// most holds are short, growing to 150 ms, so that a long wait costs a server at most seven
    /// small commands a second.
    pub const WHILE_HELD: Self = Self { first: 5 * MILLI, most: 150 * MILLI };

    /// Between requests to a store that does not answer: 20 ms, so that a dropped connection is
    /// hardly noticed, growing to 1 s, so that a server that comes back does not get all requests
    /// at once.
    pub const WHILE_SILENT: Self = Self { first: 20 * MILLI, most: 1_000 * MILLI };

    /// A backoff from a first delay to a longest one.
    ///
    /// # Errors
    ///
    /// [`Misuse::Backoff`] if the first delay is zero (asking without a pause overloads a processor
    /// and a server) or greater than the longest.
    pub fn new(first: Duration, most: Duration) -> Result<Self, Misuse> {
        if first.is_zero() || first > most {
            return Err(Misuse::Backoff { first, most });
        }
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Ok(Self { first: nanos(first), most: nanos(most) })
    }

    /// The delay after `already` delays before it; `random` chooses within the jitter.
    #[must_use]
    pub fn delay(self, already: u32, random: u64) -> Duration {
        let whole = Duration::from_nanos(self.first.saturating_mul(1 << already.min(30)).min(self.most));
        whole / 2 + jitter(whole / 2, random)
    }
}

/// A part of `whole` chosen by `random`.
pub(crate) fn jitter(whole: Duration, random: u64) -> Duration {
    let nanos = u64::try_from(whole.as_nanos()).unwrap_or(u64::MAX);
    let share = (u128::from(nanos) * u128::from(random)) >> 64;
    Duration::from_nanos(u64::try_from(share).unwrap_or(u64::MAX))
}

/// A small generator for jitter (`SplitMix64`; Steele, Lea, Flood 2014): nothing secret depends on
/// it, and a seed replays it.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_within_their_jitter_and_never_pass_the_longest() {
        let backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(100)).unwrap();
        for (already, whole) in [(0, 10), (1, 20), (2, 40), (3, 80), (4, 100), (31, 100), (u32::MAX, 100)] {
            let whole = Duration::from_millis(whole);
            assert_eq!(backoff.delay(already, 0), whole / 2);
            assert!(backoff.delay(already, u64::MAX) <= whole);
            assert!(backoff.delay(already, u64::MAX) > whole * 9 / 10);
        }
    }

    #[test]
    fn a_backoff_without_a_pause_is_a_misuse() {
        let (zero, one) = (Duration::ZERO, Duration::from_millis(1));
        assert_eq!(Backoff::new(zero, one).unwrap_err(), Misuse::Backoff { first: zero, most: one });
        assert!(Backoff::new(one, zero).is_err());
        assert!(Backoff::new(one, one).is_ok());
    }

    #[test]
    fn the_dice_spread_over_the_whole_range() {
        let mut dice = Dice::new(1);
        let low = (0..1000).filter(|_| dice.roll() < u64::MAX / 4).count();
        assert!((150..350).contains(&low), "{low} of 1000 in the lowest quarter");
    }
}
