//! The server's clock, as precisely as it can be known over a network.

use std::sync::Mutex;
use std::time::Duration;

use crate::{Instant, Stamp, locked};

/// The server's clock showed `server` at some moment between `sent` and `heard` on our clock.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a reading has these three times and no more")]
pub struct Reading {
    /// Before the server was asked.
    pub sent: Instant,
    /// After it answered.
    pub heard: Instant,
    /// The time that it gave.
    pub server: Stamp,
}

/// How far two clocks may drift apart: the kernel changes a clock's rate by at most 500 parts per
/// million, and there are two.
const DRIFT: u32 = 1000;

/// Servers truncate the time of a script to milliseconds in places, and so do timers.
const ROUNDING: Duration = Duration::from_millis(2);

impl Reading {
    /// The latest time that the server's clock can show at this instant.
    #[must_use]
    pub fn latest(&self, at: Instant) -> Stamp {
        let since = at.saturating_since(self.sent);
        self.server + since + since / DRIFT
    }

    /// The earliest time that it can show.
    fn earliest(&self, at: Instant) -> Stamp {
        let since = at.saturating_since(self.heard);
        self.server + (since - since / DRIFT)
    }

    /// An instant at which it certainly shows more than this.
    #[must_use]
    pub fn surely_past(&self, stamp: Stamp) -> Instant {
        let wait = self.server.saturating_until(stamp);
        // Twice the drift, because the wait is measured on the slower clock.
        self.heard + wait + wait / (DRIFT / 2) + ROUNDING
    }

    /// The difference between the latest and the earliest time.
    #[must_use]
    pub fn doubt(&self, at: Instant) -> Duration {
        self.heard.saturating_since(self.sent) + at.saturating_since(self.heard) / (DRIFT / 2)
    }
}

/// The best reading so far of one server's clock.
#[derive(Debug, Default)]
pub struct ServerClock(Mutex<Option<Reading>>);

impl ServerClock {
    /// A clock of which this reading is known.
    #[must_use]
    pub fn read(reading: Reading) -> Self {
        Self(Mutex::new(Some(reading)))
    }

    /// That reading, if there is one.
    #[must_use]
    pub fn reading(&self) -> Option<Reading> {
        *locked(&self.0)
    }

    /// Keeps a reading that is more precise than the last one, or shows that the clock was set.
    pub fn note(&self, new: Reading) {
        let mut kept = locked(&self.0);
        let takes = kept.is_none_or(|old| {
            let was_set = new.server > old.latest(new.heard) + ROUNDING
                || new.server + ROUNDING < old.earliest(new.sent);
            was_set || new.doubt(new.heard) <= old.doubt(new.heard)
        });
        if takes {
            *kept = Some(new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(1_000_000_000_000 + ms * 1_000_000)
    }

    fn stamp(ms: u64) -> Stamp {
        Stamp::from_micros(1_700_000_000_000_000 + ms * 1000)
    }

    const fn reading(sent: Instant, heard: Instant, server: Stamp) -> Reading {
        Reading { sent, heard, server }
    }

    #[test]
    fn the_servers_clock_lies_between_the_earliest_and_the_latest() {
        let reading = reading(at(0), at(10), stamp(500));
        assert_eq!(reading.latest(at(1000)), stamp(1501));
        assert!(reading.earliest(at(1010)) <= stamp(1500) && reading.earliest(at(1010)) > stamp(1498));
        assert_eq!(reading.surely_past(stamp(1500)), at(10 + 1000 + 2 + 2));
        assert_eq!(reading.surely_past(stamp(0)), at(12));
    }

    #[test]
    fn a_sharper_reading_replaces_a_dull_one_and_an_old_one_goes_dull() {
        let clock = ServerClock::read(reading(at(0), at(1), stamp(0)));
        let dull = |ms| reading(at(ms), at(ms + 50), stamp(ms + 25));
        clock.note(dull(1000));
        assert_eq!(clock.reading().unwrap().server, stamp(0));
        clock.note(dull(60_000));
        assert_eq!(clock.reading().unwrap().server, stamp(60_025));
    }

    #[test]
    fn a_clock_that_was_set_is_measured_again_at_once() {
        for server in [stamp(9_000_000), Stamp::from_micros(1)] {
            let clock = ServerClock::read(reading(at(0), at(1), stamp(0)));
            clock.note(reading(at(100), at(300), server));
            assert_eq!(clock.reading().unwrap().server, server);
        }
    }
}
