//! Readings of the server's clock by this process. They only tell which of two moments came first.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use leasehold_core::{Instant, Stamp, locked};

/// When the server's clock was read, and its value.
///
/// A lease that was granted at some time of the server's clock ends when that clock has advanced by
/// the lease's length. So from any reading of an earlier time, the lease lasts at least for its
/// length, whatever steps that clock made before. The last such reading gives the best bound. The
/// rates of clocks and the delays of messages do not matter.
#[derive(Debug, Default)]
pub(crate) struct Readings(Mutex<OfOneServer>);

/// The connection of the requests tells which server is read. Another one has another clock.
#[derive(Debug, Default)]
struct OfOneServer {
    session: u64,
    readings: VecDeque<(Instant, Stamp)>,
}

/// No lease that is handed over lasts longer without being renewed.
const KEPT_FOR: Duration = Duration::from_secs(4);

/// Readings at shorter intervals add little.
const APART: Duration = Duration::from_millis(5);

impl Readings {
    /// Begins anew, because the connection of the requests may lead to another server now. Returns the
    /// number of the new session.
    pub(crate) fn begin_session(&self) -> u64 {
        let mut of = locked(&self.0);
        of.session += 1;
        of.readings.clear();
        of.session
    }

    /// The number of the session whose readings count.
    pub(crate) fn session(&self) -> u64 {
        locked(&self.0).session
    }

    /// Notes that the server was asked at this instant, and its clock showed this time. Returns false
    /// if a newer session than this one has begun: then the server may be another one.
    pub(crate) fn note(&self, session: u64, asked: Instant, said: Stamp) -> bool {
        let mut of = locked(&self.0);
        if of.session != session {
            return false;
        }
        if of.readings.back().is_none_or(|(last, _)| *last + APART <= asked) {
            of.readings.push_back((asked, said));
        }
        while of.readings.front().is_some_and(|(first, _)| *first + KEPT_FOR < asked) {
            of.readings.pop_front();
        }
        true
    }

    /// An instant from which a lease that was granted at this time of the server's clock certainly
    /// lasts for its length.
    pub(crate) fn before(&self, granted: Stamp) -> Option<Instant> {
        let of = locked(&self.0);
        of.readings.iter().rev().find(|(_, said)| *said <= granted).map(|(asked, _)| *asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    const fn said(ms: u64) -> Stamp {
        Stamp::from_micros(ms * 1000)
    }

    #[test]
    fn a_lease_began_after_the_last_reading_before_it() {
        let readings = Readings::default();
        assert_eq!(readings.before(said(9_999)), None);
        readings.note(0, at(10), said(7_000));
        readings.note(0, at(12), said(7_002));
        readings.note(0, at(500), said(7_490));
        assert_eq!(readings.before(said(6_999)), None, "nothing is known of before");
        assert_eq!(readings.before(said(7_489)), Some(at(10)));
        assert_eq!(readings.before(said(7_490)), Some(at(500)));
        readings.note(0, at(4_600), said(11_590));
        assert_eq!(readings.before(said(7_490)), None, "too long ago to matter");
    }

    /// After a clock was set back, earlier events seem to have come later.
    #[test]
    fn a_clock_that_steps_back_makes_no_lease_longer() {
        let readings = Readings::default();
        readings.note(0, at(100), said(50_000));
        readings.note(0, at(200), said(40_100));
        // It ends when the clock says 40 150 and its length, which is that length after instant
        // 250.
        assert_eq!(readings.before(said(40_150)), Some(at(200)));
    }

    /// Otherwise an earlier event on one clock could count from a later reading of the other.
    #[test]
    fn the_clocks_of_two_servers_are_kept_apart() {
        let readings = Readings::default();
        let old = readings.session();
        assert!(readings.note(old, at(10), said(7_000)));
        let new = readings.begin_session();
        assert_eq!(readings.before(said(7_001)), None);
        assert!(!readings.note(old, at(20), said(7_010)));
        assert_eq!(readings.before(said(7_020)), None);
        assert!(readings.note(new, at(30), said(9_000)));
        assert_eq!(readings.before(said(9_000)), Some(at(30)));
    }
}
