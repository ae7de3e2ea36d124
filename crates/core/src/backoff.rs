//! Backoff: the pauses between two requests.

use std::time::Duration;

use crate::Misuse;

/// Jittered delays between requests, which keep waiters that started together from asking together.
///
/// [`Backoff::new`] makes growing ones: the n-th lies between half of `first · 2ⁿ` and the whole of
/// it, and never above `most` (Brooker, *Exponential Backoff and Jitter*, 2015, which calls it
/// equal jitter). [`Backoff::fixed`] makes delays of one length, with a jitter of its own.
///
/// ```
/// # use leasehold_core::Backoff;
/// # use std::time::Duration;
/// let growing = Backoff::new(Duration::from_millis(50), Duration::from_secs(2))?;
/// let fixed = Backoff::fixed(Duration::from_millis(200), Duration::from_millis(100))?;
/// assert!(fixed.delay(0, 7) >= Duration::from_millis(200));
/// # Ok::<(), leasehold_core::Misuse>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// In µs, like the others: every waiter has a copy.
    first: u32,
    most: u32,
    jitter: Jitter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Jitter {
    /// Takes up to half of the delay away.
    Half,
    /// Adds up to so much, in µs.
    UpTo(u32),
}

impl Backoff {
    /// Between requests for a lock that somebody holds, if the store cannot notify: 5 ms, because
    /// most holds are short, growing to 150 ms, so that a long wait costs a server at most seven
    /// small commands a second.
    pub const WHILE_HELD: Self = Self::growing(5_000, 150_000);

    /// Between requests to a store that does not answer: 20 ms, so that a dropped connection is
    /// hardly noticed, growing to 1 s, to spare a server that comes back.
    pub const WHILE_SILENT: Self = Self::growing(20_000, 1_000_000);

    const fn growing(first: u32, most: u32) -> Self {
        Self { first, most, jitter: Jitter::Half }
    }

    /// A backoff from a first delay to a longest one; an hour at most.
    ///
    /// # Errors
    ///
    /// [`Misuse::Backoff`] if the first delay is zero (asking without a pause overloads a processor
    /// and a server) or greater than the longest.
    pub fn new(first: Duration, most: Duration) -> Result<Self, Misuse> {
        if first.is_zero() || first > most {
            return Err(Misuse::Backoff { first, most });
        }
        Ok(Self::growing(micros(first), micros(most)))
    }

    /// The same delay each time, and a random part of `jitter` on top; an hour at most.
    ///
    /// # Errors
    ///
    /// [`Misuse::Backoff`] if the delay is zero.
    #[doc(alias = "retryDelay")]
    #[doc(alias = "retryJitter")]
    pub fn fixed(delay: Duration, jitter: Duration) -> Result<Self, Misuse> {
        Ok(Self { jitter: Jitter::UpTo(micros(jitter)), ..Self::new(delay, delay)? })
    }

    /// The delay after `already` delays before it; `random` chooses within the jitter.
    #[must_use]
    pub fn delay(self, already: u32, random: u64) -> Duration {
        let whole = (u64::from(self.first) << already.min(31)).min(u64::from(self.most));
        let whole = Duration::from_micros(whole);
        match self.jitter {
            Jitter::Half => whole / 2 + jitter(whole / 2, random),
            Jitter::UpTo(most) => whole + jitter(Duration::from_micros(u64::from(most)), random),
        }
    }
}

/// No delay is shorter than a microsecond, or longer than an hour.
fn micros(time: Duration) -> u32 {
    const HOUR: u128 = 3_600_000_000;
    time.as_micros().clamp(u128::from(!time.is_zero()), HOUR) as u32
}

/// A part of `whole` chosen by `random`.
pub(crate) fn jitter(whole: Duration, random: u64) -> Duration {
    let nanos = u64::try_from(whole.as_nanos()).unwrap_or(u64::MAX);
    let share = (u128::from(nanos) * u128::from(random)) >> 64;
    Duration::from_nanos(u64::try_from(share).unwrap_or(u64::MAX))
}

/// The next number for jitter after a seed, which it advances (`SplitMix64`; Steele, Lea, Flood
/// 2014): nothing secret depends on it, and a seed replays it.
pub(crate) fn roll(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
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
    fn fixed_delays_stay_as_they_are_and_have_their_own_jitter() {
        let [delay, jitter] = [200, 100].map(Duration::from_millis);
        let backoff = Backoff::fixed(delay, jitter).unwrap();
        for already in [0, 1, 31, u32::MAX] {
            assert_eq!(backoff.delay(already, 0), delay);
            let most = backoff.delay(already, u64::MAX);
            assert!(most <= delay + jitter && most > delay + jitter * 9 / 10, "{most:?}");
        }
        assert_eq!(Backoff::fixed(delay, Duration::ZERO).unwrap().delay(3, u64::MAX), delay);
        assert!(Backoff::fixed(Duration::ZERO, jitter).is_err());
    }

    #[test]
    fn a_delay_is_never_nothing_and_never_longer_than_an_hour() {
        let [nano, day] = [Duration::from_nanos(1), Duration::from_secs(86_400)];
        assert_eq!(Backoff::fixed(nano, Duration::ZERO).unwrap().delay(0, 0), Duration::from_micros(1));
        assert_eq!(Backoff::new(day, day).unwrap().delay(0, 0), Duration::from_secs(1800));
    }

    #[test]
    fn a_backoff_without_a_pause_is_a_misuse() {
        let (zero, one) = (Duration::ZERO, Duration::from_millis(1));
        assert_eq!(Backoff::new(zero, one).unwrap_err(), Misuse::Backoff { first: zero, most: one });
        assert!(Backoff::new(one, zero).is_err());
        assert!(Backoff::new(one, one).is_ok());
    }

    #[test]
    fn the_numbers_spread_over_the_whole_range() {
        let mut seed = 1;
        let low = (0..1000).filter(|_| roll(&mut seed) < u64::MAX / 4).count();
        assert!((150..350).contains(&low), "{low} of 1000 in the lowest quarter");
    }
}
