//! Reading what happens.

use super::wait;
use crate::Event;

/// What happens to the locks of a process, as [`leasehold::Events`](crate::Events): from [`Locks::events`](super::Locks::events). As an
/// iterator it blocks for each event, and ends when the locks and all their guards are gone.
#[derive(Debug)]
pub struct Events(pub(super) crate::Events);

impl Events {
    /// Blocks until something happens; `None` when there is nothing to come.
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
