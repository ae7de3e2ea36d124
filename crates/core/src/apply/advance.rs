//! Handing a free key over to the waiter that has waited longest.

use super::{ApplyContext, Serving};
use crate::{
    Content, Fence, Holder, Key, Lock, Push, PushEvent, QueueEntry, Records, Served, Share, WaitQueue, Want,
};

/// Hands over each of these keys that is free and has waiters.
pub fn advance(records: &mut Records, keys: &[Key], context: &ApplyContext<'_>) -> Served<()> {
    let mut serving = Serving::new(records, context);
    for key in keys {
        serving.records.settle(key, None, context.now);
        serving.advance(key, None);
    }
    serving.served(())
}

/// The waiter that is granted the key next, if the key is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextGrantee {
    /// Nobody waits: the next request that fits gets the key.
    Anyone,
    /// The requester is first, fits, and has just been removed from the queue.
    Requester,
    /// Others hold the key or are before the requester.
    Other,
    /// One request could not handle all waiters that were gone or are next, or all ended shares.
    Unknown,
}

impl Serving<'_> {
    /// Hands a key to the first waiters in its queue that can be notified, as long as they fit. The
    /// requester itself need not be notified.
    ///
    /// A waiter that does not fit blocks all waiters behind it, even those that would fit. Otherwise
    /// readers who come and go could starve a writer.
    ///
    /// The push may get lost, and its receiver may be dead. So the lock lasts only for the claim
    /// window, and is recorded as unclaimed. If it ends unclaimed, everybody who listens on that
    /// channel is skipped until it asks again. So a process that is gone costs one window, however
    /// many of its waiters are in the queue.
    pub(super) fn advance(&mut self, key: &Key, asking: Option<Holder>) -> NextGrantee {
        let now = self.context.now;
        self.forget_ended_queue(key);
        if !self.records.is_settled(key, now) {
            self.unfinished.push(key.clone());
            return NextGrantee::Unknown;
        }
        let Some(mut queue) = self.records.queues.remove(key) else { return NextGrantee::Anyone };
        if let Some(unclaimed) = queue.unclaimed()
            && !self.records.is_held_by(key, unclaimed.holder, now)
        {
            queue.set_unclaimed_unresponsive();
        }
        let next_grantee = self.next(&mut queue, key, asking);
        self.put_back(key, queue);
        next_grantee
    }

    /// The same for a requester that may not be first in the queue: the key is free for anybody only
    /// if this one fits.
    pub(super) fn next_grantee(&mut self, want: &Want, asking: Option<Holder>) -> NextGrantee {
        match self.advance(&want.key, asking) {
            NextGrantee::Anyone if !self.records.has_room(&want.key, want.mode, self.context.now) => {
                NextGrantee::Other
            }
            next_grantee => next_grantee,
        }
    }

    fn next(&mut self, queue: &mut WaitQueue, key: &Key, asking: Option<Holder>) -> NextGrantee {
        let now = self.context.now;
        let mut done = 0;
        let mut last_handed = None;
        let next_grantee = loop {
            let Some(first) = queue.first() else { break NextGrantee::Anyone };
            let has_room = self.records.has_room(key, first.mode, now);
            if asking == Some(first.holder) {
                if has_room {
                    queue.pop();
                }
                break if has_room { NextGrantee::Requester } else { NextGrantee::Other };
            }
            // Nobody passes a lease. But the waiters behind may pass if the key is shared, once it
            // is known that the first waiter is gone.
            if !has_room && self.records.family(key, now).is_none() {
                break NextGrantee::Other;
            }
            if done == WaitQueue::CLEARED_AT_ONCE {
                self.unfinished.push(key.clone());
                break NextGrantee::Unknown;
            }
            let hears = first.listens_on().is_none_or(|channel| self.context.subscribers.listens(channel));
            let is_there = hears && !queue.is_unresponsive(first);
            if is_there && !has_room {
                break NextGrantee::Other;
            }
            done += 1;
            let Some(waiter) = queue.pop() else { break NextGrantee::Anyone };
            if is_there && self.hand_over(queue, key, &waiter) {
                last_handed = Some(waiter);
            }
        };
        if let Some(handed) = last_handed
            && let Some(witness) = queue.witness(handed.channel.as_ref())
        {
            let left = self.records.next_end(key, now).map(|ends| now.saturating_until(ends));
            self.push(key, &witness, PushEvent::First { left: left.unwrap_or_default() });
            if handed.mode.family().is_none() {
                queue.hand_to(handed.holder, handed.channel);
            }
        }
        next_grantee
    }

    /// Hands a key to a waiter that has just been removed from its queue.
    fn hand_over(&mut self, queue: &WaitQueue, key: &Key, waiter: &QueueEntry) -> bool {
        let (records, now) = (&mut *self.records, self.context.now);
        let QueueEntry { holder, label, mode, channel, wants_more, .. } = waiter.clone();
        let lasts = waiter.ttl.up_to(self.context.window);
        let Some(fence) = Fence::next(records.fence(key, now), self.context.floor) else {
            // The answer to its next request tells it the reason.
            self.push(key, waiter, PushEvent::AskAgain);
            return false;
        };
        // Record the fence even if this is not a grant yet. Otherwise the last fence would name this
        // holding, and somebody who saw the previous holder could break it.
        records.remember(key, fence, waiter.ttl, now);
        match mode.family() {
            None => {
                let content =
                    Content::Lease { holder, fence: Some(fence), label, awaited: !queue.is_empty() };
                records.locks.insert(key.clone(), Lock::new(content, Some(now + lasts.duration())));
            }
            Some(family) => {
                let shares = records.shares.entry(key.clone()).or_default();
                let own_fence = (!wants_more).then_some(fence);
                let share = Share::new(mode.weight(), own_fence, label, Share::end(now, lasts));
                let mut share = share.unclaimed_at(channel);
                // Its own lease may have just become a share, and is not shortened.
                if let Some(own) = shares.of(holder) {
                    share = Share { ends: share.ends.max(own.ends), weight: own.weight, ..share };
                }
                shares.put(holder, share);
                records.mark(key, family);
            }
        }
        let event = if wants_more { PushEvent::AskAgain } else { PushEvent::Granted { fence, lasts } };
        self.push(key, waiter, event);
        true
    }

    /// Notes that the new holder of a key has confirmed it.
    pub(super) fn claim(&mut self, key: &Key, holder: Holder) {
        if let Some(mut queue) = self.records.queues.remove(key) {
            queue.claimed_by(holder);
            self.put_back(key, queue);
        }
    }

    /// Removes a waiter from a queue.
    pub(super) fn leave(&mut self, key: &Key, holder: Holder) {
        if let Some(queue) = self.records.queues.get_mut(key) {
            queue.leave(holder);
            self.claim(key, holder);
        }
    }

    /// A queue without waiters and without an unclaimed lock is removed.
    fn put_back(&mut self, key: &Key, queue: WaitQueue) {
        if !queue.is_empty() || queue.unclaimed().is_some() {
            self.records.queues.insert(key.clone(), queue);
        }
    }

    /// A queue that nobody has asked about for long is removed.
    pub(super) fn forget_ended_queue(&mut self, key: &Key) {
        if self.records.queue(key, self.context.now).is_none() {
            self.records.queues.remove(key);
        }
    }

    /// Notifies the new first waiter of when to ask, after another waiter has gone.
    pub(super) fn tell_first(&mut self, key: &Key) {
        let now = self.context.now;
        let first = self.records.queue(key, now).and_then(WaitQueue::first).cloned();
        let left = self.records.next_end(key, now).map(|ends| now.saturating_until(ends));
        if let (Some(first), Some(left)) = (first, left) {
            self.push(key, &first, PushEvent::First { left });
        }
    }

    /// Notifies a waiter. Only a grant repeats its secret.
    fn push(&mut self, key: &Key, waiter: &QueueEntry, event: PushEvent) {
        let nonce = waiter.nonce.filter(|_| matches!(event, PushEvent::Granted { .. }));
        let to = waiter.listens_on().cloned();
        self.pushes.push(Push { to, holder: waiter.holder, key: key.clone(), event, nonce });
    }
}
