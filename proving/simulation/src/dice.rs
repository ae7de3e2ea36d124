//! The only source of randomness: every number is derived from the seed.

use std::ops::Range;
use std::time::Duration;

/// `SplitMix64` (Steele, Lea, Flood 2014): repeatable, and unrelated for neighbouring seeds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Self(seed);
        Self(dice.roll())
    }

    pub(crate) const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A second, independent generator, seeded by this one.
    pub(crate) fn fork(&mut self) -> Self {
        Self::new(self.roll())
    }

    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.roll() % (range.end - range.start)
    }

    /// A number below `count`.
    pub(crate) fn one_of(&mut self, count: usize) -> usize {
        usize::try_from(self.within(0..count as u64)).unwrap_or(0)
    }

    /// Returns true `share` times in a hundred.
    pub(crate) fn percent(&mut self, share: u64) -> bool {
        self.within(0..100) < share
    }

    /// A duration in a range of milliseconds, to the microsecond.
    pub(crate) fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_micros(self.within(range.start * 1000..range.end * 1000))
    }
}
