//! The metrics, through the facade `metrics`. `docs/observing.md` lists their names and meanings.

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

/// The labels contain no key: there may be millions of keys, and each would be a separate time
/// series.
pub(super) fn count(store: &std::sync::Arc<str>, event: &Event) {
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
        Event::MemberDown { fault } => {
            gauge!(MEMBERS_DOWN, "store" => store()).increment(1);
            counter!(FAULTS, "store" => fault.store.clone()).increment(1);
        }
        Event::MemberBack { .. } => gauge!(MEMBERS_DOWN, "store" => store()).decrement(1),
        Event::PushDown { .. } => gauge!(PUSH_DOWN, "store" => store()).set(1),
        Event::PushBack { .. } => gauge!(PUSH_DOWN, "store" => store()).set(0),
        _ => {}
    }
}
