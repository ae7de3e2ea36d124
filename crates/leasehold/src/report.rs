//! The only place that reports events: to readers of events, to the log and to the metrics, so that
//! these never disagree.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use leasehold_core::Fault;
#[cfg(any(feature = "tracing", feature = "metrics"))]
use leasehold_core::Loss;
use tokio::sync::broadcast::{self, Sender};

use crate::error::LockError;
use crate::event::Event;
use crate::events::Events;

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
    /// The number of calls to the store that ended in a fault since its last answer.
    faults: AtomicU32,
}

impl Report {
    pub(crate) fn new(store: &str) -> Self {
        Self { store: store.into(), readers: OnceLock::new(), faults: AtomicU32::new(0) }
    }

    /// A reader of all events from now on.
    pub(crate) fn read(&self) -> Events {
        Events::new(self.readers.get_or_init(|| broadcast::channel(UNREAD).0).subscribe())
    }

    /// Reports an event. Returns true if there is a reader.
    pub(crate) fn tell(&self, event: impl FnOnce() -> Event) -> bool {
        let event = self.tell_readers(event);
        event.iter().for_each(|event| self.log(event));
        event.is_some()
    }

    /// Reports to the readers only: a logger may block or call our locks, so the log is written
    /// when none of our mutexes is held. The caller then passes the returned event to
    /// [`Report::log`].
    #[must_use]
    pub(crate) fn tell_readers(&self, event: impl FnOnce() -> Event) -> Option<Event> {
        let readers = self.readers.get().filter(|readers| readers.receiver_count() > 0);
        if readers.is_none() && !meter::IS_THERE && !trace::is_heard() {
            return None;
        }
        let event = event();
        if let Some(readers) = readers {
            // The last reader may just have gone.
            let _ = readers.send(event.clone());
        }
        Some(event)
    }

    /// Writes the log and the metrics.
    pub(crate) fn log(&self, event: &Event) {
        trace::write(&self.store, event);
        meter::count(&self.store, event);
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
