//! Computes when a lease ends; no other code computes that.

use std::time::Duration;

use crate::{Instant, Misuse, Ttl};

/// How much earlier than the store a holder stops relying on its lease.
///
/// A share of the ttl for clocks that run at different rates, and a constant for rounding.
///
/// ```
/// # use leasehold_core::Drift;
/// # use std::time::Duration;
/// let as_in_redlock = Drift::new(10, Duration::from_millis(2))?; // a hundredth of the TTL, and 2 ms
/// # Ok::<(), leasehold_core::Misuse>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Drift {
    per_thousand: u32,
    /// In nanoseconds, which takes less space than a duration; there may be very many.
    constant: u64,
}

impl Drift {
    /// No drift: the store counts on the holder's own clock, with the same precision.
    pub const NONE: Self = Self { per_thousand: 0, constant: 0 };

    /// The store counts on the holder's own clock, but in microseconds: it may truncate one.
    pub const ON_ONE_CLOCK: Self = Self { per_thousand: 0, constant: 1_000 };

    /// Between two machines.
    ///
    /// A thousandth: the kernel's clock discipline changes a clock's rate by at most 500 parts per
    /// million (RFC 5905, appendix A.1), and there are two clocks. 2 ms: the server truncates its
    /// clock to milliseconds before it adds the TTL, and again when it expires the key.
    pub const BETWEEN_MACHINES: Self = Self { per_thousand: 1, constant: 2_000_000 };

    /// A share of the TTL, in thousandths, and a constant. [`Drift::BETWEEN_MACHINES`] derives the
    /// defaults; use a greater share where clocks are not disciplined, as in some virtual machines.
    ///
    /// # Errors
    ///
    /// [`Misuse::Drift`] if it takes more than half of every TTL.
    pub const fn new(per_thousand: u32, constant: Duration) -> Result<Self, Misuse> {
        if per_thousand > 500 {
            Err(Misuse::Drift { per_thousand })
        } else {
            let nanos = constant.as_secs().saturating_mul(1_000_000_000);
            let constant = nanos.saturating_add(constant.subsec_nanos() as u64);
            Ok(Self { per_thousand, constant })
        }
    }

    /// The drift that suffices for both: a lease that several stores keep lasts as long as the most
    /// careful one allows.
    #[must_use]
    pub fn widest(self, other: Self) -> Self {
        let per_thousand = self.per_thousand.max(other.per_thousand);
        Self { per_thousand, constant: self.constant.max(other.constant) }
    }

    /// Checks that some of this TTL remains; otherwise no answer could come in time.
    ///
    /// # Errors
    ///
    /// [`Misuse::Drift`] if the drift takes all of it.
    pub fn admit(self, ttl: Ttl) -> Result<(), Misuse> {
        if self.of(ttl) < ttl.duration() { Ok(()) } else { Err(Misuse::Drift { per_thousand: 1000 }) }
    }

    /// The time to subtract from a TTL.
    fn of(self, ttl: Ttl) -> Duration {
        ttl.duration() / 1000 * self.per_thousand + Duration::from_nanos(self.constant)
    }
}

/// The time for which a holder may rely on its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    end: Instant,
}

impl Lease {
    /// The lease from a request that was sent at `sent`. The store counted the TTL from when it
    /// received the request, so counting from before it was sent can only err on the safe side.
    #[must_use]
    pub fn counted_from(sent: Instant, ttl: Ttl, drift: Drift) -> Self {
        Self { end: sent + ttl.duration().saturating_sub(drift.of(ttl)) }
    }

    /// When the request was sent from which this lease of `ttl` was counted.
    pub(crate) fn sent(self, ttl: Ttl, drift: Drift) -> Instant {
        self.end + drift.of(ttl) - ttl.duration()
    }

    /// The same lease, but ending at `limit` at the latest.
    #[must_use]
    pub fn ending_by(self, limit: Instant) -> Self {
        Self { end: self.end.min(limit) }
    }

    /// The first instant at which the lease has ended.
    #[must_use]
    pub const fn end(self) -> Instant {
        self.end
    }

    /// Returns true while the lease lasts.
    #[must_use]
    pub fn is_held(self, now: Instant) -> bool {
        now < self.end
    }

    /// The time that is left.
    #[must_use]
    pub fn remaining(self, now: Instant) -> Duration {
        self.end.saturating_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: Instant = Instant::from_nanos(5_000_000_000);

    #[test]
    fn a_lease_ends_a_little_before_the_ttl_counted_from_the_sending() {
        let ttl = Ttl::new(Duration::from_secs(10)).unwrap();
        let lease = Lease::counted_from(SENT, ttl, Drift::BETWEEN_MACHINES);
        assert_eq!(lease.end(), SENT + Duration::from_millis(10_000 - 10 - 2));
        assert_eq!(Lease::counted_from(SENT, ttl, Drift::NONE).end(), SENT + Duration::from_secs(10));
    }

    #[test]
    fn the_widest_of_two_drifts_takes_the_more_of_each() {
        let share = Drift::new(5, Duration::ZERO).unwrap();
        let both = share.widest(Drift::BETWEEN_MACHINES);
        assert_eq!(both, Drift::new(5, Duration::from_millis(2)).unwrap());
        assert_eq!(both, Drift::BETWEEN_MACHINES.widest(share));
        assert_eq!(Drift::new(501, Duration::ZERO), Err(Misuse::Drift { per_thousand: 501 }));
    }

    #[test]
    fn a_lease_is_no_longer_held_at_its_end() {
        let lease = Lease::counted_from(SENT, Ttl::MIN, Drift::NONE);
        assert!(lease.is_held(lease.end() - Duration::from_nanos(1)));
        assert!(!lease.is_held(lease.end()));
        assert_eq!(lease.remaining(lease.end() + Duration::from_secs(1)), Duration::ZERO);
        assert_eq!(lease.remaining(SENT), Ttl::MIN.duration());
    }

    #[test]
    fn even_the_shortest_ttl_leaves_a_lease() {
        let lease = Lease::counted_from(SENT, Ttl::MIN, Drift::BETWEEN_MACHINES);
        assert!(lease.is_held(SENT + Duration::from_millis(7)));
    }
}
