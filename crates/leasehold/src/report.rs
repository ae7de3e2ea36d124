//! The one place that tells what happens: to those who read events, to the log, and to the figures, so that these never disagree.

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

/// How many events a reader may lag behind: what some thousand leases do in a second, at a few hundred kilobytes while somebody
/// reads.
const UNREAD: usize = 1024;

/// Tells what happens at one place. While nobody reads, logs or counts, an event is not even made.
#[derive(Debug)]
pub(crate) struct Report {
    store: Arc<str>,
    /// Made when somebody first reads.
    readers: OnceLock<Sender<Event>>,
    /// How many calls to the store ended in a fault since its last answer.
    faults: AtomicU32,
}

impl Report {
    pub(crate) fn new(store: &str) -> Self {
        Self { store: store.into(), readers: OnceLock::new(), faults: AtomicU32::new(0) }
    }

    /// What happens from now on.
    pub(crate) fn read(&self) -> Events {
        Events::new(self.readers.get_or_init(|| broadcast::channel(UNREAD).0).subscribe())
    }

    /// Something happened. Says whether anybody wanted to know.
    pub(crate) fn tell(&self, event: impl FnOnce() -> Event) -> bool {
        let event = self.tell_readers(event);
        event.iter().for_each(|event| self.log(event));
        event.is_some()
    }

    /// Tells those who read, and nobody else yet: a log may block or ask for our locks, so it is told when none of them is held. What
    /// comes back is to be passed to [`Report::log`] then.
    #[must_use]
    pub(crate) fn tell_readers(&self, event: impl FnOnce() -> Event) -> Option<Event> {
        let readers = self.readers.get().filter(|readers| readers.receiver_count() > 0);
        if readers.is_none() && !meter::IS_THERE && !trace::is_heard() {
            return None;
        }
        let event = event();
        if let Some(readers) = readers {
            // The last reader may have gone just now.
            let _ = readers.send(event.clone());
        }
        Some(event)
    }

    /// Writes the log and the figures.
    pub(crate) fn log(&self, event: &Event) {
        trace::write(&self.store, event);
        meter::count(&self.store, event);
    }

    /// A call to the store has ended so.
    pub(crate) fn answered<T>(&self, answer: &Result<T, Fault>) {
        if let Err(fault) = answer {
            let in_a_row = self.faults.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            self.tell(|| Event::StoreFault { fault: fault.clone(), in_a_row });
        } else if self.faults.load(Ordering::Relaxed) > 0 {
            // Of two answers at a time one finds the faults.
            let faults = self.faults.swap(0, Ordering::Relaxed);
            if faults > 0 {
                self.tell(|| Event::StoreBack { store: self.store.clone(), faults });
            }
        }
    }
}

/// How a request ended, in a word.
pub(crate) const fn outcome(why: Option<&LockError>) -> &'static str {
    match why {
        None => "dropped",
        Some(LockError::TimedOut { .. }) => "timed_out",
        Some(LockError::LineFull { .. }) => "line_full",
        Some(LockError::Unreachable { .. }) => "unreachable",
        Some(LockError::NoQuorum { .. }) => "no_quorum",
        Some(LockError::Refused { .. }) => "refused",
        Some(LockError::NotALock { .. }) => "not_a_lock",
        Some(LockError::FencesSpent { .. }) => "fences_spent",
        Some(LockError::Misuse(_)) => "misuse",
        Some(LockError::Closed { .. }) => "closed",
    }
}

/// Why a lease was lost, in a word.
#[cfg(any(feature = "tracing", feature = "metrics"))]
const fn reason(loss: &Loss) -> &'static str {
    match loss {
        Loss::Expired { .. } => "expired",
        Loss::HeldTooLong { .. } => "held_too_long",
        Loss::TakenByOther { .. } => "taken_by_other",
        Loss::Gone { .. } => "gone",
        Loss::Broken { .. } => "broken",
        Loss::Closed { .. } => "closed",
        _ => "other",
    }
}
