//! A continuous watch of all locks of a store, for callers that block.

use super::wait;
use crate::{Event, InspectError, Key, Progress, Snapshot};

/// A continuous watch of all locks of a store, as [`leasehold::Watch`](crate::Watch): from
/// [`Locks::watch`](super::Locks::watch).
#[derive(Debug)]
pub struct Watch(pub(super) crate::Watch);

impl Watch {
    /// Takes one step: continues the scan for locks, or refreshes those that are known. Blocks
    /// until the step is due, for at most a second, and for the answer.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses. Known locks stay known; the next
    /// step waits for a second and asks again.
    pub fn step(&mut self) -> Result<(), InspectError> {
        wait(self.0.step())
    }

    /// The locks found so far that are held or waited for, in byte order.
    pub fn found(&self) -> impl Iterator<Item = Snapshot> + '_ {
        self.0.found()
    }

    /// The progress of the scan.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.0.progress()
    }

    /// Refreshes this lock before the others.
    pub fn choose(&mut self, key: Option<Key>) {
        self.0.choose(key);
    }

    /// Refreshes this lock next, whatever is known of it, because it may just have been changed.
    pub fn look_again(&mut self, key: Key) {
        self.0.look_again(key);
    }
}

/// The events of a process's locks, as [`leasehold::Events`](crate::Events): from
/// [`Locks::events`](super::Locks::events). As an iterator it blocks for each event, and ends once
/// the locks and all their guards are gone.
///
/// ```
/// let locks = leasehold::blocking::Locks::in_memory()?;
/// let events = locks.events();
/// locks.mutex("invoice:42").lock().wait()?.release()?;
/// drop(locks); // so that the events end
/// for event in events {
///     println!("{event:?}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Events(pub(super) crate::Events);

impl Events {
    /// Blocks until the next event; `None` once no more can come.
    pub fn wait_next(&mut self) -> Option<Event> {
        wait(self.0.next())
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.wait_next()
    }
}
