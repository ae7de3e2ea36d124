//! The waiters of a key, in order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::time::Duration;

use crate::holder::Label;
use crate::{Holder, Mode, Stamp, Ttl};

/// A place in a line for good: whoever has the smaller ticket came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

impl Ticket {
    /// The ticket of this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number: microseconds of the store's clock at the joining, or one more than the ticket before.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Where a process hears that a lock was handed to one of its waiters: a channel of a server, a socket of a machine.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(Arc<[u8]>);

impl Channel {
    /// The channel of this name.
    #[must_use]
    pub fn new(name: impl AsRef<[u8]>) -> Self {
        Self(name.as_ref().into())
    }

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

/// A secret of one ask. The store keeps it with the waiter's place in line, and repeats it in the push that grants, and nowhere
/// else. So a publisher who cannot read the records of the key cannot forge a grant.
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

/// All that a store must know of a waiter to hand it the lock without asking.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct QueueEntry {
    /// Who waits.
    pub holder: Holder,
    /// What the waiter says of itself.
    pub label: Option<Label>,
    /// How it wants the key.
    pub mode: Mode,
    /// How long its lease is to last.
    pub ttl: Ttl,
    /// Where it hears of its turn; `None`: it hears of it when it asks again.
    pub channel: Option<Channel>,
    /// What the push that grants must repeat, if the waiter demands that.
    pub nonce: Option<Nonce>,
    /// Whether the claim has other keys as well, so that this one is not yet the grant.
    pub wants_more: bool,
}

impl QueueEntry {
    /// A waiter, as a store wrote it down.
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

    /// The same waiter, who believes only a grant that repeats this.
    #[must_use]
    pub fn with_nonce(self, nonce: Option<Nonce>) -> Self {
        Self { nonce, ..self }
    }
}

/// A lock that was handed over and whose new holder has not been heard since.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Unclaimed {
    /// To whom.
    pub holder: Holder,
    /// On which channel it was told.
    pub channel: Option<Channel>,
}

/// The waiters of a key, in order of joining.
///
/// Joining, leaving and looking up cost O(log n).
///
/// A store that keeps its lines elsewhere may load a part of one: the first few, who asks, and the last, with the others as
/// numbers between them ([`WaitQueue::leave_out`]). What it does with that part is right unless the line [is short](WaitQueue::is_short)
/// afterwards: then more of it must be loaded, and the request applied anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitQueue {
    /// Of two waiters with one ticket the smaller id stands first.
    waiters: BTreeMap<(Ticket, Holder), QueueEntry>,
    tickets: HashMap<Holder, Ticket>,
    /// How many waiters were left out directly before a place.
    left_out: BTreeMap<(Ticket, Holder), u64>,
    /// Whether somebody who was left out should have been looked at.
    missed: bool,
    unclaimed: Option<Unclaimed>,
    struck: BTreeSet<Channel>,
    /// When the line is forgotten, if nobody asks again.
    ends: Option<Stamp>,
}

impl WaitQueue {
    /// How long a lock that was handed over may remain unclaimed. A process that cannot be reached, though its connection
    /// seems to stand, keeps the line waiting this long, once. Whoever is handed a lock asks the store to renew it after a
    /// third of this at the latest, and may miss two answers of half a second.
    pub const CLAIM_WINDOW: Duration = Duration::from_secs(2);

    /// How often, at most, a process asks again for a waiter that ought to be told: this is how long a wake-up that was lost
    /// goes unnoticed.
    pub const RE_ASK: Duration = Duration::from_secs(5);

    /// How long a line is remembered without being asked about. Three times [`WaitQueue::RE_ASK`]: two asks may go astray.
    pub const KEPT_FOR: Duration = Duration::from_secs(15);

    /// Among so many it is looked for one of another process, to be told when a hand-over must have been claimed.
    pub const LOOKED_AHEAD: usize = 8;

    /// The most waiters, gone but still in line, that one request clears away: few enough to delay no other request.
    pub const CLEARED_AT_ONCE: usize = 100;

    /// Puts a waiter in line: at its ticket's place if it has one, else where it stands already, else at the end. The standing
    /// is taken as it is now.
    ///
    /// New tickets count microseconds of the store's clock, and one more than the last where that stands still or steps back:
    /// so they also rise when the line was lost in between.
    pub fn join(&mut self, standing: QueueEntry, ticket: Option<Ticket>, now: Stamp) -> Ticket {
        let ticket = self.tickets.get(&standing.holder).copied().or(ticket).unwrap_or_else(|| {
            let above = self.waiters.last_key_value().map_or(0, |((last, _), _)| last.0 + 1);
            Ticket(above.max(now.as_micros()))
        });
        self.tickets.insert(standing.holder, ticket);
        self.waiters.insert((ticket, standing.holder), standing);
        ticket
    }

    /// Takes a waiter out.
    pub fn leave(&mut self, holder: Holder) -> Option<QueueEntry> {
        let ticket = self.tickets.remove(&holder)?;
        self.waiters.remove(&(ticket, holder))
    }

    /// Takes out who is first.
    pub(crate) fn pop(&mut self) -> Option<QueueEntry> {
        self.first()?;
        let (_, standing) = self.waiters.pop_first()?;
        self.tickets.remove(&standing.holder);
        Some(standing)
    }

    /// Who is first; nobody if that one was left out.
    #[must_use]
    pub fn first(&self) -> Option<&QueueEntry> {
        self.waiters.first_key_value().map(|(_, standing)| standing).filter(|_| !self.is_short())
    }

    /// So many waiters who stand directly before a place are not here. The last waiter always must be, because the tickets of
    /// those who join are counted on from its own.
    pub fn leave_out(&mut self, waiters: u64, before: (Ticket, Holder)) {
        if waiters > 0 {
            self.left_out.insert(before, waiters);
        }
    }

    /// Whether those who stand first are not here.
    #[must_use]
    pub fn is_short(&self) -> bool {
        let missing = self.left_out.first_key_value().map(|(place, _)| place);
        self.missed
            || missing.is_some_and(|missing| {
                self.waiters.first_key_value().is_none_or(|(first, _)| missing <= first)
            })
    }

    /// Who is to ask when a lock that was handed to somebody on this channel has not been claimed: the first of a few who listen
    /// elsewhere, as whoever listens there may be as dead as that one; else the first.
    pub(crate) fn witness(&mut self, channel: Option<&Channel>) -> Option<QueueEntry> {
        let missing = self.left_out.first_key_value().map(|(place, _)| *place);
        let known =
            self.waiters.iter().take_while(|(place, _)| missing.is_none_or(|missing| **place < missing));
        let mut looked_at = 0;
        let elsewhere = known.take(Self::LOOKED_AHEAD).find(|(_, standing)| {
            looked_at += 1;
            standing.channel.is_some() && standing.channel.as_ref() != channel
        });
        let elsewhere = elsewhere.map(|(_, standing)| standing.clone());
        self.missed |= elsewhere.is_none() && looked_at < Self::LOOKED_AHEAD && missing.is_some();
        elsewhere.or_else(|| self.first().cloned())
    }

    /// The waiters that are here, first come first, each with its ticket.
    pub fn waiters(&self) -> impl ExactSizeIterator<Item = (Ticket, &QueueEntry)> {
        self.waiters.iter().map(|((ticket, _), standing)| (*ticket, standing))
    }

    /// The ticket of who stands in line.
    #[must_use]
    pub fn ticket(&self, holder: Holder) -> Option<Ticket> {
        self.tickets.get(&holder).copied()
    }

    /// How many stand before a waiter, if it is in line.
    #[must_use]
    pub fn before(&self, holder: Holder) -> Option<u64> {
        let place = (self.ticket(holder)?, holder);
        // Who has just joined is mostly the last.
        let behind = self.waiters.range((Excluded(place), Unbounded));
        if behind.clone().next().is_none() {
            return Some(self.len() as u64 - 1);
        }
        let left_out: u64 = self.left_out.range(..=place).map(|(_, waiters)| waiters).sum();
        Some(self.waiters.range(..place).count() as u64 + left_out)
    }

    /// How many stand in line.
    #[must_use]
    pub fn len(&self) -> usize {
        let left_out: u64 = self.left_out.values().sum();
        self.waiters.len() + usize::try_from(left_out).unwrap_or(usize::MAX)
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty() && self.left_out.is_empty()
    }

    /// To whom the lock was handed that has not been heard since.
    #[must_use]
    pub const fn unclaimed(&self) -> Option<&Unclaimed> {
        self.unclaimed.as_ref()
    }

    /// Notes that the lock was handed to somebody, who is yet to be heard.
    pub fn hand_to(&mut self, holder: Holder, channel: Option<Channel>) {
        self.unclaimed = Some(Unclaimed { holder, channel });
    }

    /// Who was handed the lock has been heard.
    pub(crate) fn claimed_by(&mut self, holder: Holder) {
        self.unclaimed.take_if(|unclaimed| unclaimed.holder == holder);
    }

    /// Who was handed the lock has let it end: whoever listens where it did is passed over from now on.
    pub(crate) fn strike_unclaimed(&mut self) {
        if let Some(Unclaimed { channel: Some(channel), .. }) = self.unclaimed.take() {
            self.struck.insert(channel);
        }
    }

    /// The channels that are passed over.
    pub fn struck(&self) -> impl Iterator<Item = &Channel> {
        self.struck.iter()
    }

    /// Passes a channel over.
    pub fn strike(&mut self, channel: Channel) {
        self.struck.insert(channel);
    }

    /// Somebody was heard who listens there: whoever was handed the lock there will hear of it.
    pub(crate) fn heard_from(&mut self, channel: Option<&Channel>) {
        if let Some(channel) = channel {
            self.struck.remove(channel);
            self.unclaimed.take_if(|unclaimed| unclaimed.channel.as_ref() == Some(channel));
        }
    }

    pub(crate) fn is_struck(&self, standing: &QueueEntry) -> bool {
        standing.channel.as_ref().is_some_and(|channel| self.struck.contains(channel))
    }

    /// When the line is forgotten if nobody asks again.
    #[must_use]
    pub const fn ends(&self) -> Option<Stamp> {
        self.ends
    }

    /// Remembers the line until `ends`, or longer if it was to be.
    pub fn keep_until(&mut self, ends: Stamp) {
        self.ends = self.ends.max(Some(ends));
    }
}

/// The tickets by holder say nothing that the waiters do not.
impl Hash for WaitQueue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { waiters, tickets: _, left_out, missed, unclaimed, struck, ends } = self;
        (waiters, left_out, missed, unclaimed, struck, ends).hash(state);
    }
}

#[cfg(test)]
mod tests;
