//! The metrics, through the facade `metrics`. `docs/observing.md` lists their names and meanings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use metrics::{counter, gauge, histogram};

use super::{outcome, reason};
use crate::event::Event;

pub(super) const IS_THERE: bool = true;

const ACQUIRE: &str = "leasehold_acquire_seconds";
const HOLD: &str = "leasehold_hold_seconds";
const WAITERS: &str = "leasehold_waiters";
const HELD: &str = "leasehold_held";
const RENEWALS: &str = "leasehold_renewals_total";
const LOSSES: &str = "leasehold_losses_total";
const FAULTS: &str = "leasehold_faults_total";
const MEMBERS_DOWN: &str = "leasehold_members_down";
const PUSH_DOWN: &str = "leasehold_push_down";

/// The metrics of one store.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// The number of stores, of which a quorum has several, at which push is unavailable.
    without_push: AtomicU32,
    /// The number of members of a quorum that are down.
    members_down: AtomicU32,
}

impl Meter {
    pub(super) fn count(&self, store: &Arc<str>, event: &Event) {
        match event {
            Event::PushDown { .. } => {
                self.without_push.fetch_add(1, Ordering::Relaxed);
                gauge!(PUSH_DOWN, "store" => store.clone()).set(1);
            }
            Event::PushBack { .. } => {
                let is_down = less_one(&self.without_push) > 0;
                gauge!(PUSH_DOWN, "store" => store.clone()).set(f64::from(u8::from(is_down)));
            }
            // All locks of a store hear of its members, so each sets the same number.
            Event::MemberDown { fault } => {
                let down = self.members_down.fetch_add(1, Ordering::Relaxed) + 1;
                gauge!(MEMBERS_DOWN, "store" => store.clone()).set(down);
                counter!(FAULTS, "store" => fault.store.clone()).increment(1);
            }
            Event::MemberBack { .. } => {
                gauge!(MEMBERS_DOWN, "store" => store.clone()).set(less_one(&self.members_down));
            }
            event => count(store, event),
        }
    }
}

/// Counts one less, and returns the count.
fn less_one(count: &AtomicU32) -> u32 {
    let less = |count: u32| Some(count.saturating_sub(1));
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).unwrap_or(0).saturating_sub(1)
}

/// The labels contain no key: there may be millions of keys, and each would be a separate time
/// series.
fn count(store: &Arc<str>, event: &Event) {
    let store = || store.clone();
    let ended = |held_for: &Duration, end: &'static str| {
        gauge!(HELD, "store" => store()).decrement(1);
        histogram!(HOLD, "store" => store(), "end" => end).record(held_for.as_secs_f64());
    };
    let answered = |waited: &Duration, refusals: u32, outcome: &'static str| {
        if refusals > 0 {
            gauge!(WAITERS, "store" => store()).decrement(1);
        }
        histogram!(ACQUIRE, "store" => store(), "outcome" => outcome).record(waited.as_secs_f64());
    };
    match event {
        Event::Waiting { refusals: 1, .. } => gauge!(WAITERS, "store" => store()).increment(1),
        Event::Acquired { waited, refusals, .. } => {
            gauge!(HELD, "store" => store()).increment(1);
            answered(waited, *refusals, "acquired");
        }
        Event::GaveUp { waited, refusals, why, .. } => answered(waited, *refusals, outcome(why.as_deref())),
        Event::Renewed { .. } => counter!(RENEWALS, "store" => store()).increment(1),
        Event::Released { held_for, .. } => ended(held_for, "released"),
        Event::NotReleased { held_for, .. } => ended(held_for, "not_released"),
        Event::Transferred { held_for, .. } => ended(held_for, "transferred"),
        Event::Lost { held_for, why, .. } => {
            ended(held_for, "lost");
            counter!(LOSSES, "store" => store(), "reason" => reason(why)).increment(1);
        }
        Event::StoreFault { .. } => counter!(FAULTS, "store" => store()).increment(1),
        _ => {}
    }
}
