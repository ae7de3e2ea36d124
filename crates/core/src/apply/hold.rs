//! Keeping a lease, and letting it go.

use super::advance::{advance, claim};
use super::grant::give_back;
use super::{Scene, Told};
use crate::{Attempt, HoldAnswer, LastFence, Records};

/// Only the attempt that holds all keys renews them; a lost key is never taken again by a renewal.
///
/// Nor does a renewal shorten a lease: one that was delayed on its way could else cut off a lease that a later one, already
/// answered, made longer.
pub(super) fn renew(
    records: &mut Records,
    attempt: &Attempt,
    scene: &Scene<'_>,
    told: &mut Told,
) -> HoldAnswer {
    let now = scene.now;
    let gone = first_not_held(records, attempt, scene);
    for key in attempt.claim.keys() {
        // Also if it came too late: who was told lives.
        claim(records, key, attempt.holder);
        if gone.is_some() {
            advance(records, key, None, scene, told);
            continue;
        }
        if let Some(lock) = records.locks.get_mut(key) {
            lock.ends = lock.ends.max(Some(now + attempt.ttl.duration()));
        }
        if let Some(last) = records.fences.get_mut(key).filter(|last| now < last.ends) {
            last.ends = last.ends.max(now + LastFence::kept_for(attempt.ttl));
        }
    }
    gone.unwrap_or(HoldAnswer::Done)
}

/// Takes back what the attempt holds and where it waits, and nothing else; the fence stays.
pub(super) fn release(
    records: &mut Records,
    attempt: &Attempt,
    scene: &Scene<'_>,
    told: &mut Told,
) -> HoldAnswer {
    let gone = first_not_held(records, attempt, scene);
    for key in attempt.claim.keys() {
        give_back(records, key, attempt, scene, told);
    }
    gone.unwrap_or(HoldAnswer::Done)
}

fn first_not_held(records: &Records, attempt: &Attempt, scene: &Scene<'_>) -> Option<HoldAnswer> {
    let now = scene.now;
    let key = attempt.claim.keys().find(|key| !records.is_held_by(key, attempt.holder, now))?;
    Some(HoldAnswer::NotHeld { key: key.clone(), held_by: records.tenancy(key, now) })
}
