//! Clocks that run fast or slow, and that can be set.

/// A clock whose rate and offset differ from the world's time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// The world's time, in nanoseconds, when the rate last changed.
    since: u64,
    /// The time that the clock showed then.
    showed: u64,
    /// The number of millionths by which it runs fast.
    fast: i64,
}

const MILLION: i128 = 1_000_000;

impl Clock {
    /// A clock that shows this time when the world begins.
    pub(crate) const fn new(shows: u64, fast: i64) -> Self {
        Self { since: 0, showed: shows, fast }
    }

    /// The time that it shows at a moment of the world.
    pub(crate) fn at(&self, now: u64) -> u64 {
        let passed = i128::from(now.saturating_sub(self.since));
        let shown = i128::from(self.showed) + passed * (MILLION + i128::from(self.fast)) / MILLION;
        u64::try_from(shown).unwrap_or(u64::MAX)
    }

    /// The moment of the world at which it shows this time.
    pub(crate) fn when(&self, shows: u64) -> u64 {
        let ahead = i128::from(shows.saturating_sub(self.showed));
        let rate = MILLION + i128::from(self.fast);
        let when = i128::from(self.since) + (ahead * MILLION + rate - 1) / rate;
        u64::try_from(when).unwrap_or(u64::MAX)
    }

    pub(crate) fn runs(&mut self, now: u64, fast: i64) {
        *self = Self { since: now, showed: self.at(now), fast };
    }

    /// Sets it forward or back by some nanoseconds.
    pub(crate) fn jumps(&mut self, by: i64) {
        self.showed = self.showed.saturating_add_signed(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_set_for_what_a_clock_will_show_never_rings_early_nor_more_than_a_moment_late() {
        for fast in [-500, 0, 1, 499, 80_000, -80_000] {
            let mut clock = Clock::new(1_000_000, fast);
            clock.runs(77_777, fast / 2);
            for shows in [1_100_000, 2_000_003, 123_456_789_012] {
                let when = clock.when(shows);
                assert!(clock.at(when) >= shows && clock.at(when - 2) < shows, "{fast} {shows}");
            }
        }
    }

    #[test]
    fn a_clock_runs_on_from_where_it_was_set() {
        let mut clock = Clock::new(5_000, 0);
        clock.jumps(-2_000);
        assert_eq!(clock.at(1_000), 4_000);
        clock.runs(1_000, 100_000);
        assert_eq!(clock.at(2_000), 5_100);
    }
}
