//! The extent of a measurement.

use std::time::Duration;

use crate::venue::{ALL, Venue};

/// How much is measured, and at which venues.
#[derive(Clone, Debug)]
pub struct Settings {
    short: bool,
    venues: Vec<Venue>,
}

impl Settings {
    /// Settings for these venues, or for all if none is named; the short form then leaves out
    /// servers that differ little from another.
    #[must_use]
    pub fn new(short: bool, named: Vec<Venue>) -> Self {
        let all =
            ALL.into_iter().filter(|venue| !short || !["redis-6.2", "redis-8.2"].contains(&venue.name()));
        let venues = if named.is_empty() { all.collect() } else { named };
        Self { short, venues }
    }

    /// The venues.
    pub fn venues(&self) -> impl Iterator<Item = Venue> + use<> {
        self.venues.clone().into_iter()
    }

    /// The value for the full form, or the one for the short form.
    #[must_use]
    pub fn pick<T>(&self, full: T, short: T) -> T {
        if self.short { short } else { full }
    }

    /// How often each measurement is repeated, alternating with those it is compared with. Odd, so
    /// that the median is one of them.
    #[must_use]
    pub fn repetitions(&self) -> usize {
        self.pick(7, 3)
    }

    /// The running time of each competitor in one repetition.
    #[must_use]
    pub fn slice(&self) -> Duration {
        self.pick(Duration::from_millis(250), Duration::from_millis(15))
    }
}
