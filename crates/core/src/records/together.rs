//! Who holds a key: alone, or together with others.
//!
//! Those who hold together leave a marker at the key, which keeps everybody else out, and have a share each beside it. The
//! marker can be lost, or be replaced by a stranger's value; then the shares are worth nothing, and never will be again.

use std::time::Duration;

use super::{Content, Lock, Records};
use crate::{Family, Fence, Holder, HolderInfo, Key, Mode, Owner, Share, Shares, Stamp, Ttl, WaitQueue};

impl Records {
    /// How long the shares of a key are remembered after the last of them has ended: as long as a line, in which the waiters of
    /// whoever let one lie may stand.
    const SHARES_KEPT_FOR: Duration = WaitQueue::KEPT_FOR;

    pub(super) fn is_remembered(shares: &Shares, now: Stamp) -> bool {
        shares.end().is_some_and(|end| now < end + Self::SHARES_KEPT_FOR)
    }

    /// Puts the shares of a key in order, before anything else is done with it: those that have ended go, and whoever was
    /// handed one and let it lie is passed over from now on. Without the marker they all go, so that none comes back to life
    /// when others have held the key in between; without shares the marker goes.
    ///
    /// Who asks has been heard, and is passed over for nothing that it was handed.
    ///
    /// So many may have ended that some are left to the next request; until then the key [is not settled](Self::is_settled).
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
            let waits = self.line(key, now).is_some();
            if let Some((channel, line)) = channel.zip(self.lines.get_mut(key).filter(|_| waits)) {
                line.strike(channel);
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

    /// Whether no share of the key is left that has ended.
    pub(crate) fn is_settled(&self, key: &Key, now: Stamp) -> bool {
        !self.shares.get(key).is_some_and(|shares| has_ended(shares, now))
    }

    /// Who holds this key together now.
    pub(crate) fn family(&self, key: &Key, now: Stamp) -> Option<Family> {
        match self.lock(key, now)?.content {
            Content::Marker(family) => Some(family),
            _ => None,
        }
    }

    /// Whether somebody who holds nothing of the key could be given it: it is free, or held by others of the family who leave
    /// enough. The key must be settled.
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

    /// Whether somebody could be handed this key who stands first in its line.
    #[must_use]
    pub fn is_idle(&self, key: &Key, now: Stamp) -> bool {
        let mut settled = Self::default();
        settled.locks.extend(self.locks.get(key).map(|lock| (key.clone(), lock.clone())));
        settled.shares.extend(self.shares.get(key).map(|shares| (key.clone(), shares.clone())));
        settled.settle(key, None, now);
        let first = self.line(key, now).and_then(WaitQueue::first);
        first.is_some_and(|first| settled.has_room(key, first.mode, now))
    }

    /// All who hold this key now, in no particular order; several if they hold it together.
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

    /// Whether this attempt holds the key now, in whatever mode.
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

    /// Whether this attempt holds the key now as it wants it.
    pub(crate) fn is_held_in(&self, key: &Key, holder: Holder, mode: Mode, now: Stamp) -> bool {
        self.is_held_by(key, holder, now) && self.family(key, now) == mode.family()
    }

    /// A share has ended before its time: its holder is known to be dead.
    pub fn end_share(&mut self, key: &Key, holder: Holder) {
        if let Some(shares) = self.shares.get_mut(key) {
            shares.change(holder, |share| share.ends = Stamp::from_micros(0));
        }
        if let Some(Content::Marker(family)) = self.locks.get(key).map(|lock| &lock.content) {
            let family = *family;
            self.mark(key, family);
        }
    }

    /// The marker ends with the last share; without shares it goes.
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

    /// Frees a key of what this attempt holds there.
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

    /// Lets what this attempt holds of a key last until then, or longer if it does already.
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

    /// Writes down the fence of whoever holds a key together with others.
    pub(crate) fn stamp(&mut self, key: &Key, holder: Holder, fence: Fence) {
        if let Some(shares) = self.shares.get_mut(key) {
            shares.change(holder, |share| share.fence = Some(fence));
        }
    }

    /// When the key should be asked for again: at the end of its lease, or of the first share to end.
    pub(crate) fn next_end(&self, key: &Key, now: Stamp) -> Option<Stamp> {
        let lock = self.lock(key, now)?;
        match lock.content {
            Content::Marker(_) => {
                self.shares.get(key).and_then(Shares::first_to_end).map(|(_, share)| share.ends)
            }
            _ => lock.ends,
        }
    }

    /// Who holds the key now, as an onlooker sees it; of several, whose share ends first.
    pub(crate) fn holding(&self, key: &Key, now: Stamp) -> Option<HolderInfo> {
        let lock = self.lock(key, now)?;
        let (owner, fence) = match &lock.content {
            Content::Lease { holder, label, .. } => {
                (Owner::Holder { holder: *holder, label: label.clone() }, self.fence(key, now))
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

    /// All who hold the key now, as an onlooker sees them, in order of their fences.
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
