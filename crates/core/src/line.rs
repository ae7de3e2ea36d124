//! The waiters of a key, in order.

use std::collections::{BTreeMap, HashMap};

use crate::{Holder, Stamp};

/// A place in a line for good: whoever has the smaller ticket came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// The waiters of a key, in order of joining.
///
/// Joining, leaving and looking up cost O(log n). A waiter that joins again keeps its ticket.
#[derive(Clone, Debug, Default)]
pub struct Line {
    waiters: BTreeMap<Ticket, Holder>,
    tickets: HashMap<Holder, Ticket>,
    last: Option<Ticket>,
}

impl Line {
    /// Puts a waiter at the end of the line, or leaves it where it stands already.
    ///
    /// Tickets count microseconds of the store's clock, and one more than the last where that stands still or steps back:
    /// so they also rise when the line was lost in between.
    pub fn join(&mut self, holder: Holder, now: Stamp) -> Ticket {
        if let Some(ticket) = self.tickets.get(&holder) {
            return *ticket;
        }
        let above = self.last.map_or(0, |last| last.0 + 1);
        let ticket = Ticket(above.max(now.as_micros()));
        self.last = Some(ticket);
        self.waiters.insert(ticket, holder);
        self.tickets.insert(holder, ticket);
        ticket
    }

    /// Takes a waiter out; says whether it stood there.
    pub fn leave(&mut self, holder: Holder) -> bool {
        self.tickets.remove(&holder).is_some_and(|ticket| self.waiters.remove(&ticket).is_some())
    }

    /// Who is first.
    #[must_use]
    pub fn head(&self) -> Option<Holder> {
        self.waiters.first_key_value().map(|(_, holder)| *holder)
    }

    /// How many stand in line.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn holder(n: u8) -> Holder {
        Holder::from_bits(n.into())
    }

    #[test]
    fn joining_again_keeps_the_place() {
        let mut line = Line::default();
        let first = line.join(holder(1), Stamp::from_micros(50));
        line.join(holder(2), Stamp::from_micros(60));
        assert_eq!(line.join(holder(1), Stamp::from_micros(70)), first);
        assert_eq!((line.head(), line.len()), (Some(holder(1)), 2));
    }

    #[test]
    fn a_clock_that_steps_back_puts_nobody_before_others() {
        let mut line = Line::default();
        line.join(holder(1), Stamp::from_micros(50));
        line.join(holder(2), Stamp::from_micros(10));
        assert_eq!(line.head(), Some(holder(1)));
    }

    proptest! {
        /// Against the plainest line there is: a vector.
        #[test]
        fn a_line_is_first_come_first_served(steps in prop::collection::vec((any::<bool>(), 0..6u8, 0..9u64), 0..60)) {
            let (mut line, mut plain) = (Line::default(), Vec::new());
            for (joins, who, at) in steps {
                let who = holder(who);
                if joins {
                    line.join(who, Stamp::from_micros(at));
                    if !plain.contains(&who) {
                        plain.push(who);
                    }
                } else {
                    let stood = plain.contains(&who);
                    plain.retain(|other| *other != who);
                    prop_assert_eq!(line.leave(who), stood);
                }
                prop_assert_eq!(line.head(), plain.first().copied());
                prop_assert_eq!(line.len(), plain.len());
            }
        }
    }
}
