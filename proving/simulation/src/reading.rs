//! A process's knowledge of a node's clock: when that is certainly past the not-after of a grant.

use std::time::Duration;

use leasehold_core::{Instant, Stamp};

/// The node's clock showed `stamp` at some moment between `sent` and `heard` on ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) sent: Instant,
    pub(crate) heard: Instant,
    pub(crate) stamp: Stamp,
}

/// What two clocks may drift apart, as a part of the time that passes: one in so many.
const DRIFT: u32 = 1000;

/// Clocks are cut to milliseconds in places.
const ROUNDING: Duration = Duration::from_millis(2);

impl Reading {
    /// The most that the node's clock can show now.
    pub(crate) fn latest(&self, now: Instant) -> Stamp {
        let since = now.saturating_since(self.sent);
        self.stamp + since + since / DRIFT
    }

    /// When it surely shows more than this.
    pub(crate) fn surely_past(&self, stamp: Stamp) -> Instant {
        let wait = self.stamp.saturating_until(stamp);
        self.heard + wait + wait / (DRIFT / 2) + ROUNDING
    }
}
