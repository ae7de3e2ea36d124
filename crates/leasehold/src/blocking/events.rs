//! Events of the locks, for callers that block.

use super::wait;
use crate::Event;

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
