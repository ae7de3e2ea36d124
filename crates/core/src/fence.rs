//! The fencing token of a grant.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::compact::Compact;
use crate::{Escaped, Misuse};

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "serde")]
mod serde;

/// A fencing token: every grant of a key has a greater one than all earlier grants of that key.
///
/// Send it with every write to the resource that the lock protects, and let the resource refuse a
/// fence smaller than one that it has seen: then a holder that was paused past the end of its lease
/// can do no harm. (Kleppmann, *How to do distributed locking*, 2016.)
///
/// It counts microseconds since 1970 unless a greater fence was granted before. So it stays below
/// 2⁵³ − 1 for two centuries and fits the numbers of every database and every language.
///
/// It is written as a number, by [`Display`](fmt::Display) and, with the feature `serde`, by serde.
/// A service that receives one reads it back with [`FromStr`] or [`TryFrom`].
///
/// ```
/// # use leasehold_core::{Fence, Misuse};
/// let fence: Fence = "1763713011000000".parse()?;
/// assert_eq!(fence, Fence::try_from(1_763_713_011_000_000_i64)?);
/// assert!(Fence::try_from(-1_i64).is_err());
/// # Ok::<(), Misuse>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(Compact);

impl Fence {
    /// 2⁵³ − 1, the greatest integer that a number of Lua or JavaScript (a double) holds exactly.
    pub const MAX: Self = Self(Compact::new((1 << 53) - 1));

    /// Takes a number as a fence; `None` above [`Fence::MAX`].
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number > Self::MAX.get() { None } else { Some(Self(Compact::new(number))) }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// How far a fence that is proposed to a member of a quorum may be from that member's clock.
    /// Clocks that are set by NTP agree far better. A wrong clock can neither use the numbers up
    /// nor repeat a fence that a member forgot, because such a member abstains for longer than
    /// twice this margin plus the difference of the members' clocks.
    pub const MARGIN: Duration = Duration::from_secs(2);

    /// The smallest longest TTL of a quorum. A member that forgot its fences abstains for the
    /// longest TTL and a second. That must be longer than two margins plus the difference of the
    /// members' clocks, which leaves two seconds for the clocks.
    pub const LEAST_MAX_TTL: Duration = Duration::from_secs(5);

    /// The floor of a grant: the fence that a quorum proposes instead of the store's clock, within
    /// [`Fence::MARGIN`] of that clock.
    #[must_use]
    pub fn floor(proposed: Option<Self>, clock: Self) -> Self {
        let margin = u64::try_from(Self::MARGIN.as_micros()).unwrap_or(u64::MAX);
        let least = Self::new(clock.get().saturating_sub(margin)).unwrap_or(clock);
        let most = Self::new(clock.get().saturating_add(margin)).unwrap_or(Self::MAX);
        proposed.map_or(clock, |proposed| proposed.clamp(least, most))
    }

    /// The fence of the next grant: above the last one, and not below the floor of the store's
    /// clock, so that it rises even if the last one was lost. `None` if none is left.
    #[must_use]
    pub fn next(last: Option<Self>, floor: Self) -> Option<Self> {
        let above = last.map_or(0, |last| last.get() + 1);
        Self::new(above.max(floor.get()))
    }
}

/// Databases have no unsigned numbers; a fence always fits.
impl From<Fence> for i64 {
    fn from(fence: Fence) -> Self {
        fence.get().cast_signed()
    }
}

impl From<Fence> for u64 {
    fn from(fence: Fence) -> Self {
        fence.get()
    }
}

impl TryFrom<u64> for Fence {
    type Error = Misuse;

    fn try_from(number: u64) -> Result<Self, Misuse> {
        Self::new(number).ok_or(Misuse::FenceOutOfRange { number: number.into() })
    }
}

impl TryFrom<i64> for Fence {
    type Error = Misuse;

    fn try_from(number: i64) -> Result<Self, Misuse> {
        let fence = u64::try_from(number).ok().and_then(Self::new);
        fence.ok_or(Misuse::FenceOutOfRange { number: number.into() })
    }
}

/// Reads what [`Display`](fmt::Display) writes: decimal digits and nothing else.
impl FromStr for Fence {
    type Err = Misuse;

    fn from_str(text: &str) -> Result<Self, Misuse> {
        // `parse` alone would accept a plus sign too.
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number: Option<u128> = digits.then(|| text.parse().ok()).flatten();
        let Some(number) = number else {
            return Err(Misuse::FenceNotANumber { text: Escaped(text.as_bytes()).to_string() });
        };
        let fence = u64::try_from(number).ok().and_then(Self::new);
        fence.ok_or(Misuse::FenceOutOfRange { number: i128::try_from(number).unwrap_or(i128::MAX) })
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fence({})", self.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence(number: u64) -> Fence {
        Fence::new(number).unwrap()
    }

    #[test]
    fn the_next_fence_is_above_the_last_and_not_below_the_floor() {
        assert_eq!(Fence::next(None, fence(70)), Some(fence(70)));
        assert_eq!(Fence::next(Some(fence(69)), fence(70)), Some(fence(70)));
        assert_eq!(Fence::next(Some(fence(70)), fence(70)), Some(fence(71)));
        assert_eq!(Fence::next(Some(fence(90)), fence(70)), Some(fence(91)));
    }

    #[test]
    fn a_proposed_fence_replaces_the_clock_within_a_margin() {
        let clock = fence(10_000_000);
        assert_eq!(Fence::floor(None, clock), clock);
        assert_eq!(Fence::floor(Some(fence(9_000_000)), clock), fence(9_000_000));
        assert_eq!(Fence::floor(Some(fence(7)), clock), fence(8_000_000));
        assert_eq!(Fence::floor(Some(Fence::MAX), clock), fence(12_000_000));
        assert_eq!(Fence::floor(Some(Fence::MAX), Fence::MAX), Fence::MAX);
    }

    #[test]
    fn numbers_that_a_double_cannot_hold_are_never_handed_out() {
        assert_eq!(Fence::new(1 << 53), None);
        assert_eq!(Fence::next(Some(Fence::MAX), fence(70)), None);
        assert_eq!(i64::from(Fence::MAX), 9_007_199_254_740_991);
    }

    #[test]
    fn a_fence_is_written_as_its_number_and_read_back() {
        assert_eq!((u64::from(fence(7)), i64::from(fence(7)), fence(7).to_string()), (7, 7, "7".into()));
        for number in [0, 7, Fence::MAX.get()] {
            assert_eq!(fence(number).to_string().parse(), Ok(fence(number)));
            assert_eq!(Fence::try_from(i64::from(fence(number))), Ok(fence(number)));
            assert_eq!(Fence::try_from(number), Ok(fence(number)));
        }
        for text in ["", "+7", "-7", " 7", "7.0", "0x7", "seven"] {
            let read: Result<Fence, _> = text.parse();
            assert!(matches!(read, Err(Misuse::FenceNotANumber { .. })), "{text}: {read:?}");
        }
        let over = 1_u64 << 53;
        assert_eq!(over.to_string().parse::<Fence>(), Err(Misuse::FenceOutOfRange { number: over.into() }));
        assert_eq!(Fence::try_from(over), Err(Misuse::FenceOutOfRange { number: over.into() }));
        assert_eq!(Fence::try_from(-1_i64), Err(Misuse::FenceOutOfRange { number: -1 }));
    }
}
