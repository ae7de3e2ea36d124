//! The duration of a lease without renewal, and durations in the URLs of stores.

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use crate::Misuse;

/// How long a lease lasts without renewal, in whole milliseconds; between [`Ttl::MIN`] and
/// [`Ttl::MAX`].
///
/// A live holder renews long before the end, so the TTL is how long a crash keeps others out.
///
/// ```
/// # use leasehold_core::Ttl;
/// # use std::time::Duration;
/// let ttl = Ttl::new(Duration::from_secs(30))?;
/// assert_eq!(ttl, Ttl::DEFAULT);
/// assert_eq!(ttl.duration(), Duration::from_secs(30));
/// # Ok::<(), leasehold_core::Misuse>(())
/// ```
// Never zero, so that an `Option` of it takes no more space: there may be very many.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(NonZeroU64);

impl Ttl {
    /// 10 ms. Below it, the milliseconds of rounding and drift that are subtracted would use up a
    /// large part of the lease.
    pub const MIN: Self = Self::of(10);

    /// 365 days. Longer values come from wrong arithmetic; some servers overflow with them.
    pub const MAX: Self = Self::of(365 * 24 * 60 * 60 * 1000);

    /// 30 s: long enough that nobody loses a lock when a server is stopped or fails over (some
    /// seconds), short enough that others can wait after a crash.
    pub const DEFAULT: Self = Self::of(30_000);

    /// Converts a duration to a TTL; fractions of a millisecond are dropped, so that a lease never
    /// counts as longer than the store, which counts milliseconds, keeps it.
    ///
    /// # Errors
    ///
    /// [`Misuse::TtlTooShort`] and [`Misuse::TtlTooLong`].
    pub fn new(asked: Duration) -> Result<Self, Misuse> {
        if asked > Self::MAX.duration() {
            return Err(Misuse::TtlTooLong { asked });
        }
        let ms = u64::try_from(asked.as_millis()).unwrap_or(u64::MAX);
        if ms < Self::MIN.as_millis() {
            return Err(Misuse::TtlTooShort { asked });
        }
        Ok(Self::of(ms))
    }

    /// The same as a duration.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.as_millis())
    }

    /// The ttl in milliseconds, as stores count.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0.get()
    }

    /// This TTL, or the limit if that is shorter; at least a millisecond.
    #[must_use]
    pub fn up_to(self, limit: Duration) -> Self {
        let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        Self::of(self.as_millis().min(limit))
    }

    /// This many milliseconds, but at least one.
    const fn of(ms: u64) -> Self {
        match NonZeroU64::new(ms) {
            Some(ms) => Self(ms),
            None => Self(NonZeroU64::MIN),
        }
    }
}

impl Default for Ttl {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl TryFrom<Duration> for Ttl {
    type Error = Misuse;

    fn try_from(asked: Duration) -> Result<Self, Misuse> {
        Self::new(asked)
    }
}

impl From<Ttl> for Duration {
    fn from(ttl: Ttl) -> Self {
        ttl.duration()
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.duration())
    }
}

impl fmt::Debug for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ttl({self})")
    }
}

/// How long a server may take to answer about a lease of this TTL, if that is `longest` at most.
///
/// Small compared with the TTL: a quarter of it, so that a renewal can be retried, but at least what
/// a slow network needs.
#[must_use]
pub fn call_limit(longest: Duration, ttl: Ttl) -> Duration {
    longest.min((ttl.duration() / 4).max(Duration::from_millis(50)))
}

/// Reads a whole number with its unit, such as `500ms`, `30s` or `2m`; `None` for anything else.
#[must_use]
pub fn url_duration(text: &str) -> Option<Duration> {
    let units = [("ms", 1_000_000), ("s", 1_000_000_000), ("m", 60_000_000_000)];
    let (number, nanos) = units.iter().find_map(|(unit, nanos)| Some((text.strip_suffix(unit)?, *nanos)))?;
    // An integer's own reader would take a plus sign too.
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = is_number.then(|| number.parse().ok())??;
    number.checked_mul(nanos).map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_whole_milliseconds_and_never_more_than_asked() {
        assert_eq!(Ttl::new(Duration::from_micros(10_999)).unwrap().as_millis(), 10);
        let year = Duration::from_secs(365 * 24 * 60 * 60);
        assert_eq!((Ttl::new(year).unwrap(), Ttl::MAX.duration()), (Ttl::MAX, year));
    }

    #[test]
    fn zero_tiny_and_endless_ttls_are_refused() {
        for asked in [Duration::ZERO, Duration::from_micros(9_999)] {
            assert_eq!(Ttl::new(asked).unwrap_err(), Misuse::TtlTooShort { asked });
        }
        for asked in [Ttl::MAX.duration() + Duration::from_nanos(1), Duration::MAX] {
            assert_eq!(Ttl::new(asked).unwrap_err(), Misuse::TtlTooLong { asked });
        }
    }

    #[test]
    fn a_ttl_is_made_of_a_duration_and_becomes_one_and_says_so_as_one() {
        let ttl = Ttl::try_from(Duration::from_millis(1500)).unwrap();
        assert_eq!(
            (Duration::from(ttl), ttl.to_string(), format!("{ttl:?}")),
            (Duration::from_millis(1500), "1.5s".into(), "Ttl(1.5s)".into())
        );
        assert!(Ttl::try_from(Duration::ZERO).is_err());
    }

    #[test]
    fn a_duration_is_a_whole_number_with_its_unit() {
        let millis = |text| url_duration(text).map(|time| time.as_millis());
        assert_eq!(["5500ms", "90s", "2m", "0s"].map(millis), [5500, 90_000, 120_000, 0].map(Some));
        let [number, nanos] = ["99999999999999999999s", "99999999999999m"];
        for text in ["", "s", "90", "+1s", "-1s", "1.5s", " 1s", "1h", "1S", number, nanos] {
            assert_eq!(millis(text), None, "{text:?}");
        }
    }
}
