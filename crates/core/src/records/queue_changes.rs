//! What a request changed in the queue of a key.

use std::collections::{BTreeMap, BTreeSet};

use super::Records;
use crate::{Channel, Holder, Key, QueueEntry, Stamp, Ticket, WaitQueue};

/// The differences between two states of a key's queue, for a store that writes only those.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "a store must write every kind of difference")]
pub struct QueueChanges<'a> {
    /// True if the earlier queue is gone as a whole, also the waiters that were not read.
    pub is_forgotten: bool,
    /// The places of waiters that left.
    pub gone: Vec<(Ticket, Holder)>,
    /// Waiters that joined or changed, and their tickets.
    pub new: Vec<(Ticket, &'a QueueEntry)>,
    /// Channels that are no longer unresponsive.
    pub responsive: Vec<&'a Channel>,
    /// Channels that are unresponsive from now on.
    pub unresponsive: Vec<&'a Channel>,
}

impl<'a> QueueChanges<'a> {
    /// The changes of a key's queue. The clock is for a queue that had ended.
    pub fn between(key: &Key, before: &'a Records, after: &'a Records, now: Stamp) -> Self {
        let (mut was, is) = (before.queues.get(key), after.queues.get(key));
        // A queue that has ended is not continued by the next one, so waiters that were not read
        // are removed too.
        let is_forgotten = was.is_some() && (is.is_none() || before.queue(key, now).is_none());
        if is_forgotten {
            was = None;
        }
        let (stood, stand) = (places(was), places(is));
        let gone = stood.keys().filter(|place| !stand.contains_key(place)).copied().collect();
        let is_new = |place, waiter| stood.get(place) != Some(waiter);
        let new = stand.iter().filter(|(place, waiter)| is_new(*place, *waiter));
        let new = new.map(|((ticket, _), waiter)| (*ticket, *waiter)).collect();
        let (silent, is_silent) = (unresponsive(was), unresponsive(is));
        Self {
            is_forgotten,
            gone,
            new,
            responsive: silent.difference(&is_silent).copied().collect(),
            unresponsive: is_silent.difference(&silent).copied().collect(),
        }
    }
}

fn places(queue: Option<&WaitQueue>) -> BTreeMap<(Ticket, Holder), &QueueEntry> {
    let waiters = queue.into_iter().flat_map(WaitQueue::waiters);
    waiters.map(|(ticket, waiter)| ((ticket, waiter.holder), waiter)).collect()
}

fn unresponsive(queue: Option<&WaitQueue>) -> BTreeSet<&Channel> {
    queue.into_iter().flat_map(WaitQueue::unresponsive).collect()
}
