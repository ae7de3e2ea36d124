//! Renewing and releasing a lease.

use super::advance::{NextGrantee, advance, claim, next_grantee};
use super::grant::{give_back, take};
use super::{ApplyContext, Effects};
use crate::{Attempt, Fence, HoldAnswer, Key, LastFence, RaiseAnswer, Records, Stamp, Successor, Want};

/// Only the attempt that holds all keys renews them; a renewal never takes a lost key again.
///
/// A renewal never shortens a lease either: otherwise a delayed renewal could cut off what a later
/// one, already answered, has extended.
///
/// A renewal that wants to read what its attempt has alone turns the lease into a share: so a
/// writer becomes a reader, and the readers behind it are let in, while no other writer was in
/// between. The share keeps the fence. Nothing turns it back, so a delayed renewal of the writer
/// renews the share.
pub(super) fn renew(
    records: &mut Records,
    attempt: &Attempt,
    context: &ApplyContext<'_>,
    told: &mut Effects,
) -> HoldAnswer {
    let now = context.now;
    let gone = first_not_held(records, attempt, context);
    for Want { key, mode } in attempt.claim.wants() {
        // Even if it came too late: it shows that the process is alive.
        claim(records, key, attempt.holder);
        if gone.is_some() {
            advance(records, key, None, context, told);
            continue;
        }
        let admits_readers = records.downgrade(key, attempt.holder, *mode, now);
        prolong(records, key, attempt, now);
        if admits_readers {
            advance(records, key, None, context, told);
        }
    }
    gone.unwrap_or(HoldAnswer::Done)
}

/// Extends what the attempt holds of a key, and the memory of its fence.
fn prolong(records: &mut Records, key: &Key, attempt: &Attempt, now: Stamp) {
    records.prolong(key, attempt.holder, attempt.ttl, now);
    if let Some(last) = records.fences.get_mut(key).filter(|last| now < last.ends) {
        last.ends = last.ends.max(now + LastFence::kept_for(attempt.ttl));
    }
}

/// A renewal that also takes keys again that nobody holds and nobody waits for; all of them, or
/// none.
///
/// This is requested only by an attempt that a majority granted, and only at members that were down
/// then. It names its granted fence, so the next grant has a greater fence here too.
pub(super) fn rejoin(
    records: &mut Records,
    attempt: &Attempt,
    context: &ApplyContext<'_>,
    told: &mut Effects,
) -> HoldAnswer {
    let now = context.now;
    let mut refused = None;
    for want in attempt.claim.wants() {
        let key = &want.key;
        claim(records, key, attempt.holder);
        if records.is_held_for(key, attempt.holder, want.mode, now) {
            continue;
        }
        if next_grantee(records, want, None, context, told) != NextGrantee::Anyone {
            let held_by = records.holding(key, now);
            refused = refused.or(Some(HoldAnswer::NotHeld { key: key.clone(), held_by }));
        }
    }
    if let Some(refused) = refused {
        return refused;
    }
    for want in attempt.claim.wants() {
        let admits_readers = records.downgrade(&want.key, attempt.holder, want.mode, now);
        take(records, want, attempt, context);
        let last = records.fence(&want.key, now);
        if let Some(fence) = last.max(attempt.proposal.map(|it| it.fence)) {
            records.remember(&want.key, fence, attempt.ttl, now);
        }
        // Even if others who share the key have greater fences by now.
        if let Some(own) = attempt.proposal {
            records.stamp(&want.key, attempt.holder, own.fence);
        }
        if admits_readers {
            advance(records, &want.key, None, context, told);
        }
    }
    HoldAnswer::Done
}

/// Raises the fences of the keys that an attempt holds to the fence that it names, or above it if
/// somebody else may have that fence.
///
/// No store answers the same fence to two attempts, so no two attempts can have the same fence from
/// a majority. An exclusive holder has the last fence of the key; of several who share it, only one
/// has.
pub(super) fn raise(
    records: &mut Records,
    attempt: &Attempt,
    context: &ApplyContext<'_>,
    told: &mut Effects,
) -> RaiseAnswer {
    let now = context.now;
    if let Some(HoldAnswer::NotHeld { key, held_by }) = first_not_held(records, attempt, context) {
        for key in attempt.claim.keys() {
            advance(records, key, None, context, told);
        }
        return RaiseAnswer::NotHeld { key, held_by };
    }
    let named = attempt.proposal.map_or(context.floor, |it| it.fence);
    let least = |key| {
        let last = records.fence(key, now);
        match records.shares.get(key).and_then(|shares| shares.of(attempt.holder)) {
            None => last,
            Some(share) if share.fence >= Some(named) => share.fence,
            Some(_) if last < Some(named) => None,
            Some(_) => Some(Fence::next(last, named).unwrap_or(Fence::MAX)),
        }
    };
    let fence = attempt.claim.keys().filter_map(least).max().map_or(named, |least| least.max(named));
    for key in attempt.claim.keys() {
        // The fence of another reader may be greater.
        let last = records.fence(key, now).map_or(fence, |last| last.max(fence));
        records.remember(key, last, attempt.ttl, now);
        records.stamp(key, attempt.holder, fence);
    }
    RaiseAnswer::Raised { fence }
}

/// A renewal after which the successor holds the keys; all of them, or none.
///
/// Only one of several successors can succeed the same holder: after that, the holder has nothing
/// to transfer. A successor that is the holder itself can repeat its request.
pub(super) fn transfer(
    records: &mut Records,
    attempt: &Attempt,
    successor: &Successor,
    context: &ApplyContext<'_>,
    told: &mut Effects,
) -> HoldAnswer {
    let gone = first_not_held(records, attempt, context);
    for key in attempt.claim.keys() {
        claim(records, key, attempt.holder);
        match gone {
            Some(_) => _ = advance(records, key, None, context, told),
            None => {
                prolong(records, key, attempt, context.now);
                records.transfer(key, attempt.holder, successor, context.now);
            }
        }
    }
    gone.unwrap_or(HoldAnswer::Done)
}

/// Releases what the attempt holds and its places in queues, and nothing else; the fence is kept.
pub(super) fn release(
    records: &mut Records,
    attempt: &Attempt,
    context: &ApplyContext<'_>,
    told: &mut Effects,
) -> HoldAnswer {
    let gone = first_not_held(records, attempt, context);
    for key in attempt.claim.keys() {
        give_back(records, key, attempt, context, told);
    }
    gone.unwrap_or(HoldAnswer::Done)
}

fn first_not_held(records: &Records, attempt: &Attempt, context: &ApplyContext<'_>) -> Option<HoldAnswer> {
    let now = context.now;
    let key = attempt.claim.keys().find(|key| !records.is_held_by(key, attempt.holder, now))?;
    Some(HoldAnswer::NotHeld { key: key.clone(), held_by: records.holding(key, now) })
}
