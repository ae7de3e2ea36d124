//! What a store remembers.

mod together;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::holder::Label;
use crate::{BreakRecord, Family, Fence, Holder, Key, Mark, Shares, Stamp, Ttl, WaitQueue};

/// What stands at a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Content {
    /// A lease of ours.
    Lease {
        /// Who holds it.
        holder: Holder,
        /// What the holder says of itself.
        label: Option<Label>,
        /// Whether somebody was told to wait for it, so that its end concerns others.
        awaited: bool,
    },
    /// The marker of those who hold the key together. It ends with the last of their [`Shares`], which stand beside it.
    Marker(Family),
    /// A string that is none of ours. Only stores that others write to have it.
    Foreign(Arc<[u8]>),
    /// Something that is no string, and so no lock.
    NotALock,
}

/// What stands at a key, and until when.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Lock {
    /// What stands there.
    pub content: Content,
    /// When it goes by itself; ours always does.
    pub ends: Option<Stamp>,
}

impl Lock {
    /// What stands at a key, until `ends`.
    #[must_use]
    pub const fn new(content: Content, ends: Option<Stamp>) -> Self {
        Self { content, ends }
    }
}

/// The last fence of a key, and until when it is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LastFence {
    /// The fence.
    pub fence: Fence,
    /// When it is forgotten.
    pub ends: Stamp,
}

impl LastFence {
    /// A fence remembered until `ends`.
    #[must_use]
    pub const fn new(fence: Fence, ends: Stamp) -> Self {
        Self { fence, ends }
    }

    /// How long a fence is remembered after its last use: twice the ttl, so that it outlives every lease that carries it,
    /// and ten minutes at least, which is more than clocks are usually set back. After that the clock's floor alone makes
    /// fences rise, and nothing of a key that nobody uses stays behind.
    #[must_use]
    pub fn kept_for(ttl: Ttl) -> Duration {
        const LEAST: Duration = Duration::from_secs(600);
        LEAST.max(ttl.duration() * 2)
    }
}

/// Everything that a store remembers of its keys, or the part that a request is about.
///
/// What has ended counts as absent from that very moment on, whether or not it was removed yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Records {
    /// What stands at each key.
    pub locks: BTreeMap<Key, Lock>,
    /// Those who hold each key together. Without the marker at the key they hold nothing; those that ended are remembered a
    /// little longer, so that who let a hand-over lie can be passed over.
    pub shares: BTreeMap<Key, Shares>,
    /// The last fence of each key.
    pub fences: BTreeMap<Key, LastFence>,
    /// Who waits for each key.
    pub lines: BTreeMap<Key, WaitQueue>,
    /// What was done, and until when that is remembered, on the wall clock.
    pub marks: BTreeMap<Key, (Mark, Stamp)>,
    /// Which lease of each key was broken last, and until when that is remembered, on the wall clock.
    pub breaks: BTreeMap<Key, (BreakRecord, Stamp)>,
    /// When the store noticed that it may have forgotten leases: it was started anew, or for the first time.
    pub voided: Option<Stamp>,
}

impl Records {
    /// How much longer than the longest ttl a member of a quorum abstains after it may have forgotten leases: more than the
    /// rounding of any store's clock.
    pub const AFTER_MAX_TTL: Duration = Duration::from_secs(1);

    /// What stands at a key now.
    #[must_use]
    pub fn lock(&self, key: &Key, now: Stamp) -> Option<&Lock> {
        self.locks.get(key).filter(|lock| lock.ends.is_none_or(|ends| now < ends))
    }

    /// The last fence of a key, while it is remembered.
    #[must_use]
    pub fn fence(&self, key: &Key, now: Stamp) -> Option<Fence> {
        self.fences.get(key).filter(|last| now < last.ends).map(|last| last.fence)
    }

    /// Remembers the fence of a grant with this ttl; never for a shorter time than a fence of the key was remembered before.
    pub(crate) fn remember(&mut self, key: &Key, fence: Fence, ttl: Ttl, now: Stamp) {
        let ends = now + LastFence::kept_for(ttl);
        let ends = self.fences.get(key).map_or(ends, |last| last.ends.max(ends));
        self.fences.insert(key.clone(), LastFence::new(fence, ends));
    }

    /// Who waits for a key, while that is remembered.
    #[must_use]
    pub fn line(&self, key: &Key, now: Stamp) -> Option<&WaitQueue> {
        self.lines.get(key).filter(|line| line.ends().is_none_or(|ends| now < ends))
    }

    /// The keys that begin with a prefix and are held by one of ours or waited for, in byte order.
    #[must_use]
    pub fn keys_in_use(&self, prefix: &[u8], now: Stamp) -> Vec<Key> {
        let held = self.locks.keys().filter(|key| !self.holder_ids(key, now).is_empty());
        let waited_for =
            self.lines.keys().filter(|key| self.line(key, now).is_some_and(|line| !line.is_empty()));
        let keys: BTreeSet<_> =
            held.chain(waited_for).filter(|key| key.as_bytes().starts_with(prefix)).collect();
        keys.into_iter().cloned().collect()
    }

    /// Removes marks and breaks that have ended, by the wall clock. Changes no answer; it only frees memory.
    pub fn forget_ended_marks(&mut self, wall: Stamp) {
        self.marks.retain(|_, (_, ends)| wall < *ends);
        self.breaks.retain(|_, (_, ends)| wall < *ends);
    }

    /// Removes what has ended. Changes no answer; it only frees memory.
    pub fn forget_ended(&mut self, now: Stamp) {
        self.locks.retain(|_, lock| lock.ends.is_none_or(|ends| now < ends));
        self.fences.retain(|_, last| now < last.ends);
        self.shares.retain(|_, shares| Self::is_remembered(shares, now));
        self.lines.retain(|_, line| line.ends().is_none_or(|ends| now < ends));
    }
}

#[cfg(test)]
mod tests;
