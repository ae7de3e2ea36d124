//! Grants that were sent and not answered, as a store over a network must remember them.
//!
//! The essentials of what the Redis store does: a release on the connection of a grant comes after it; on another connection it
//! must come again once the node's clock is surely past the grant's not-after.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::{Holder, Instant, Stamp};

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

#[derive(Debug, Default)]
pub(crate) struct Unsettled(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    pending: BTreeMap<(Holder, u64), Pending>,
    last_number: u64,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    connection: u64,
    settles_at: Instant,
}

impl Unsettled {
    /// A grant is about to be sent; gives it its name.
    pub(crate) fn sending(&self, holder: Holder, connection: u64, settles_at: Instant) -> (Holder, u64) {
        let mut table = self.table();
        table.last_number += 1;
        let name = (holder, table.last_number);
        table.pending.insert(name, Pending { connection, settles_at });
        name
    }

    /// It was answered: it is over.
    pub(crate) fn answered(&self, name: (Holder, u64)) {
        self.table().pending.remove(&name);
    }

    /// A release is about to be sent: what was sent before it comes before it, on the same connection.
    pub(crate) fn releasing(&self) -> u64 {
        self.table().last_number
    }

    /// That release was answered: says when it must be sent again, if it must.
    pub(crate) fn released(
        &self,
        holder: Holder,
        connection: u64,
        sent: Instant,
        before: u64,
    ) -> Option<Instant> {
        let pending = &mut self.table().pending;
        pending.retain(|(of, number), grant| {
            let comes_before = grant.connection == connection && *number <= before;
            *of != holder || !(grant.settles_at <= sent || comes_before)
        });
        pending.range((holder, 0)..=(holder, u64::MAX)).map(|(_, grant)| grant.settles_at).max()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
