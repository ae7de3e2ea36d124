//! The records of a store.

mod queue_changes;
mod together;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub use self::queue_changes::QueueChanges;
use crate::holder::Label;
use crate::{BreakRecord, Family, Fence, Holder, Key, Mark, Shares, Stamp, Ttl, WaitQueue};

/// The content of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Content {
    /// A lease of Leasehold.
    Lease {
        /// Its holder.
        holder: Holder,
        /// Its fence. None yet if the attempt keeps the key while it waits for another one and no
        /// fence is left, or if the store has lost it.
        fence: Option<Fence>,
        /// The holder's description of itself.
        label: Option<Label>,
        /// True if a request was refused because of it, so that its end matters to others.
        awaited: bool,
    },
    /// The marker of holders that share the key. It ends with the last of their [`Shares`], which
    /// are stored next to it.
    Marker(Family),
    /// A string that is not from Leasehold. Only stores to which others write have it.
    Foreign(Arc<[u8]>),
    /// Data that is not a string, and so not a lock.
    NotALock,
}

/// The content of a key, and when it ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Lock {
    /// The content.
    pub content: Content,
    /// When it expires; our own content always does.
    pub ends: Option<Stamp>,
}

impl Lock {
    /// The content of a key until `ends`.
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
    /// A number that is ahead of a clock by more comes from no clock.
    pub const MOST_AHEAD: Duration = Duration::from_secs(24 * 3600);

    /// A fence remembered until `ends`.
    #[must_use]
    pub const fn new(fence: Fence, ends: Stamp) -> Self {
        Self { fence, ends }
    }

    /// How long a fence is remembered after its last use: twice the TTL, so that it outlives every
    /// lease that carries it, and at least ten minutes, which is more than clocks are usually set
    /// back. Then the clock's floor makes fences rise, and nothing of an unused key remains.
    #[must_use]
    pub fn kept_for(ttl: Ttl) -> Duration {
        const LEAST: Duration = Duration::from_secs(600);
        LEAST.max(ttl.duration() * 2)
    }

    /// When a fence on which the members of a quorum agreed counts as used. It is a time on the clock
    /// of one of them; if that is ahead of the clock here, the time counts and not the clock. A number
    /// that comes from no clock must not stay.
    pub(crate) fn used(agreed: Fence, now: Stamp) -> Stamp {
        let time = Stamp::from_micros(agreed.get());
        if time <= now + Self::MOST_AHEAD { time.max(now) } else { now }
    }
}

/// All records of a store, or the part that concerns a request.
///
/// A record that has ended counts as absent from that moment on, whether it was removed or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Records {
    /// The content of each key.
    pub locks: BTreeMap<Key, Lock>,
    /// The holders that share each key. Without the marker at the key they hold nothing. Ended
    /// shares are kept a little longer, so that a waiter that did not claim its hand-over can be
    /// skipped.
    pub shares: BTreeMap<Key, Shares>,
    /// The last fence of each key.
    pub fences: BTreeMap<Key, LastFence>,
    /// The queue of each key.
    pub queues: BTreeMap<Key, WaitQueue>,
    /// The marks, and until when each is kept, on the wall clock.
    pub marks: BTreeMap<Key, (Mark, Stamp)>,
    /// The last broken lease of each key, and until when its record is kept, on the wall clock.
    pub breaks: BTreeMap<Key, (BreakRecord, Stamp)>,
    /// When the store noticed that it may have forgotten leases: it was restarted, or is new.
    pub voided: Option<Stamp>,
}

impl Records {
    /// How much longer than the longest TTL a member of a quorum abstains after it may have
    /// forgotten leases: more than the rounding of any store's clock.
    pub const AFTER_MAX_TTL: Duration = Duration::from_secs(1);

    /// The current content of a key.
    #[must_use]
    pub fn lock(&self, key: &Key, now: Stamp) -> Option<&Lock> {
        self.locks.get(key).filter(|lock| lock.ends.is_none_or(|ends| now < ends))
    }

    /// The last fence of a key, while it is remembered.
    #[must_use]
    pub fn fence(&self, key: &Key, now: Stamp) -> Option<Fence> {
        self.fences.get(key).filter(|last| now < last.ends).map(|last| last.fence)
    }

    /// Remembers the fence of a grant with this TTL; never for a shorter time than the key's fence
    /// was already remembered. A lease on the key has this fence from now on.
    pub(crate) fn remember(&mut self, key: &Key, fence: Fence, ttl: Ttl, now: Stamp) {
        let ends = now + LastFence::kept_for(ttl);
        let ends = self.fences.get(key).map_or(ends, |last| last.ends.max(ends));
        self.fences.insert(key.clone(), LastFence::new(fence, ends));
        if let Some(Lock { content: Content::Lease { fence: of, .. }, .. }) = self.locks.get_mut(key) {
            *of = Some(fence);
        }
    }

    /// The queue of a key, while it is kept.
    #[must_use]
    pub fn queue(&self, key: &Key, now: Stamp) -> Option<&WaitQueue> {
        self.queues.get(key).filter(|queue| queue.ends().is_none_or(|ends| now < ends))
    }

    /// The keys with this prefix that a holder of ours has or somebody waits for, in byte order.
    #[must_use]
    pub fn keys_in_use(&self, prefix: &[u8], now: Stamp) -> Vec<Key> {
        let held = self.locks.keys().filter(|key| !self.holder_ids(key, now).is_empty());
        let waited_for =
            self.queues.keys().filter(|key| self.queue(key, now).is_some_and(|queue| !queue.is_empty()));
        let keys: BTreeSet<_> =
            held.chain(waited_for).filter(|key| key.as_bytes().starts_with(prefix)).collect();
        keys.into_iter().cloned().collect()
    }

    /// Removes marks and breaks that have ended, by the wall clock. This changes no answer; it only
    /// frees memory.
    pub fn forget_ended_marks(&mut self, wall: Stamp) {
        self.marks.retain(|_, (_, ends)| wall < *ends);
        self.breaks.retain(|_, (_, ends)| wall < *ends);
    }

    /// Removes records that have ended. This changes no answer; it only frees memory.
    pub fn forget_ended(&mut self, now: Stamp) {
        self.locks.retain(|_, lock| lock.ends.is_none_or(|ends| now < ends));
        self.fences.retain(|_, last| now < last.ends);
        self.shares.retain(|_, shares| Self::is_remembered(shares, now));
        self.queues.retain(|_, queue| queue.ends().is_none_or(|ends| now < ends));
    }
}
