//! The only place that reports events: to their readers, the log and the metrics, which so agree.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

#[cfg(any(feature = "tracing", feature = "metrics"))]
use leasehold_core::Loss;
use leasehold_core::{Fault, locked};
use tokio::sync::broadcast::{self, Sender};

use crate::error::LockError;
use crate::event::{Event, Events};

#[cfg(feature = "metrics")]
mod meter;
#[cfg(not(feature = "metrics"))]
#[path = "report/no_meter.rs"]
mod meter;
#[cfg(feature = "tracing")]
mod trace;
#[cfg(not(feature = "tracing"))]
#[path = "report/no_trace.rs"]
mod trace;

pub(crate) use trace::Span;

/// How many events a reader may lag behind: the events of some thousand leases in a second, which
/// take a few hundred kilobytes while there is a reader.
const UNREAD: usize = 1024;

/// Reports the events of one store. Without readers, logs or metrics, an event is not even created.
#[derive(Debug)]
pub(crate) struct Report {
    store: Arc<str>,
    /// Created for the first reader.
    readers: OnceLock<Sender<Event>>,
    outbox: Mutex<Outbox>,
    meter: meter::Meter,
    /// The number of calls to the store that ended in a fault since its last answer.
    faults: AtomicU32,
}

/// Events on their way to the readers, in order.
#[derive(Debug, Default)]
struct Outbox {
    events: VecDeque<Event>,
    /// Somebody sends them already, and goes on until there are none.
    is_being_sent: bool,
}

impl Report {
    pub(crate) fn new(store: &str) -> Self {
        let store = store.into();
        Self {
            meter: meter::Meter::new(&store),
            store,
            readers: OnceLock::new(),
            outbox: Mutex::default(),
            faults: AtomicU32::new(0),
        }
    }

    /// A reader of all events from now on.
    pub(crate) fn read(&self) -> Events {
        Events::new(self.readers.get_or_init(|| broadcast::channel(UNREAD).0).subscribe())
    }

    /// Reports an event. Returns true if there is a reader.
    pub(crate) fn tell(&self, event: impl FnOnce() -> Event) -> bool {
        let event = self.enter(event);
        self.publish(event.as_slice());
        event.is_some()
    }

    /// Makes an event whose place in the order of events is now. When none of our mutexes is locked,
    /// the caller passes it to [`Report::publish`]: a logger may block, and whoever is woken, or logs,
    /// may call our locks.
    #[must_use]
    pub(crate) fn enter(&self, event: impl FnOnce() -> Event) -> Option<Event> {
        let is_read = self.readers.get().is_some_and(|readers| readers.receiver_count() > 0);
        if !is_read && !meter::IS_THERE && !trace::is_heard() {
            return None;
        }
        let event = event();
        if is_read {
            locked(&self.outbox).events.push_back(event.clone());
        }
        Some(event)
    }

    /// Sends what was entered to the readers, and writes these events to the log and the metrics.
    pub(crate) fn publish(&self, events: &[Event]) {
        if !events.is_empty() {
            self.send();
        }
        for event in events {
            told(|| {
                self.meter.count(event);
                trace::write(&self.store, event);
            });
        }
    }

    fn send(&self) {
        let Some(readers) = self.readers.get() else { return };
        if std::mem::replace(&mut locked(&self.outbox).is_being_sent, true) {
            return;
        }
        while let Some(event) = self.next_to_send() {
            // The last reader may just have gone.
            told(|| drop(readers.send(event)));
        }
    }

    fn next_to_send(&self) -> Option<Event> {
        let mut outbox = locked(&self.outbox);
        let event = outbox.events.pop_front();
        outbox.is_being_sent = event.is_some();
        event
    }

    /// Notes how a call to the store has ended.
    pub(crate) fn answered<T>(&self, answer: &Result<T, Fault>) {
        if let Err(fault) = answer {
            let in_a_row = self.faults.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            self.tell(|| Event::StoreFault { fault: fault.clone(), in_a_row });
        } else if self.faults.load(Ordering::Relaxed) > 0 {
            // If two answers come at once, only one finds the number of faults.
            let faults = self.faults.swap(0, Ordering::Relaxed);
            if faults > 0 {
                self.tell(|| Event::StoreBack { store: self.store.clone(), faults });
            }
        }
    }
}

/// Calls code of the program's own: a reader's waker, a subscriber, a recorder. If it panics, the
/// others are told all the same, and no lock is affected.
fn told(tell: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(tell));
}

/// The outcome of a request, in one word.
pub(crate) const fn outcome(why: Option<&LockError>) -> &'static str {
    match why {
        None => "dropped",
        Some(LockError::TimedOut { .. }) => "timed_out",
        Some(LockError::QueueFull { .. }) => "queue_full",
        Some(LockError::Unreachable { .. }) => "unreachable",
        Some(LockError::NoQuorum { .. }) => "no_quorum",
        Some(LockError::Refused { .. }) => "refused",
        Some(LockError::NotALock { .. }) => "not_a_lock",
        Some(LockError::FencesSpent { .. }) => "fences_spent",
        Some(LockError::Misuse(_)) => "misuse",
        Some(LockError::Closed { .. }) => "closed",
    }
}

/// The reason of a loss, in one word.
#[cfg(any(feature = "tracing", feature = "metrics"))]
const fn reason(loss: &Loss) -> &'static str {
    match loss {
        Loss::Expired { .. } => "expired",
        Loss::HeldTooLong { .. } => "held_too_long",
        Loss::TakenByOther { .. } => "taken_by_other",
        Loss::Gone { .. } => "gone",
        Loss::Broken { .. } => "broken",
        Loss::Transferred => "transferred",
        Loss::Closed { .. } => "closed",
        _ => "other",
    }
}
