//! A process's knowledge of a node's clock: when that clock is certainly past the not-after of a
//! grant.

use std::time::Duration;

use leasehold_core::{Instant, Stamp};

/// The node's clock showed `stamp` at some moment between `sent` and `heard` on ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) sent: Instant,
    pub(crate) heard: Instant,
    pub(crate) stamp: Stamp,
}

/// The largest drift between two clocks: one part in so many.
const DRIFT: u32 = 1000;

/// Some conversions truncate clock readings to milliseconds.
const ROUNDING: Duration = Duration::from_millis(2);

impl Reading {
    /// The latest time that the node's clock may show now.
    pub(crate) fn latest(&self, now: Instant) -> Stamp {
        let since = now.saturating_since(self.sent);
        self.stamp + since + since / DRIFT
    }

    /// The instant from which the node's clock certainly shows a later time than this.
    pub(crate) fn surely_past(&self, stamp: Stamp) -> Instant {
        let wait = self.stamp.saturating_until(stamp);
        self.heard + wait + wait / (DRIFT / 2) + ROUNDING
    }
}
