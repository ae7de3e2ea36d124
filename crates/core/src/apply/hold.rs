//! Renewing and releasing a lease.

use super::advance::NextGrantee;
use super::{ApplyContext, Quarantined, Serving, check_quarantine, is_late};
use crate::{
    Attempt, Fence, HoldAnswer, Key, LastFence, RaiseAnswer, Records, Served, Stamp, Successor, Want,
};

/// Extends the lease to its TTL from now, unless it lasts longer already, if the attempt still
/// holds all keys; a renewal never takes a lost key again.
///
/// A renewal never shortens a lease either: otherwise a delayed renewal could cut off what a later
/// one, already answered, has extended.
///
/// A renewal that wants to read what its attempt has alone turns the lease into a share: so a
/// writer becomes a reader, and the readers behind it are let in, while no other writer was in
/// between. The share keeps the fence. Nothing turns it back, so a delayed renewal of the writer
/// renews the share.
///
/// # Errors
///
/// [`Quarantined`], for an attempt of a quorum.
pub fn renew(
    records: &mut Records,
    attempt: &Attempt,
    context: &ApplyContext<'_>,
) -> Result<Served<HoldAnswer>, Quarantined> {
    check_quarantine(records, attempt, context.now)?;
    let mut serving = Serving::of_attempt(records, attempt, context);
    let gone = serving.first_not_held(attempt);
    for Want { key, mode } in attempt.claim.wants() {
        // Even if it came too late: it shows that the process is alive.
        serving.claim(key, attempt.holder);
        if gone.is_some() {
            serving.advance(key, None);
            continue;
        }
        let admits_readers = serving.records.downgrade(key, attempt.holder, *mode, context.now);
        serving.prolong(key, attempt);
        if admits_readers {
            serving.advance(key, None);
        }
    }
    Ok(serving.served(gone.unwrap_or(HoldAnswer::Done)))
}

/// At a member of a quorum: extends the lease as a renewal does, and takes keys again that nobody
/// holds or waits for; all of them, or none.
///
/// This is requested only by an attempt that a majority granted, and only at members that were down
/// then. It names the fence on which the majority agreed, so the next grant has a greater fence here
/// too. After `not_after` the attempt may have been released: then it may still renew what it holds,
/// but nothing is taken again.
///
/// # Errors
///
/// [`Quarantined`].
pub fn rejoin(
    records: &mut Records,
    attempt: &Attempt,
    not_after: Option<Stamp>,
    context: &ApplyContext<'_>,
) -> Result<Served<HoldAnswer>, Quarantined> {
    if is_late(not_after, context) {
        return renew(records, attempt, context);
    }
    check_quarantine(records, attempt, context.now)?;
    let mut serving = Serving::of_attempt(records, attempt, context);
    let answer = serving.rejoin(attempt);
    Ok(serving.served(answer))
}

/// At a member of a quorum: raises the fences of the keys that an attempt holds to the fence that it
/// names, or above it if somebody else may have that fence.
///
/// No store answers a fence to two attempts, so no two can have the same fence from a majority. An
/// exclusive holder has the last fence of the key; of several who share it, only one has.
///
/// # Errors
///
/// [`Quarantined`].
pub fn raise(
    records: &mut Records,
    attempt: &Attempt,
    context: &ApplyContext<'_>,
) -> Result<Served<RaiseAnswer>, Quarantined> {
    check_quarantine(records, attempt, context.now)?;
    let mut serving = Serving::of_attempt(records, attempt, context);
    let answer = match serving.first_not_held(attempt) {
        Some(HoldAnswer::NotHeld { key, held_by }) => {
            for key in attempt.claim.keys() {
                serving.advance(key, None);
            }
            RaiseAnswer::NotHeld { key, held_by }
        }
        _ => RaiseAnswer::Raised { fence: serving.raise(attempt) },
    };
    Ok(serving.served(answer))
}

/// If the attempt still holds all its keys, makes the successor their holder, and extends the lease
/// to the attempt's TTL from now, unless it lasts longer already. The fences remain.
///
/// Only one of several successors can succeed the same holder: after that, the holder has nothing
/// to transfer. A successor that is the holder itself can repeat its request. After `not_after`
/// nothing is transferred; the answer then names the holder.
///
/// # Errors
///
/// [`Quarantined`], for an attempt of a quorum: a store that came back with its state of a moment
/// ago may have forgotten that another successor has the lease.
pub fn transfer(
    records: &mut Records,
    attempt: &Attempt,
    successor: &Successor,
    not_after: Option<Stamp>,
    context: &ApplyContext<'_>,
) -> Result<Served<HoldAnswer>, Quarantined> {
    check_quarantine(records, attempt, context.now)?;
    let mut serving = Serving::of_attempt(records, attempt, context);
    let late = is_late(not_after, context).then(|| serving.not_held(attempt.claim.first_key()));
    let gone = late.or_else(|| serving.first_not_held(attempt));
    for key in attempt.claim.keys() {
        serving.claim(key, attempt.holder);
        if gone.is_some() {
            serving.advance(key, None);
            continue;
        }
        serving.prolong(key, attempt);
        serving.records.transfer(key, attempt.holder, successor, context.now);
    }
    Ok(serving.served(gone.unwrap_or(HoldAnswer::Done)))
}

/// Releases the keys of the claim that the attempt holds, and its places in queues. Fences stay.
pub fn release(records: &mut Records, attempt: &Attempt, context: &ApplyContext<'_>) -> Served<HoldAnswer> {
    let mut serving = Serving::of_attempt(records, attempt, context);
    let gone = serving.first_not_held(attempt);
    for key in attempt.claim.keys() {
        serving.give_back(key, attempt);
    }
    serving.served(gone.unwrap_or(HoldAnswer::Done))
}

impl Serving<'_> {
    /// Extends what the attempt holds of a key, and the memory of its fence.
    fn prolong(&mut self, key: &Key, attempt: &Attempt) {
        let now = self.context.now;
        self.records.prolong(key, attempt.holder, attempt.ttl, now);
        if let Some(last) = self.records.fences.get_mut(key).filter(|last| now < last.ends) {
            last.ends = last.ends.max(now + LastFence::kept_for(attempt.ttl));
        }
    }

    fn rejoin(&mut self, attempt: &Attempt) -> HoldAnswer {
        let now = self.context.now;
        let mut refused = None;
        for want in attempt.claim.wants() {
            let key = &want.key;
            self.claim(key, attempt.holder);
            if self.records.is_held_for(key, attempt.holder, want.mode, now) {
                continue;
            }
            if self.next_grantee(want, None) != NextGrantee::Anyone {
                let held_by = self.records.holding(key, now);
                refused = refused.or(Some(HoldAnswer::NotHeld { key: key.clone(), held_by }));
            }
        }
        if let Some(refused) = refused {
            return refused;
        }
        let own = attempt.proposal.map(|it| it.fence);
        for want in attempt.claim.wants() {
            let admits_readers = self.records.downgrade(&want.key, attempt.holder, want.mode, now);
            self.take(want, attempt);
            if let Some(fence) = self.records.fence(&want.key, now).max(own) {
                self.agree_on(&want.key, fence, attempt);
            }
            // Even if others who share the key have greater fences by now.
            if let Some(own) = own {
                self.records.stamp(&want.key, attempt.holder, own);
            }
            if admits_readers {
                self.advance(&want.key, None);
            }
        }
        HoldAnswer::Done
    }

    /// Raises the fences of keys that the attempt holds.
    fn raise(&mut self, attempt: &Attempt) -> Fence {
        let (records, now) = (&*self.records, self.context.now);
        let named = attempt.proposal.map_or(self.context.floor, |it| it.fence);
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
            let last = self.records.fence(key, now).map_or(fence, |last| last.max(fence));
            self.agree_on(key, last, attempt);
            self.records.stamp(key, attempt.holder, fence);
        }
        fence
    }

    /// Remembers a fence on which the members of a quorum agreed, until the clock alone makes the next
    /// one greater.
    fn agree_on(&mut self, key: &Key, fence: Fence, attempt: &Attempt) {
        let used = LastFence::used(fence, self.context.now);
        self.records.remember(key, fence, attempt.ttl, used);
    }

    fn first_not_held(&self, attempt: &Attempt) -> Option<HoldAnswer> {
        let now = self.context.now;
        let key = attempt.claim.keys().find(|key| !self.records.is_held_by(key, attempt.holder, now))?;
        Some(self.not_held(key))
    }

    fn not_held(&self, key: &Key) -> HoldAnswer {
        HoldAnswer::NotHeld { key: key.clone(), held_by: self.records.holding(key, self.context.now) }
    }
}
