//! Taking the keys of a claim, or joining a queue.

use super::advance::NextGrantee;
use super::{ApplyContext, Quarantined, Serving, check_quarantine, is_late};
use crate::{
    Attempt, Content, Fence, GrantAnswer, Holder, Key, Lock, QueueEntry, QueuePosition, Records, Served,
    Share, Stamp, Ticket, Wait, WaitQueue, Want,
};

/// Grants the attempt all keys of its claim, for a TTL from now, if all of them are free or held by
/// this very attempt; or lets it wait for them. Repeating a request has the same effect as making it
/// once, so a lost answer costs nothing. After `not_after`, on the store's clock, the request has
/// been given up, and is not granted any more.
///
/// A waiting attempt takes its keys in order as far as they are free, keeps them, and joins the
/// queue of the first key that is taken. All take keys in one order, so there is no deadlock.
///
/// # Errors
///
/// [`Quarantined`], for an attempt of a quorum.
pub fn grant(
    records: &mut Records,
    attempt: &Attempt,
    wait: Option<&Wait>,
    not_after: Option<Stamp>,
    context: &ApplyContext<'_>,
) -> Result<Served<GrantAnswer>, Quarantined> {
    let now = context.now;
    check_quarantine(records, attempt, now)?;
    if is_late(not_after, context) {
        return Ok(Served::quietly(GrantAnswer::TooLate { now }));
    }
    for key in attempt.claim.keys() {
        if let Some(Lock { content: Content::NotALock, .. }) = records.lock(key, now) {
            return Ok(Served::quietly(GrantAnswer::NotALock { key: key.clone() }));
        }
        if records.fence(key, now) == Some(Fence::MAX) {
            return Ok(Served::quietly(GrantAnswer::FencesSpent { key: key.clone() }));
        }
    }
    let mut serving = Serving::of_attempt(records, attempt, context);
    let refused = match wait {
        None => serving.all_or_none(attempt),
        Some(wait) => serving.step_by_step(attempt, wait),
    };
    let answer = refused.unwrap_or_else(|| GrantAnswer::Granted { fence: serving.seal(attempt) });
    Ok(serving.served(answer))
}

impl Serving<'_> {
    /// Takes all keys, or returns what prevents that.
    fn all_or_none(&mut self, attempt: &Attempt) -> Option<GrantAnswer> {
        let mut refused = None;
        for want in attempt.claim.wants() {
            if self.records.is_held_in(&want.key, attempt.holder, want.mode, self.context.now) {
                continue;
            }
            match self.next_grantee(want, None) {
                NextGrantee::Anyone | NextGrantee::Requester => {}
                NextGrantee::Other => refused = refused.or_else(|| self.busy(&want.key, None)),
                NextGrantee::Unknown => refused = refused.or(Some(GrantAnswer::Unfinished)),
            }
        }
        if refused.is_none() {
            attempt.claim.wants().iter().for_each(|want| self.take(want, attempt));
        }
        refused
    }

    /// Takes the keys one by one, or returns where it waits.
    fn step_by_step(&mut self, attempt: &Attempt, wait: &Wait) -> Option<GrantAnswer> {
        let now = self.context.now;
        let mut taken = Vec::new();
        let wants = attempt.claim.wants();
        for (n, want) in wants.iter().enumerate() {
            // After the last key there is none to wait for.
            let may_be_kept =
                n + 1 < wants.len() && !self.records.is_held_in(&want.key, attempt.holder, want.mode, now);
            let Some(answer) = self.step(want, attempt, wait) else {
                taken.extend(may_be_kept.then_some(&want.key));
                continue;
            };
            // An attempt that kept keys behind the one for which it waits could deadlock with
            // somebody who waits for those. And an attempt that may not wait keeps nothing at all.
            let first = if matches!(answer, GrantAnswer::QueueFull { .. }) { 0 } else { n + 1 };
            // A kept key has no fence of its own yet. But raise the fence above that of the previous
            // holder, because otherwise somebody could break this attempt with that fence.
            for key in taken {
                if let Some(above) = Fence::next(self.records.fence(key, now), self.context.floor) {
                    self.records.remember(key, above, attempt.ttl, now);
                }
            }
            for key in attempt.claim.keys().skip(first) {
                self.give_back(key, attempt);
            }
            return Some(answer);
        }
        None
    }

    /// Takes one key, or joins its queue.
    fn step(&mut self, want: &Want, attempt: &Attempt, wait: &Wait) -> Option<GrantAnswer> {
        let (now, holder, key) = (self.context.now, attempt.holder, &want.key);
        if self.records.is_held_in(key, holder, want.mode, now) {
            self.take(want, attempt);
            return None;
        }
        self.forget_ended_queue(key);
        let mut stood = false;
        if let Some(queue) = self.records.queues.get_mut(key) {
            queue.heard_from(wait.channel.as_ref());
            queue.claimed_by(holder);
            stood = queue.ticket(holder).is_some();
        }
        if stood || ticket_of(wait, key).is_some() {
            self.join(want, attempt, wait);
        }
        match self.next_grantee(want, Some(holder)) {
            NextGrantee::Anyone => {
                self.take(want, attempt);
                return None;
            }
            NextGrantee::Requester => {
                self.take(want, attempt);
                // The waiters behind may be able to share the key.
                self.advance(key, None);
                return None;
            }
            NextGrantee::Unknown => {
                self.join(want, attempt, wait);
                return Some(GrantAnswer::Unfinished);
            }
            NextGrantee::Other => {}
        }
        let queue = self.records.queues.get(key);
        if queue.and_then(|queue| queue.ticket(holder)).is_none() {
            let length = queue.map_or(0, WaitQueue::len) as u64;
            if wait.queue_limit.is_some_and(|limit| length >= limit) {
                let held_by = self.records.holding(key, now)?;
                return Some(GrantAnswer::QueueFull { held_by, length });
            }
            self.join(want, attempt, wait);
        }
        if let Some(Lock { content: Content::Lease { awaited, .. }, .. }) = self.records.locks.get_mut(key) {
            *awaited = true;
        }
        let queue = self.records.queues.get(key)?;
        let (ticket, before) = (queue.ticket(holder)?, queue.before(holder)?);
        self.busy(key, Some(QueuePosition { ticket, before, stood }))
    }

    fn busy(&self, key: &Key, place: Option<QueuePosition>) -> Option<GrantAnswer> {
        self.records.holding(key, self.context.now).map(|held_by| GrantAnswer::Busy { held_by, place })
    }

    fn join(&mut self, Want { key, mode }: &Want, attempt: &Attempt, wait: &Wait) {
        let waiter = QueueEntry {
            holder: attempt.holder,
            label: attempt.label.clone(),
            mode: *mode,
            ttl: attempt.ttl,
            channel: wait.channel.clone(),
            nonce: wait.nonce,
            wants_more: attempt.claim.wants().len() > 1,
        };
        let queue = self.records.queues.entry(key.clone()).or_default();
        queue.join(waiter, ticket_of(wait, key), self.context.now);
        queue.keep_until(self.context.now + WaitQueue::KEPT_FOR);
    }

    /// Gives the attempt a key for a TTL from now.
    ///
    /// Like a renewal, a repeated request never shortens a lease: otherwise a delayed request could
    /// cut off what a later renewal, already answered, has extended.
    pub(super) fn take(&mut self, want: &Want, attempt: &Attempt) {
        let (now, key) = (self.context.now, &want.key);
        self.leave(key, attempt.holder);
        let records = &mut *self.records;
        if let Some(family) = want.mode.family() {
            let shares = records.shares.entry(key.clone()).or_default();
            let mut share =
                Share::new(want.mode.weight(), None, attempt.label.clone(), Share::end(now, attempt.ttl));
            if let Some(own) = shares.of(attempt.holder) {
                let ends = share.ends.max(own.ends);
                share = Share { ends, weight: own.weight, fence: own.fence, ..share };
            }
            shares.put(attempt.holder, share);
            records.mark(key, family);
            return;
        }
        let mut ends = now + attempt.ttl.duration();
        let (mut awaited, mut fence) = (false, None);
        // The lock at the key now is this attempt's own.
        if let Some(own) = records.lock(key, now) {
            ends = own.ends.map_or(ends, |own| own.max(ends));
            if let Content::Lease { awaited: it_was, fence: last, .. } = own.content {
                (awaited, fence) = (it_was, last);
            }
        }
        awaited |= records.queue(key, now).is_some_and(|queue| !queue.is_empty());
        let content = Content::Lease { holder: attempt.holder, fence, label: attempt.label.clone(), awaited };
        records.locks.insert(key.clone(), Lock::new(content, Some(ends)));
    }

    /// Gives a claim whose keys are all taken its fence: above the last fence of each key.
    fn seal(&mut self, attempt: &Attempt) -> Fence {
        let now = self.context.now;
        let last = attempt.claim.keys().filter_map(|key| self.records.fence(key, now)).max();
        let floor = Fence::floor(attempt.proposal.map(|it| it.fence), self.context.floor);
        let fence = Fence::next(last, floor).unwrap_or(Fence::MAX);
        for key in attempt.claim.keys() {
            self.records.remember(key, fence, attempt.ttl, now);
            self.records.stamp(key, attempt.holder, fence);
        }
        fence
    }

    /// Frees a key if the attempt holds it, removes the attempt from the queue, and hands it over.
    pub(super) fn give_back(&mut self, key: &Key, attempt: &Attempt) {
        let (records, now) = (&mut *self.records, self.context.now);
        if records.is_held_by(key, attempt.holder, now) {
            records.free(key, attempt.holder, now);
        }
        let is_anothers = records.lock(key, now).is_some();
        let stood_first = first(records, key) == Some(attempt.holder);
        self.leave(key, attempt.holder);
        let told_before = self.pushes.len();
        self.advance(key, None);
        if stood_first && is_anothers && self.pushes.len() == told_before {
            self.tell_first(key);
        }
    }
}

fn first(records: &Records, key: &Key) -> Option<Holder> {
    records.queues.get(key)?.first().map(|waiter| waiter.holder)
}

/// The waiter's ticket of an earlier place, if that was in the queue of this key.
fn ticket_of(wait: &Wait, key: &Key) -> Option<Ticket> {
    wait.ticket.as_ref().filter(|(at, _)| at == key).map(|(_, ticket)| *ticket)
}
