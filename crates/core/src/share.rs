//! Shares: the holdings of several holders of one key.

use std::collections::{BTreeMap, BTreeSet};

use crate::holder::Label;
use crate::{Channel, Fence, Holder, Stamp, Ttl};

/// The share of one holder of a key that several hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Share {
    /// How much it takes.
    pub weight: u32,
    /// Its fence; `None` while its holder still waits for other keys of its claim.
    pub fence: Option<Fence>,
    /// The holder's description of itself.
    pub label: Option<Label>,
    /// When it expires, in whole milliseconds.
    pub ends: Stamp,
    /// For a share that was handed over and not confirmed yet: the channel of the notification.
    pub unclaimed: Option<Channel>,
}

impl Share {
    /// A share that takes this much, until `ends`.
    #[must_use]
    pub const fn new(weight: u32, fence: Option<Fence>, label: Option<Label>, ends: Stamp) -> Self {
        Self { weight, fence, label, ends, unclaimed: None }
    }

    /// The end of a share that is to last this long from now. It is rounded up to a whole
    /// millisecond, as servers count, so that all stores agree which of two shares ends first.
    #[must_use]
    pub fn end(now: Stamp, lasts: Ttl) -> Stamp {
        Self::whole(now) + lasts.duration()
    }

    /// This moment, rounded up to a whole millisecond.
    pub(crate) fn whole(at: Stamp) -> Stamp {
        Stamp::from_micros(at.as_micros().div_ceil(1000).saturating_mul(1000))
    }

    /// The same share, handed over to a holder on this channel that has yet to confirm it.
    #[must_use]
    pub fn unclaimed_at(self, channel: Option<Channel>) -> Self {
        Self { unclaimed: channel, ..self }
    }
}

/// All shares of a key.
///
/// Adding, removing, the sum, and the first or last end cost O(log n).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shares {
    by_holder: BTreeMap<Holder, Share>,
    by_end: BTreeSet<(Stamp, Holder)>,
    weight: u64,
}

impl Shares {
    /// The most ended shares that one request removes: few enough not to delay other requests.
    pub const CLEARED_AT_ONCE: usize = 100;

    /// The share of a holder.
    #[must_use]
    pub fn of(&self, holder: Holder) -> Option<&Share> {
        self.by_holder.get(&holder)
    }

    /// Sets the share of a holder.
    pub fn put(&mut self, holder: Holder, share: Share) {
        self.take(holder);
        self.weight += u64::from(share.weight);
        self.by_end.insert((share.ends, holder));
        self.by_holder.insert(holder, share);
    }

    /// Removes the share of a holder.
    pub fn take(&mut self, holder: Holder) -> Option<Share> {
        let share = self.by_holder.remove(&holder)?;
        self.weight -= u64::from(share.weight);
        self.by_end.remove(&(share.ends, holder));
        Some(share)
    }

    /// Changes the share of a holder, if it has one.
    pub fn change(&mut self, holder: Holder, change: impl FnOnce(&mut Share)) {
        if let Some(mut share) = self.take(holder) {
            change(&mut share);
            self.put(holder, share);
        }
    }

    /// All shares, in order of their holders' ids.
    pub fn all(&self) -> impl ExactSizeIterator<Item = (Holder, &Share)> {
        self.by_holder.iter().map(|(holder, share)| (*holder, share))
    }

    /// How much all of them take.
    #[must_use]
    pub const fn weight(&self) -> u64 {
        self.weight
    }

    /// All shares in order of their ends; with equal ends, the smaller id first.
    pub(crate) fn by_end(&self) -> impl Iterator<Item = (Holder, &Share)> {
        self.by_end.iter().filter_map(|(_, holder)| Some((*holder, self.by_holder.get(holder)?)))
    }

    /// The first share to end.
    #[must_use]
    pub fn first_to_end(&self) -> Option<(Holder, &Share)> {
        self.by_end().next()
    }

    /// When the last share ends.
    #[must_use]
    pub fn end(&self) -> Option<Stamp> {
        self.by_end.last().map(|(ends, _)| *ends)
    }

    /// Returns true if there are no shares.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_holder.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_and_the_ends_follow_every_change() {
        let holder = Holder::from_bits;
        let share = |weight, ends| Share::new(weight, None, None, Stamp::from_micros(ends));
        let mut shares = Shares::default();
        shares.put(holder(1), share(2, 50));
        shares.put(holder(2), share(3, 40));
        shares.put(holder(1), share(1, 70));
        assert_eq!((shares.weight(), shares.end()), (4, Some(Stamp::from_micros(70))));
        assert_eq!(shares.first_to_end().map(|(first, _)| first), Some(holder(2)));
        shares.change(holder(2), |share| share.ends = Stamp::from_micros(70));
        shares.change(holder(3), |share| share.weight = 9);
        assert_eq!(shares.first_to_end().map(|(first, _)| first), Some(holder(1)));
        assert_eq!(shares.take(holder(1)).map(|share| share.weight), Some(1));
        assert_eq!((shares.weight(), shares.all().count(), shares.take(holder(1))), (3, 1, None));
        shares.take(holder(2));
        assert_eq!(shares, Shares::default());
    }
}
