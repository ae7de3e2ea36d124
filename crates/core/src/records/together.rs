//! The holders of a key: one exclusive holder, or several that share it.
//!
//! Holders that share a key leave a marker at it, which excludes everybody else, and each has a
//! share next to it. The marker can be lost, or be replaced by another program's value; then the
//! shares are void for ever.

use std::time::Duration;

use super::{Content, Lock, Records};
use crate::{
    Family, Fence, Holder, HolderInfo, Key, Mode, Owner, Share, Shares, Stamp, Successor, Ttl, WaitQueue,
};

impl Records {
    /// How long the shares of a key are kept after the last of them has ended: as long as a queue,
    /// which may still contain waiters of a process that did not claim its hand-over.
    const SHARES_KEPT_FOR: Duration = WaitQueue::KEPT_FOR;

    pub(super) fn is_remembered(shares: &Shares, now: Stamp) -> bool {
        shares.end().is_some_and(|end| now < end + Self::SHARES_KEPT_FOR)
    }

    /// Cleans up the shares of a key before anything else is done with it. Ended shares are
    /// removed, and processes that did not claim a hand-over are skipped from now on. Without the
    /// marker all shares are removed, so that none revives after others have held the key in
    /// between; without shares the marker is removed.
    ///
    /// The requester has proved that it is alive, so it is not skipped for a hand-over.
    ///
    /// If very many have ended, some are left to the next request; until then the key [is not
    /// settled](Self::is_settled).
    pub(crate) fn settle(&mut self, key: &Key, asking: Option<Holder>, now: Stamp) {
        let marked = self.family(key, now).is_some();
        let Some(mut shares) = self.shares.remove(key).filter(|shares| Self::is_remembered(shares, now))
        else {
            if marked {
                self.locks.remove(key);
            }
            return;
        };
        if let Some(asking) = asking {
            shares.change(asking, |share| share.unclaimed = None);
        }
        for _ in 0..Shares::CLEARED_AT_ONCE {
            let ended = shares.first_to_end().filter(|(_, share)| share.ends <= now);
            let Some((holder, _)) = ended else { break };
            let channel = shares.take(holder).and_then(|share| share.unclaimed);
            let waits = self.queue(key, now).is_some();
            if let Some((channel, queue)) = channel.zip(self.queues.get_mut(key).filter(|_| waits)) {
                queue.set_unresponsive(channel);
            }
        }
        if shares.is_empty() {
            if marked {
                self.locks.remove(key);
            }
        } else if marked || has_ended(&shares, now) {
            self.shares.insert(key.clone(), shares);
        }
    }

    /// Returns true if the key has no ended share left.
    pub(crate) fn is_settled(&self, key: &Key, now: Stamp) -> bool {
        !self.shares.get(key).is_some_and(|shares| has_ended(shares, now))
    }

    /// The family that shares this key now.
    pub(crate) fn family(&self, key: &Key, now: Stamp) -> Option<Family> {
        match self.lock(key, now)?.content {
            Content::Marker(family) => Some(family),
            _ => None,
        }
    }

    /// Returns true if a requester that holds nothing of the key could be granted it: it is free,
    /// or shared by the same family with enough left. The key must be settled.
    pub(crate) fn has_room(&self, key: &Key, mode: Mode, now: Stamp) -> bool {
        let Some(lock) = self.lock(key, now) else { return true };
        match (&lock.content, mode.family()) {
            (Content::Marker(held), Some(wanted)) => {
                let taken = self.shares.get(key).map_or(0, Shares::weight);
                *held == wanted && held.has_room(taken, mode.weight())
            }
            _ => false,
        }
    }

    /// Returns true if the first waiter of the key could be granted it.
    #[must_use]
    pub fn is_idle(&self, key: &Key, now: Stamp) -> bool {
        let mut settled = Self::default();
        settled.locks.extend(self.locks.get(key).map(|lock| (key.clone(), lock.clone())));
        settled.shares.extend(self.shares.get(key).map(|shares| (key.clone(), shares.clone())));
        settled.settle(key, None, now);
        let first = self.queue(key, now).and_then(WaitQueue::first);
        first.is_some_and(|first| settled.has_room(key, first.mode, now))
    }

    /// All current holders of this key, in no particular order; several if they share it.
    #[must_use]
    pub fn holder_ids(&self, key: &Key, now: Stamp) -> Vec<Holder> {
        match self.lock(key, now).map(|lock| &lock.content) {
            Some(Content::Lease { holder, .. }) => vec![*holder],
            Some(Content::Marker(_)) => {
                let shares = self.shares.get(key).into_iter().flat_map(Shares::all);
                shares.filter(|(_, share)| now < share.ends).map(|(holder, _)| holder).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns true if this attempt holds the key now, in whatever mode.
    pub(crate) fn is_held_by(&self, key: &Key, holder: Holder, now: Stamp) -> bool {
        match self.lock(key, now).map(|lock| &lock.content) {
            Some(Content::Lease { holder: owner, .. }) => *owner == holder,
            Some(Content::Marker(_)) => {
                let share = self.shares.get(key).and_then(|shares| shares.of(holder));
                share.is_some_and(|share| now < share.ends)
            }
            _ => false,
        }
    }

    /// Returns true if this attempt holds the key now in the mode that it wants.
    pub(crate) fn is_held_in(&self, key: &Key, holder: Holder, mode: Mode, now: Stamp) -> bool {
        self.is_held_by(key, holder, now) && self.family(key, now) == mode.family()
    }

    /// True if this attempt holds the key now in its mode, or wants to read what it has alone.
    pub(crate) fn is_held_for(&self, key: &Key, holder: Holder, mode: Mode, now: Stamp) -> bool {
        self.is_held_in(key, holder, mode, now)
            || mode == Mode::Shared && self.is_held_in(key, holder, Mode::Exclusive, now)
    }

    /// If the attempt wants to read a key that it has alone, makes its lease a share, which ends
    /// when the lease would have; returns true if it did. The share has the fence of the lease.
    pub(crate) fn downgrade(&mut self, key: &Key, holder: Holder, mode: Mode, now: Stamp) -> bool {
        let Some(Lock { content: Content::Lease { holder: owner, fence, label, .. }, ends }) =
            self.lock(key, now)
        else {
            return false;
        };
        if *owner != holder || mode != Mode::Shared {
            return false;
        }
        let ends = Share::whole(ends.unwrap_or(now));
        let share = Share::new(mode.weight(), *fence, label.clone(), ends);
        let mut shares = Shares::default();
        shares.put(holder, share);
        self.shares.insert(key.clone(), shares);
        self.mark(key, Family::Shared);
        true
    }

    /// Ends a share early, because its holder is known to be dead.
    pub fn end_share(&mut self, key: &Key, holder: Holder) {
        if let Some(shares) = self.shares.get_mut(key) {
            shares.change(holder, |share| share.ends = Stamp::from_micros(0));
        }
        if let Some(Content::Marker(family)) = self.locks.get(key).map(|lock| &lock.content) {
            let family = *family;
            self.mark(key, family);
        }
    }

    /// The marker ends with the last share; without shares it is removed.
    pub(crate) fn mark(&mut self, key: &Key, family: Family) {
        match self.shares.get(key).and_then(Shares::end) {
            Some(end) => {
                self.locks.insert(key.clone(), Lock::new(Content::Marker(family), Some(end)));
            }
            None => {
                self.shares.remove(key);
                self.locks.remove(key);
            }
        }
    }

    /// Releases what this attempt holds of a key.
    pub(crate) fn free(&mut self, key: &Key, holder: Holder, now: Stamp) {
        match self.family(key, now) {
            None => drop(self.locks.remove(key)),
            Some(family) => {
                if let Some(shares) = self.shares.get_mut(key) {
                    shares.take(holder);
                }
                self.mark(key, family);
            }
        }
    }

    /// Makes the successor the holder of what this attempt holds of a key.
    pub(crate) fn transfer(&mut self, key: &Key, holder: Holder, successor: &Successor, now: Stamp) {
        match self.family(key, now) {
            None => {
                if let Some(Content::Lease { holder, label, .. }) =
                    self.locks.get_mut(key).map(|lock| &mut lock.content)
                {
                    (*holder, *label) = (successor.holder, successor.label.clone());
                }
            }
            Some(_) => {
                let Some(shares) = self.shares.get_mut(key) else { return };
                if let Some(share) = shares.take(holder) {
                    shares.put(successor.holder, Share { label: successor.label.clone(), ..share });
                }
            }
        }
    }

    /// Extends what this attempt holds of a key to this time from now, unless it lasts longer
    /// already.
    pub(crate) fn prolong(&mut self, key: &Key, holder: Holder, lasts: Ttl, now: Stamp) {
        match self.family(key, now) {
            None => {
                if let Some(lock) = self.locks.get_mut(key) {
                    lock.ends = lock.ends.max(Some(now + lasts.duration()));
                }
            }
            Some(family) => {
                if let Some(shares) = self.shares.get_mut(key) {
                    shares.change(holder, |share| share.ends = share.ends.max(Share::end(now, lasts)));
                }
                self.mark(key, family);
            }
        }
    }

    /// Records the fence of a holder that shares a key.
    pub(crate) fn stamp(&mut self, key: &Key, holder: Holder, fence: Fence) {
        if let Some(shares) = self.shares.get_mut(key) {
            shares.change(holder, |share| share.fence = Some(fence));
        }
    }

    /// When to ask for the key again: at the end of its lease, or of the first share to end.
    pub(crate) fn next_end(&self, key: &Key, now: Stamp) -> Option<Stamp> {
        let lock = self.lock(key, now)?;
        match lock.content {
            Content::Marker(_) => {
                self.shares.get(key).and_then(Shares::first_to_end).map(|(_, share)| share.ends)
            }
            _ => lock.ends,
        }
    }

    /// The current holder of the key for observers; of several, the one whose share ends first.
    pub(crate) fn holding(&self, key: &Key, now: Stamp) -> Option<HolderInfo> {
        let lock = self.lock(key, now)?;
        let (owner, fence) = match &lock.content {
            Content::Lease { holder, fence, label, .. } => {
                (Owner::Holder { holder: *holder, label: label.clone() }, *fence)
            }
            Content::Marker(family) => {
                let (holder, share) = self.shares.get(key)?.by_end().find(|(_, share)| now < share.ends)?;
                return Some(together(key, *family, holder, share, now));
            }
            Content::Foreign(value) => (Owner::Foreign { value: value.clone() }, None),
            Content::NotALock => (Owner::NotALock, None),
        };
        let remaining = lock.ends.map(|ends| now.saturating_until(ends));
        Some(HolderInfo::exclusive(key.clone(), owner, fence, remaining))
    }

    /// All current holders of the key for observers, by fence.
    pub(crate) fn holders(&self, key: &Key, now: Stamp) -> Vec<HolderInfo> {
        let Some(family) = self.family(key, now) else {
            return self.holding(key, now).into_iter().collect();
        };
        let shares = self.shares.get(key).into_iter().flat_map(Shares::all);
        let mut shares: Vec<_> = shares.filter(|(_, share)| now < share.ends).collect();
        shares.sort_by_key(|(holder, share)| (share.fence, *holder));
        shares.into_iter().map(|(holder, share)| together(key, family, holder, share, now)).collect()
    }
}

fn has_ended(shares: &Shares, now: Stamp) -> bool {
    shares.first_to_end().is_some_and(|(_, share)| share.ends <= now)
}

fn together(key: &Key, family: Family, holder: Holder, share: &Share, now: Stamp) -> HolderInfo {
    let owner = Owner::Holder { holder, label: share.label.clone() };
    let remaining = Some(now.saturating_until(share.ends));
    HolderInfo::exclusive(key.clone(), owner, share.fence, remaining).in_mode(family.mode(share.weight))
}
