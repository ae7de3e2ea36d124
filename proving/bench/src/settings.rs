//! The extent of a measurement.

use std::time::Duration;

use crate::backend::{ALL, Backend};

#[derive(Clone, Debug)]
pub struct Settings {
    short: bool,
    backends: Vec<Backend>,
}

impl Settings {
    /// Settings for these backends, or for all; the short form then omits servers that differ little.
    pub fn new(short: bool, named: Vec<Backend>) -> Self {
        let all =
            ALL.into_iter().filter(|backend| !short || !["redis-6.2", "redis-8.2"].contains(&backend.name()));
        let backends = if named.is_empty() { all.collect() } else { named };
        Self { short, backends }
    }

    pub fn backends(&self) -> impl Iterator<Item = Backend> + use<> {
        self.backends.clone().into_iter()
    }

    /// The value for the full form, or the one for the short form.
    pub fn pick<T>(&self, full: T, short: T) -> T {
        if self.short { short } else { full }
    }

    /// How often each measurement is repeated, in turns. Odd, so that the median is one of them.
    pub fn repetitions(&self) -> usize {
        self.pick(7, 3)
    }

    /// The running time of each competitor in one repetition.
    pub fn slice(&self) -> Duration {
        self.pick(Duration::from_millis(250), Duration::from_millis(15))
    }
}
