//! Handing a free key over to the waiter that has waited longest.

use super::{ApplyContext, Effects};
use crate::{
    Content, Fence, Holder, Key, Lock, Push, PushEvent, QueueEntry, Records, Share, Stamp, WaitQueue, Want,
};

/// The waiter that is granted the key next, if the key is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextGrantee {
    /// Nobody waits: the next request that fits gets the key.
    Anyone,
    /// The requester is first, fits, and has just been removed from the queue.
    Requester,
    /// Others hold the key or are before the requester.
    Other,
    /// One request could not handle all the waiters that were gone, the waiters to hand the key to,
    /// or the shares that had ended.
    Unknown,
}

/// Hands a key to the first waiters in its queue that can be notified, as long as they fit. The
/// requester itself need not be notified.
///
/// A waiter that does not fit blocks all waiters behind it, even those that would fit. Otherwise
/// readers who come and go could starve a writer.
///
/// The push may get lost, and its receiver may be dead. So the lock lasts only for the claim
/// window, and is recorded as unclaimed. If it ends unclaimed, everybody who listens on that
/// channel is skipped until it asks again. So a process that is gone costs one window, however many
/// of its waiters are in the queue.
pub(super) fn advance(
    records: &mut Records,
    key: &Key,
    asking: Option<Holder>,
    context: &ApplyContext<'_>,
    told: &mut Effects,
) -> NextGrantee {
    forget_ended(records, key, context.now);
    if !records.is_settled(key, context.now) {
        told.unfinished.push(key.clone());
        return NextGrantee::Unknown;
    }
    let Some(mut queue) = records.queues.remove(key) else { return NextGrantee::Anyone };
    if let Some(unclaimed) = queue.unclaimed()
        && !records.is_held_by(key, unclaimed.holder, context.now)
    {
        queue.set_unclaimed_unresponsive();
    }
    let next_grantee = next(records, &mut queue, key, asking, context, told);
    put_back(records, key, queue);
    next_grantee
}

/// The same for a requester that may not be first in the queue: the key is free for anybody only if
/// this one fits.
pub(super) fn next_grantee(
    records: &mut Records,
    want: &Want,
    asking: Option<Holder>,
    context: &ApplyContext<'_>,
    told: &mut Effects,
) -> NextGrantee {
    match advance(records, &want.key, asking, context, told) {
        NextGrantee::Anyone if !records.has_room(&want.key, want.mode, context.now) => NextGrantee::Other,
        next_grantee => next_grantee,
    }
}

fn next(
    records: &mut Records,
    queue: &mut WaitQueue,
    key: &Key,
    asking: Option<Holder>,
    context: &ApplyContext<'_>,
    told: &mut Effects,
) -> NextGrantee {
    let mut done = 0;
    let mut last_handed = None;
    let next_grantee = loop {
        let Some(first) = queue.first() else { break NextGrantee::Anyone };
        let has_room = records.has_room(key, first.mode, context.now);
        if asking == Some(first.holder) {
            if has_room {
                queue.pop();
            }
            break if has_room { NextGrantee::Requester } else { NextGrantee::Other };
        }
        // Nobody passes a lease. But the waiters behind may pass if the key is shared, once it is
        // known that the first waiter is gone.
        if !has_room && records.family(key, context.now).is_none() {
            break NextGrantee::Other;
        }
        if done == WaitQueue::CLEARED_AT_ONCE {
            told.unfinished.push(key.clone());
            break NextGrantee::Unknown;
        }
        let hears = first.listens_on().is_none_or(|channel| context.subscribers.listens(channel));
        let is_there = hears && !queue.is_unresponsive(first);
        if is_there && !has_room {
            break NextGrantee::Other;
        }
        done += 1;
        let Some(waiter) = queue.pop() else { break NextGrantee::Anyone };
        if is_there && hand_over(records, queue, key, &waiter, context, told) {
            last_handed = Some(waiter);
        }
    };
    if let Some(handed) = last_handed
        && let Some(witness) = queue.witness(handed.channel.as_ref())
    {
        let left = records.next_end(key, context.now).map(|ends| context.now.saturating_until(ends));
        told.push(key, witness.channel, witness.holder, PushEvent::First { left: left.unwrap_or_default() });
        if handed.mode.family().is_none() {
            queue.hand_to(handed.holder, handed.channel);
        }
    }
    next_grantee
}

/// Hands a key to a waiter that has just been removed from its queue, and records that in the
/// queue.
fn hand_over(
    records: &mut Records,
    queue: &WaitQueue,
    key: &Key,
    waiter: &QueueEntry,
    context: &ApplyContext<'_>,
    told: &mut Effects,
) -> bool {
    let QueueEntry { holder, label, mode, channel, .. } = waiter.clone();
    let lasts = waiter.ttl.up_to(context.window);
    let Some(fence) = Fence::next(records.fence(key, context.now), context.floor) else {
        // The answer to its next request tells it the reason.
        told.push(key, channel, holder, PushEvent::AskAgain);
        return false;
    };
    // Record the fence even if this is not a grant yet. Otherwise the last fence would name this
    // holding, and somebody who saw the previous holder could break it.
    records.remember(key, fence, waiter.ttl, context.now);
    let last = fence;
    let event = if waiter.wants_more { PushEvent::AskAgain } else { PushEvent::Granted { fence, lasts } };
    let fence = (!waiter.wants_more).then_some(fence);
    match mode.family() {
        None => {
            let content = Content::Lease { holder, fence: Some(last), label, awaited: !queue.is_empty() };
            records.locks.insert(key.clone(), Lock::new(content, Some(context.now + lasts.duration())));
        }
        Some(family) => {
            let shares = records.shares.entry(key.clone()).or_default();
            let share = Share::new(mode.weight(), fence, label, Share::end(context.now, lasts));
            let mut share = share.unclaimed_at(channel.clone());
            // Its own lease may have just become a share, and is not shortened.
            if let Some(own) = shares.of(holder) {
                share = Share { ends: share.ends.max(own.ends), weight: own.weight, ..share };
            }
            shares.put(holder, share);
            records.mark(key, family);
        }
    }
    told.push(key, channel, holder, event);
    if let (Some(push), PushEvent::Granted { .. }) = (told.pushes.last_mut(), event) {
        push.nonce = waiter.nonce;
    }
    true
}

/// Notes that the new holder of a key has confirmed it.
pub(super) fn claim(records: &mut Records, key: &Key, holder: Holder) {
    if let Some(mut queue) = records.queues.remove(key) {
        queue.claimed_by(holder);
        put_back(records, key, queue);
    }
}

/// Removes a waiter from a queue.
pub(super) fn leave(records: &mut Records, key: &Key, holder: Holder) {
    if let Some(mut queue) = records.queues.remove(key) {
        queue.leave(holder);
        queue.claimed_by(holder);
        put_back(records, key, queue);
    }
}

/// A queue without waiters and without an unclaimed lock is removed.
fn put_back(records: &mut Records, key: &Key, queue: WaitQueue) {
    if !queue.is_empty() || queue.unclaimed().is_some() {
        records.queues.insert(key.clone(), queue);
    }
}

/// A queue that nobody has asked about for long is removed.
pub(super) fn forget_ended(records: &mut Records, key: &Key, now: Stamp) {
    if records.queue(key, now).is_none() {
        records.queues.remove(key);
    }
}

impl Effects {
    /// Notifies the new first waiter of when to ask, after another waiter has gone.
    pub(super) fn who_stands_first(&mut self, records: &Records, key: &Key, now: Stamp) {
        let first = records.queue(key, now).and_then(WaitQueue::first);
        let left = records.next_end(key, now).map(|ends| now.saturating_until(ends));
        if let (Some(first), Some(left)) = (first, left) {
            self.push(key, first.channel.clone(), first.holder, PushEvent::First { left });
        }
    }

    pub(super) fn push(&mut self, key: &Key, to: Option<crate::Channel>, holder: Holder, event: PushEvent) {
        let to = to.filter(|channel| !channel.is_silent());
        self.pushes.push(Push { to, holder, key: key.clone(), event, nonce: None });
    }
}
