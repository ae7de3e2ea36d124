//! The metrics, through the facade `metrics`. `docs/observing.md` lists their names and meanings.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_core::locked;
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

/// What the locks of this process know of their stores. Locks of the same store share its gauges,
/// which show the most that any of these locks knows.
static ALL_KNOWN: Mutex<Vec<Arc<Known>>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Known {
    store: Arc<str>,
    /// The number of stores, of which a quorum has several, at which push is unavailable.
    without_push: AtomicU32,
    /// The number of members of a quorum that are down.
    members_down: AtomicU32,
}

/// The metrics of the locks of one store.
#[derive(Debug)]
pub(super) struct Meter(Arc<Known>);

impl Meter {
    pub(super) fn new(store: &Arc<str>) -> Self {
        let [without_push, members_down] = [0; 2].map(AtomicU32::new);
        let known = Arc::new(Known { store: store.clone(), without_push, members_down });
        locked(&ALL_KNOWN).push(known.clone());
        Self(known)
    }

    pub(super) fn count(&self, event: &Event) {
        let Known { store, without_push, members_down } = &*self.0;
        match event {
            Event::PushDown { .. } => {
                without_push.fetch_add(1, Ordering::Relaxed);
                self.show_push();
            }
            Event::PushBack { .. } => {
                one_less(without_push);
                self.show_push();
            }
            Event::MemberDown { fault } => {
                members_down.fetch_add(1, Ordering::Relaxed);
                self.show_members();
                counter!(FAULTS, "store" => fault.store.clone()).increment(1);
            }
            Event::MemberBack { .. } => {
                one_less(members_down);
                self.show_members();
            }
            event => count(store, event),
        }
    }

    fn show_push(&self) {
        let is_down = self.most(|known| &known.without_push) > 0;
        gauge!(PUSH_DOWN, "store" => self.0.store.clone()).set(f64::from(u8::from(is_down)));
    }

    fn show_members(&self) {
        gauge!(MEMBERS_DOWN, "store" => self.0.store.clone()).set(self.most(|known| &known.members_down));
    }

    fn most(&self, of: impl Fn(&Known) -> &AtomicU32) -> u32 {
        let all = locked(&ALL_KNOWN);
        let known = all.iter().filter(|known| known.store == self.0.store);
        known.map(|known| of(known).load(Ordering::Relaxed)).max().unwrap_or_default()
    }
}

/// What nobody knows any more is not shown.
impl Drop for Meter {
    fn drop(&mut self) {
        locked(&ALL_KNOWN).retain(|known| !Arc::ptr_eq(known, &self.0));
        if self.0.without_push.load(Ordering::Relaxed) > 0 {
            self.show_push();
        }
        if self.0.members_down.load(Ordering::Relaxed) > 0 {
            self.show_members();
        }
    }
}

fn one_less(count: &AtomicU32) {
    let less = |count: u32| Some(count.saturating_sub(1));
    let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
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
