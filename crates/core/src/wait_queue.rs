//! The queue of a key: its waiters in order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::time::Duration;

use crate::holder::Label;
use crate::{Holder, Mode, Stamp, Ttl};

/// A permanent place in a queue: the smaller ticket came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

impl Ticket {
    /// The ticket of this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number: microseconds of the store's clock at the time of joining, or one more than the
    /// previous ticket.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The address at which a process is notified that a lock was handed to one of its waiters: a
/// channel of a server, or a socket of a machine.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(Arc<[u8]>);

impl Channel {
    /// The channel of this name. A name that begins with `?` is that of a [silent](Self::silent) one.
    #[must_use]
    pub fn new(name: impl AsRef<[u8]>) -> Self {
        Self(name.as_ref().into())
    }

    /// The channel of a process that cannot be notified: 48 random bits. Nobody listens there; it only
    /// shows which waiters are of the same process.
    #[must_use]
    pub fn silent(process: u64) -> Self {
        Self::new(format!("{}{:012x}", char::from(Self::SILENT), process & ((1 << 48) - 1)))
    }

    /// Returns true for the channel of a process that cannot be notified.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.0.first() == Some(&Self::SILENT)
    }

    const SILENT: u8 = b'?';

    /// The name.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Channel({})", self.0.escape_ascii())
    }
}

/// A secret of one request. The store keeps it with the waiter's place in the queue, and repeats it
/// only in the push that grants the lock. So a publisher that cannot read the records of the key
/// cannot forge a grant.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nonce(Holder);

impl Nonce {
    /// A nonce of 128 bits, which must come from a cryptographic generator.
    #[must_use]
    pub const fn from_bits(bits: u128) -> Self {
        Self(Holder::from_bits(bits))
    }

    /// 32 hexadecimal digits, as stores keep it. Not for people and not for logs.
    #[must_use]
    pub fn digit_bytes(self) -> [u8; Holder::DIGITS] {
        self.0.digit_bytes()
    }

    /// Reads what [`Nonce::digit_bytes`] wrote; `None` for anything else.
    #[must_use]
    pub fn from_digits(digits: &[u8]) -> Option<Self> {
        Holder::from_digits(digits).map(Self)
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce(…)")
    }
}

/// Everything that a store must know of a waiter to hand the lock over to it without asking.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct QueueEntry {
    /// The waiter.
    pub holder: Holder,
    /// The waiter's description of itself.
    pub label: Option<Label>,
    /// The mode in which it wants the key.
    pub mode: Mode,
    /// How long its lease is to last.
    pub ttl: Ttl,
    /// The channel on which it is notified of its turn; silent, or `None` if its process is not known
    /// either, if it only learns that when it asks again.
    pub channel: Option<Channel>,
    /// The secret that the push of a grant must repeat, if the waiter requires one.
    pub nonce: Option<Nonce>,
    /// True if the claim has other keys too, so that this key is not yet the whole grant.
    pub wants_more: bool,
}

impl QueueEntry {
    /// A waiter, as a store recorded it.
    #[must_use]
    pub const fn new(
        holder: Holder,
        label: Option<Label>,
        mode: Mode,
        ttl: Ttl,
        channel: Option<Channel>,
        wants_more: bool,
    ) -> Self {
        Self { holder, label, mode, ttl, channel, nonce: None, wants_more }
    }

    /// The same waiter, which accepts only a grant that repeats this secret.
    #[must_use]
    pub fn with_nonce(self, nonce: Option<Nonce>) -> Self {
        Self { nonce, ..self }
    }

    /// The channel on which it can be notified.
    pub(crate) fn listens_on(&self) -> Option<&Channel> {
        self.channel.as_ref().filter(|channel| !channel.is_silent())
    }
}

/// A lock that was handed over and whose new holder has not confirmed it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Unclaimed {
    /// The new holder.
    pub holder: Holder,
    /// The channel of the notification.
    pub channel: Option<Channel>,
}

/// The waiters of a key, in the order in which they joined.
///
/// Joining, leaving and looking up cost O(log n).
///
/// A store that keeps its queues elsewhere may load a part of one: the first few waiters, the
/// requester, and the last waiter, with the numbers of waiters left out between them
/// ([`WaitQueue::leave_out`]). A request on that part is correct unless the queue [is
/// short](WaitQueue::is_short) afterwards: then load a greater part, and apply the request again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitQueue {
    /// Of two waiters with the same ticket, the smaller id is first. Boxed, because almost half of
    /// the places of a tree that only grows at its end are free.
    waiters: BTreeMap<(Ticket, Holder), Box<QueueEntry>>,
    tickets: HashMap<Holder, Ticket>,
    /// The number of waiters that were left out directly before a place.
    left_out: BTreeMap<(Ticket, Holder), u64>,
    /// Set if a waiter that was left out was needed.
    missed: bool,
    unclaimed: Option<Unclaimed>,
    unresponsive: BTreeSet<Channel>,
    /// When the queue is deleted if nobody asks again.
    ends: Option<Stamp>,
}

impl WaitQueue {
    /// How long a lock that was handed over may remain unclaimed. A process that cannot be reached,
    /// although its connection seems to work, delays the queue for this time, once. The new holder
    /// sends a renewal after a third of this at the latest, so two answers of half a second each
    /// may be lost.
    pub const CLAIM_WINDOW: Duration = Duration::from_secs(2);

    /// The longest interval at which a process asks again for waiters that should be notified: for
    /// this time, a lost wake-up may remain unnoticed.
    pub const RE_ASK: Duration = Duration::from_secs(5);

    /// How long a queue is kept without any request. Three times [`WaitQueue::RE_ASK`]: two
    /// requests may get lost.
    pub const KEPT_FOR: Duration = Duration::from_secs(15);

    /// The number of waiters that are searched for one of another process, which will be notified
    /// of when a hand-over must have been claimed.
    pub const LOOKED_AHEAD: usize = 8;

    /// The most waiters, gone but still in the queue, that one request removes: few enough not to
    /// delay other requests.
    pub const CLEARED_AT_ONCE: usize = 100;

    /// Adds a waiter: at the place of its ticket if it has one, otherwise where it is already,
    /// otherwise at the end. Its data is replaced by the new data.
    ///
    /// New tickets count microseconds of the store's clock, or one more than the last ticket if the
    /// clock stops or steps back. So they rise even if the queue was lost in between.
    pub fn join(&mut self, waiter: QueueEntry, ticket: Option<Ticket>, now: Stamp) -> Ticket {
        let ticket = self.tickets.get(&waiter.holder).copied().or(ticket).unwrap_or_else(|| {
            let above = self.waiters.last_key_value().map_or(0, |((last, _), _)| last.0 + 1);
            Ticket(above.max(now.as_micros()))
        });
        self.tickets.insert(waiter.holder, ticket);
        self.waiters.insert((ticket, waiter.holder), Box::new(waiter));
        ticket
    }

    /// Removes a waiter.
    pub fn leave(&mut self, holder: Holder) -> Option<QueueEntry> {
        let ticket = self.tickets.remove(&holder)?;
        self.waiters.remove(&(ticket, holder)).map(|waiter| *waiter)
    }

    /// Removes the first waiter.
    pub(crate) fn pop(&mut self) -> Option<QueueEntry> {
        self.first()?;
        let (_, waiter) = self.waiters.pop_first()?;
        self.tickets.remove(&waiter.holder);
        Some(*waiter)
    }

    /// The first waiter; `None` if it was left out.
    #[must_use]
    pub fn first(&self) -> Option<&QueueEntry> {
        self.waiters.first_key_value().map(|(_, waiter)| &**waiter).filter(|_| !self.is_short())
    }

    /// Notes that this many waiters directly before a place are not loaded. The last waiter must
    /// always be loaded, because new tickets are counted from its ticket.
    pub fn leave_out(&mut self, waiters: u64, before: (Ticket, Holder)) {
        if waiters > 0 {
            self.left_out.insert(before, waiters);
        }
    }

    /// Returns true if the first waiters are not loaded.
    #[must_use]
    pub fn is_short(&self) -> bool {
        let missing = self.left_out.first_key_value().map(|(place, _)| place);
        self.missed
            || missing.is_some_and(|missing| {
                self.waiters.first_key_value().is_none_or(|(first, _)| missing <= first)
            })
    }

    /// The waiter that is to ask if a lock that was handed over on this channel has not been
    /// claimed. It is the first of a few waiters on another channel, because other waiters on this
    /// channel may be as dead as the new holder; otherwise the first waiter.
    pub(crate) fn witness(&mut self, channel: Option<&Channel>) -> Option<QueueEntry> {
        let missing = self.left_out.first_key_value().map(|(place, _)| *place);
        let known =
            self.waiters.iter().take_while(|(place, _)| missing.is_none_or(|missing| **place < missing));
        let mut looked_at = 0;
        let elsewhere = known.take(Self::LOOKED_AHEAD).find(|(_, waiter)| {
            looked_at += 1;
            waiter.listens_on().is_some() && waiter.channel.as_ref() != channel
        });
        let elsewhere = elsewhere.map(|(_, waiter)| QueueEntry::clone(waiter));
        self.missed |= elsewhere.is_none() && looked_at < Self::LOOKED_AHEAD && missing.is_some();
        elsewhere.or_else(|| self.first().cloned())
    }

    /// The loaded waiters with their tickets, first come first.
    pub fn waiters(&self) -> impl ExactSizeIterator<Item = (Ticket, &QueueEntry)> {
        self.waiters.iter().map(|((ticket, _), waiter)| (*ticket, &**waiter))
    }

    /// The ticket of a waiter.
    #[must_use]
    pub fn ticket(&self, holder: Holder) -> Option<Ticket> {
        self.tickets.get(&holder).copied()
    }

    /// The number of waiters before this one, if it is in the queue.
    #[must_use]
    pub fn before(&self, holder: Holder) -> Option<u64> {
        let place = (self.ticket(holder)?, holder);
        // A waiter that has just joined is mostly the last.
        let behind = self.waiters.range((Excluded(place), Unbounded));
        if behind.clone().next().is_none() {
            return Some(self.len() as u64 - 1);
        }
        let left_out: u64 = self.left_out.range(..=place).map(|(_, waiters)| waiters).sum();
        Some(self.waiters.range(..place).count() as u64 + left_out)
    }

    /// The number of waiters.
    #[must_use]
    pub fn len(&self) -> usize {
        let left_out: u64 = self.left_out.values().sum();
        self.waiters.len() + usize::try_from(left_out).unwrap_or(usize::MAX)
    }

    /// Returns true if nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty() && self.left_out.is_empty()
    }

    /// The holder to which the lock was handed over and which has not confirmed it.
    #[must_use]
    pub const fn unclaimed(&self) -> Option<&Unclaimed> {
        self.unclaimed.as_ref()
    }

    /// Notes that the lock was handed over to a holder, which has yet to confirm it.
    pub fn hand_to(&mut self, holder: Holder, channel: Option<Channel>) {
        self.unclaimed = Some(Unclaimed { holder, channel });
    }

    /// Notes that the new holder has confirmed the hand-over.
    pub(crate) fn claimed_by(&mut self, holder: Holder) {
        self.unclaimed.take_if(|unclaimed| unclaimed.holder == holder);
    }

    /// Notes that the new holder let the hand-over end: everybody on its channel is skipped now.
    pub(crate) fn set_unclaimed_unresponsive(&mut self) {
        if let Some(Unclaimed { channel: Some(channel), .. }) = self.unclaimed.take() {
            self.unresponsive.insert(channel);
        }
    }

    /// The channels that are skipped.
    pub fn unresponsive(&self) -> impl Iterator<Item = &Channel> {
        self.unresponsive.iter()
    }

    /// Skips a channel from now on.
    pub fn set_unresponsive(&mut self, channel: Channel) {
        self.unresponsive.insert(channel);
    }

    /// Notes a request from this channel: hand-overs there will be received.
    pub(crate) fn heard_from(&mut self, channel: Option<&Channel>) {
        if let Some(channel) = channel {
            self.unresponsive.remove(channel);
            self.unclaimed.take_if(|unclaimed| unclaimed.channel.as_ref() == Some(channel));
        }
    }

    pub(crate) fn is_unresponsive(&self, waiter: &QueueEntry) -> bool {
        waiter.channel.as_ref().is_some_and(|channel| self.unresponsive.contains(channel))
    }

    /// When the queue is deleted if nobody asks again.
    #[must_use]
    pub const fn ends(&self) -> Option<Stamp> {
        self.ends
    }

    /// Keeps the queue until `ends`, unless it is kept longer already.
    pub fn keep_until(&mut self, ends: Stamp) {
        self.ends = self.ends.max(Some(ends));
    }
}

/// The tickets by holder contain nothing that the waiters do not contain.
impl Hash for WaitQueue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { waiters, tickets: _, left_out, missed, unclaimed, unresponsive, ends } = self;
        (waiters, left_out, missed, unclaimed, unresponsive, ends).hash(state);
    }
}

#[cfg(test)]
mod tests;
