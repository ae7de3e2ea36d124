//! One use of a lock: requested, perhaps given up, held, released, and recorded throughout.

use std::{future::poll_fn, pin::pin, process, sync::Arc, task::Poll, time::Duration};

use leasehold::{Acquire, Guard, ReleaseError};
use rand::{RngExt as _, rngs::StdRng};
use tokio::time::{sleep, timeout};

use crate::{
    Plan,
    history::{EventKind, HistoryWriter, now},
};

/// The time between two checks of the lease during a long hold.
const LOOK: Duration = Duration::from_millis(20);

/// Records what one task of this process does and believes.
#[derive(Clone, Debug)]
pub(crate) struct TaskHistory {
    pub(crate) writer: Arc<HistoryWriter>,
    pub(crate) task: u32,
}

impl TaskHistory {
    pub(crate) fn note(&self, what: EventKind) {
        self.note_at(now(), what);
    }

    pub(crate) fn stands(&self, request: Acquire) -> Acquire {
        let task_history = self.clone();
        request.on_wait(move |waiting| {
            if waiting.place.is_some() {
                task_history.note(EventKind::Stands);
            }
        })
    }

    /// Holds the lock as long as the plan says, and releases or drops the guard.
    pub(crate) async fn has(&self, guard: Guard, plan: &Plan, dice: &mut StdRng) {
        let time = if chance(dice, plan.long_percent) { plan.long_hold } else { plan.hold };
        self.holds(&guard, time).await;
        let dropped = chance(dice, plan.dropped_percent);
        self.lets_go(guard, dropped).await;
    }

    /// Holds the lock for this long, or until it is lost.
    pub(crate) async fn holds(&self, guard: &Guard, mut left: Duration) {
        let mut until = believed(guard);
        self.note(EventKind::Granted { fence: guard.fence().get(), until });
        while !left.is_zero() && guard.is_held() {
            let nap = left.min(LOOK);
            sleep(nap).await;
            left -= nap;
            let longer = believed(guard);
            // Values may differ by microseconds; an ended lease's end is computed from now.
            if longer > until + 1_000_000 && guard.is_held() {
                until = longer;
                self.note(EventKind::Renewed { until });
            }
        }
    }

    /// Releases the guard, or drops it without a release.
    pub(crate) async fn lets_go(&self, guard: Guard, dropped: bool) {
        let at = now();
        let held = guard.is_held();
        self.note_at(at, EventKind::LetsGo { held });
        if dropped {
            return drop(guard);
        }
        match guard.release().await {
            Ok(_) => self.note(EventKind::Released),
            Err(ReleaseError::Unreachable(fault)) => self.note(EventKind::Unconfirmed(fault.to_string())),
            Err(error) => self.note(EventKind::Lost(error.to_string())),
        }
    }

    fn note_at(&self, at: u64, what: EventKind) {
        self.writer.note(at, process::id(), self.task, what);
    }
}

/// True this many times in a hundred.
pub(crate) fn chance(dice: &mut StdRng, percent: u32) -> bool {
    dice.random_range(0..100) < percent
}

/// Waits for an answer, but sometimes drops the request at some await, and is `None` then.
pub(crate) async fn unless_dropped<T>(
    request: impl Future<Output = T>,
    plan: &Plan,
    dice: &mut StdRng,
) -> Option<T> {
    if !chance(dice, plan.dropped_percent) {
        return Some(request.await);
    }
    // The first polls leave it at different awaits; later ones are wake-ups.
    let polls = dice.random_range(1..=6);
    let patience = Duration::from_micros(dice.random_range(0..200_000));
    let mut request = pin!(request);
    let mut polled = 0;
    let some_polls = poll_fn(|context| {
        polled += 1;
        match request.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending if polled >= polls => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    timeout(patience, some_polls).await.ok().flatten()
}

/// The time until which a guard is considered valid, and possibly a moment longer.
fn believed(guard: &Guard) -> u64 {
    let now = now();
    now + u64::try_from(guard.remaining().as_nanos()).unwrap_or(0)
}
