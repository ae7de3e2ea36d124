//! Taking the keys of a claim, or joining a queue.

use super::advance::{NextGrantee, advance, forget_ended, leave, next_grantee};
use super::{ApplyContext, Effects, settle};
use crate::{
    Attempt, Content, Fence, GrantAnswer, Holder, Key, Lock, QueueEntry, QueuePosition, Records, Share, Wait,
    WaitQueue, Want,
};

/// If all keys are free or held by this very attempt, the attempt holds them for a TTL from now.
/// Repeating a request has the same effect as making it once, so a lost answer costs nothing.
///
/// A waiting attempt takes its keys in order as far as they are free, keeps them, and joins the
/// queue of the first key that is taken. All attempts take their keys in the same order, so there
/// is no deadlock.
pub(super) fn grant(
    records: &mut Records,
    attempt: &Attempt,
    wait: Option<&Wait>,
    context: &ApplyContext<'_>,
    told: &mut Effects,
) -> GrantAnswer {
    let now = context.now;
    for key in attempt.claim.keys() {
        if let Some(Lock { content: Content::NotALock, .. }) = records.lock(key, now) {
            return GrantAnswer::NotALock { key: key.clone() };
        }
        if records.fence(key, now) == Some(Fence::MAX) {
            return GrantAnswer::FencesSpent { key: key.clone() };
        }
    }
    settle(records, attempt, now);
    let refused = match wait {
        None => all_or_none(records, attempt, context, told),
        Some(wait) => step_by_step(records, attempt, wait, context, told),
    };
    refused.unwrap_or_else(|| GrantAnswer::Granted { fence: seal(records, attempt, context) })
}

/// Takes all keys, or returns what prevents that.
fn all_or_none(
    records: &mut Records,
    attempt: &Attempt,
    context: &ApplyContext<'_>,
    told: &mut Effects,
) -> Option<GrantAnswer> {
    let mut refused = None;
    for want in attempt.claim.wants() {
        if records.is_held_in(&want.key, attempt.holder, want.mode, context.now) {
            continue;
        }
        match next_grantee(records, want, None, context, told) {
            NextGrantee::Anyone | NextGrantee::Requester => {}
            NextGrantee::Other => refused = refused.or_else(|| busy(records, &want.key, None, context)),
            NextGrantee::Unknown => refused = refused.or(Some(GrantAnswer::Unfinished)),
        }
    }
    if refused.is_none() {
        attempt.claim.wants().iter().for_each(|want| take(records, want, attempt, context));
    }
    refused
}

/// Takes the keys one by one, or returns where it waits.
fn step_by_step(
    records: &mut Records,
    attempt: &Attempt,
    wait: &Wait,
    context: &ApplyContext<'_>,
    told: &mut Effects,
) -> Option<GrantAnswer> {
    let mut taken = Vec::new();
    let wants = attempt.claim.wants();
    for (n, want) in wants.iter().enumerate() {
        // After the last key there is none to wait for.
        let may_be_kept =
            n + 1 < wants.len() && !records.is_held_in(&want.key, attempt.holder, want.mode, context.now);
        let Some(answer) = step(records, want, attempt, wait, context, told) else {
            taken.extend(may_be_kept.then_some(&want.key));
            continue;
        };
        // An attempt that kept keys behind the one for which it waits could deadlock with somebody
        // who waits for those. And an attempt that may not wait keeps nothing at all.
        let first = if matches!(answer, GrantAnswer::QueueFull { .. }) { 0 } else { n + 1 };
        // A kept key has no fence of its own yet. But raise the fence above that of the previous
        // holder, because otherwise somebody could break this attempt with that fence.
        for key in taken {
            if let Some(above) = Fence::next(records.fence(key, context.now), context.floor) {
                records.remember(key, above, attempt.ttl, context.now);
            }
        }
        for key in attempt.claim.keys().skip(first) {
            give_back(records, key, attempt, context, told);
        }
        return Some(answer);
    }
    None
}

/// Takes one key, or joins its queue.
fn step(
    records: &mut Records,
    want: &Want,
    attempt: &Attempt,
    wait: &Wait,
    context: &ApplyContext<'_>,
    told: &mut Effects,
) -> Option<GrantAnswer> {
    let (now, holder, key) = (context.now, attempt.holder, &want.key);
    if records.is_held_in(key, holder, want.mode, now) {
        take(records, want, attempt, context);
        return None;
    }
    forget_ended(records, key, now);
    let ticket = wait.ticket.as_ref().filter(|(at, _)| at == key).map(|(_, ticket)| *ticket);
    let mut stood = false;
    if let Some(queue) = records.queues.get_mut(key) {
        queue.heard_from(wait.channel.as_ref());
        queue.claimed_by(holder);
        stood = queue.ticket(holder).is_some();
    }
    if stood || ticket.is_some() {
        join(records, want, attempt, wait, context);
    }
    match next_grantee(records, want, Some(holder), context, told) {
        NextGrantee::Anyone => {
            take(records, want, attempt, context);
            return None;
        }
        NextGrantee::Requester => {
            take(records, want, attempt, context);
            // The waiters behind may be able to share the key.
            advance(records, key, None, context, told);
            return None;
        }
        NextGrantee::Unknown => {
            join(records, want, attempt, wait, context);
            return Some(GrantAnswer::Unfinished);
        }
        NextGrantee::Other => {}
    }
    let length = records.queues.get(key).map_or(0, WaitQueue::len) as u64;
    let joined = records.queues.get(key).is_some_and(|queue| queue.ticket(holder).is_some());
    if !joined {
        if wait.queue_limit.is_some_and(|limit| length >= limit) {
            let held_by = records.holding(key, now)?;
            return Some(GrantAnswer::QueueFull { held_by, length });
        }
        join(records, want, attempt, wait, context);
    }
    if let Some(Lock { content: Content::Lease { awaited, .. }, .. }) = records.locks.get_mut(key) {
        *awaited = true;
    }
    let queue = records.queues.get(key)?;
    let (ticket, before) = (queue.ticket(holder)?, queue.before(holder)?);
    busy(records, key, Some(QueuePosition { ticket, before, stood }), context)
}

fn busy(
    records: &Records,
    key: &Key,
    place: Option<QueuePosition>,
    context: &ApplyContext<'_>,
) -> Option<GrantAnswer> {
    records.holding(key, context.now).map(|held_by| GrantAnswer::Busy { held_by, place })
}

fn join(records: &mut Records, want: &Want, attempt: &Attempt, wait: &Wait, context: &ApplyContext<'_>) {
    let Want { key, mode } = want;
    let waiter = QueueEntry {
        holder: attempt.holder,
        label: attempt.label.clone(),
        mode: *mode,
        ttl: attempt.ttl,
        channel: wait.channel.clone(),
        nonce: wait.nonce,
        wants_more: attempt.claim.wants().len() > 1,
    };
    let ticket = wait.ticket.as_ref().filter(|(at, _)| at == key).map(|(_, ticket)| *ticket);
    let queue = records.queues.entry(key.clone()).or_default();
    queue.join(waiter, ticket, context.now);
    queue.keep_until(context.now + WaitQueue::KEPT_FOR);
}

/// Gives the attempt a key for a TTL from now.
///
/// Like a renewal, a repeated request never shortens a lease: otherwise a delayed request could cut
/// off what a later renewal, already answered, has extended.
pub(super) fn take(records: &mut Records, want: &Want, attempt: &Attempt, context: &ApplyContext<'_>) {
    let (now, key) = (context.now, &want.key);
    leave(records, key, attempt.holder);
    if let Some(family) = want.mode.family() {
        let shares = records.shares.entry(key.clone()).or_default();
        let mut share =
            Share::new(want.mode.weight(), None, attempt.label.clone(), Share::end(now, attempt.ttl));
        if let Some(own) = shares.of(attempt.holder) {
            share = Share { ends: share.ends.max(own.ends), weight: own.weight, fence: own.fence, ..share };
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
fn seal(records: &mut Records, attempt: &Attempt, context: &ApplyContext<'_>) -> Fence {
    let now = context.now;
    let last = attempt.claim.keys().filter_map(|key| records.fence(key, now)).max();
    let floor = Fence::floor(attempt.proposal.map(|it| it.fence), context.floor);
    let fence = Fence::next(last, floor).unwrap_or(Fence::MAX);
    for key in attempt.claim.keys() {
        records.remember(key, fence, attempt.ttl, now);
        records.stamp(key, attempt.holder, fence);
    }
    fence
}

/// Frees a key if the attempt holds it, removes the attempt from the queue, and hands the key over.
pub(super) fn give_back(
    records: &mut Records,
    key: &Key,
    attempt: &Attempt,
    context: &ApplyContext<'_>,
    told: &mut Effects,
) {
    if records.is_held_by(key, attempt.holder, context.now) {
        records.free(key, attempt.holder, context.now);
    }
    let is_anothers = records.lock(key, context.now).is_some();
    let stood_first = first(records, key) == Some(attempt.holder);
    leave(records, key, attempt.holder);
    let told_before = told.pushes.len();
    advance(records, key, None, context, told);
    if stood_first && is_anothers && told.pushes.len() == told_before {
        told.who_stands_first(records, key, context.now);
    }
}

fn first(records: &Records, key: &Key) -> Option<Holder> {
    records.queues.get(key)?.first().map(|waiter| waiter.holder)
}
