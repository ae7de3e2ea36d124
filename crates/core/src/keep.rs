//! From the grant to the release, or to the loss.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::{Backoff, Drift, Handed, HoldAnswer, HolderInfo, Instant, Key, Lease, Ttl};

/// Whether and for how long a lease is renewed while its guard lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Renewal {
    /// As long as the guard lives. The default: work often takes longer than planned, and a holder that died stops renewing.
    #[default]
    Automatic,
    /// As long as the guard lives, but no longer than this in all; then the lease is lost. For work that may hang.
    AtMost(Duration),
    /// Not by itself: the lease lasts one ttl, unless the guard is told to renew.
    Off,
}

/// Why a lease is held no more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// It ran out before a renewal was answered.
    Expired {
        /// What the store last said to a renewal, if that was a fault.
        fault: Option<Arc<str>>,
    },
    /// It was held for as long as [`Renewal::AtMost`] allows.
    HeldTooLong {
        /// The longest hold.
        at_most: Duration,
    },
    /// The store says that somebody else holds the key.
    TakenByOther {
        /// Who.
        held_by: HolderInfo,
    },
    /// The store has no such lease any more: it was deleted, it expired there, or the store lost its state.
    Gone {
        /// The key.
        key: Key,
    },
    /// Somebody broke the lease.
    Broken {
        /// The key.
        key: Key,
    },
    /// This process stopped keeping its locks.
    Closed {
        /// Why.
        reason: Arc<str>,
    },
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { fault: None } => write!(f, "the lease ended without having been renewed"),
            Self::Expired { fault: Some(fault) } => {
                write!(f, "the lease ended, and could not be renewed: {fault}")
            }
            Self::HeldTooLong { at_most } => write!(f, "the longest hold of {at_most:?} has ended"),
            Self::TakenByOther { held_by } => write!(f, "{} is held by {held_by}", held_by.key),
            Self::Gone { key } => {
                write!(
                    f,
                    "{key}: the store has the lease no more (expired there, deleted, or the store lost its state)"
                )
            }
            Self::Broken { key } => write!(f, "{key}: somebody broke the lease"),
            Self::Closed { reason } => write!(f, "the lease is kept no more: {reason}"),
        }
    }
}

impl std::error::Error for Loss {}

/// What to do next for a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever handles these must handle all of them")]
pub enum Keeping {
    /// Nothing before this instant, or before an answer.
    WaitUntil(Instant),
    /// Ask the store to renew with this ttl, and report [`Keep::handle_sent`] just before.
    Renew(Ttl),
    /// It is lost, for good.
    Lost(Loss),
}

/// The machine of one lease.
///
/// Invariant: the end that it believes only ever comes from an answer, counted from before its request was sent; a fault
/// moves it neither way.
#[derive(Clone, Debug)]
pub struct Keep {
    lease: Lease,
    ttl: Ttl,
    drift: Drift,
    renewal: Renewal,
    granted: Instant,
    /// When the last request that was answered had been sent.
    confirmed: Instant,
    /// When it last asked, or will, because it heard that the lease was broken.
    hinted: Instant,
    /// How long the lease is that was handed over in line, until the first renewal is answered.
    unclaimed: Option<Ttl>,
    asking: Option<(Instant, Ttl)>,
    /// In boxes, as the loss is: they are rare, and there may be very many of these.
    doubt: Option<Box<Doubt>>,
    loss: Option<Box<Loss>>,
}

/// How far the asks are apart that words of a broken lease bring about: whoever floods a holder with such words does not make it
/// flood the store.
const BETWEEN_ASKS: Duration = Duration::from_millis(150);

/// What makes it doubtful whether the store still has the lease, until a renewal is answered.
#[derive(Clone, Debug, Default, Hash)]
struct Doubt {
    /// How many renewals ended in a fault.
    faults: u32,
    /// The last one.
    fault: Option<Arc<str>>,
    /// When to ask, until that is done; whatever is due besides.
    ask: Option<Instant>,
    /// When it was heard that somebody broke a lease of this holder.
    broken: Option<Instant>,
}

impl Keep {
    /// Keeps a lease that was granted now.
    #[must_use]
    pub fn new(now: Instant, lease: Lease, ttl: Ttl, drift: Drift, renewal: Renewal) -> Self {
        let mut keep = Self {
            lease,
            ttl,
            drift,
            renewal,
            granted: now,
            confirmed: now,
            hinted: Instant::from_nanos(0),
            unclaimed: None,
            asking: None,
            doubt: None,
            loss: None,
        };
        if let Some(limit) = keep.limit() {
            keep.lease = lease.ending_by(limit);
        }
        keep
    }

    /// The lease was handed over in line: it is renewed soon, once at least, and as often as need be until then.
    #[must_use]
    pub fn handed(self, handed: Option<Handed>) -> Self {
        let Some(Handed { since, lasts }) = handed else { return self };
        Self { confirmed: since, unclaimed: Some(lasts), ..self }
    }

    /// Until when the lease is believed.
    #[must_use]
    pub const fn lease(&self) -> Lease {
        self.lease
    }

    /// How long the lease lasts without renewal.
    #[must_use]
    pub const fn ttl(&self) -> Ttl {
        self.ttl
    }

    /// Whether and for how long it is renewed.
    #[must_use]
    pub const fn renewal(&self) -> Renewal {
        self.renewal
    }

    /// When the lease was granted.
    #[must_use]
    pub const fn granted(&self) -> Instant {
        self.granted
    }

    /// Why the lease is lost, if it is.
    #[must_use]
    pub fn loss(&self) -> Option<&Loss> {
        self.loss.as_deref()
    }

    /// A renewal is about to be sent.
    pub fn handle_sent(&mut self, now: Instant, ttl: Ttl) {
        self.asking = Some((now, ttl));
        if let Some(doubt) = &mut self.doubt {
            doubt.ask = None;
        }
    }

    /// The renewal under way was answered.
    pub fn handle_answer(&mut self, now: Instant, answer: HoldAnswer) {
        let Some((sent, ttl)) = self.asking.take() else { return };
        self.confirm(now, sent, ttl, answer);
    }

    /// A renewal that the holder asked for itself was answered; its ttl is the lease's from now on.
    pub fn handle_own_renewal(&mut self, now: Instant, sent: Instant, ttl: Ttl, answer: HoldAnswer) {
        if answer == HoldAnswer::Done {
            self.ttl = ttl;
        }
        self.confirm(now, sent, ttl, answer);
    }

    /// The renewal under way ended in a fault. The lease is as good as before; it is asked again. `chance`, of all numbers, spreads the
    /// retries; it need not be secret.
    pub fn handle_fault(&mut self, now: Instant, fault: Arc<str>, chance: u64) {
        self.asking = None;
        let term = self.term().duration();
        let doubt = self.doubt.get_or_insert_default();
        let rest = Backoff::WHILE_SILENT.delay(doubt.faults, chance);
        // With a short ttl a second is too long to rest: at least four retries fit into what is left after a first miss.
        doubt.ask = Some(now + rest.min(term / 8));
        doubt.faults += 1;
        doubt.fault = Some(fault);
    }

    /// Somebody said that a lease of this holder was broken. It may be an earlier one, and it may be a lie: the store is asked, and its
    /// answer believed.
    pub fn handle_broken(&mut self, now: Instant) {
        let at = now.max(self.hinted + BETWEEN_ASKS);
        let doubt = self.doubt.get_or_insert_default();
        doubt.broken = Some(now);
        // A store that has not answered lately is asked again soon anyway.
        self.hinted = self.hinted.max(*doubt.ask.get_or_insert(at));
    }

    /// This process stops keeping the lease.
    pub fn handle_close(&mut self, reason: Arc<str>) {
        self.loss.get_or_insert_with(|| Box::new(Loss::Closed { reason }));
    }

    /// What to do next.
    pub fn next(&mut self, now: Instant) -> Keeping {
        if self.loss.is_none() && !self.lease.is_held(now) {
            self.loss = Some(Box::new(self.end_of_lease()));
        }
        if let Some(loss) = &self.loss {
            return Keeping::Lost(Loss::clone(loss));
        }
        let end = self.lease.end();
        let Some(ttl) = self.worth_asking(now) else { return Keeping::WaitUntil(end) };
        if self.asking.is_some() {
            return Keeping::WaitUntil(end);
        }
        let ask = self.doubt.as_ref().and_then(|doubt| doubt.ask);
        let due = ask.unwrap_or(self.confirmed + self.term().duration() / 3);
        if now < due { Keeping::WaitUntil(due.min(end)) } else { Keeping::Renew(ttl) }
    }

    /// How long the lease is without another renewal.
    fn term(&self) -> Ttl {
        self.unclaimed.unwrap_or(self.ttl)
    }

    /// The ttl of a renewal that would make the lease last longer; `None` when none may or would. The shortest makes no lease last
    /// longer, but says whether there is one.
    fn worth_asking(&self, now: Instant) -> Option<Ttl> {
        let is_doubtful = self.is_said_to_be_broken();
        self.worth_renewing(now).or_else(|| is_doubtful.then(|| self.ttl.up_to(Duration::ZERO)))
    }

    fn worth_renewing(&self, now: Instant) -> Option<Ttl> {
        match self.renewal {
            Renewal::Automatic => Some(self.ttl),
            Renewal::Off => self.unclaimed.map(|_| self.ttl),
            Renewal::AtMost(_) => {
                let limit = self.limit()?;
                (self.lease.end() < limit).then(|| self.ttl.up_to(limit.saturating_since(now)))
            }
        }
    }

    fn limit(&self) -> Option<Instant> {
        match self.renewal {
            Renewal::AtMost(at_most) => Some(self.granted + at_most),
            _ => None,
        }
    }

    fn confirm(&mut self, now: Instant, sent: Instant, ttl: Ttl, answer: HoldAnswer) {
        match answer {
            HoldAnswer::Done => {
                // An answer that comes when the lease has been given up for lost does not bring it back.
                if self.loss.is_none() && self.lease.is_held(now) {
                    self.confirmed = self.confirmed.max(sent);
                    self.unclaimed = None;
                    // What was heard after it was sent may be true all the same.
                    self.doubt.take_if(|doubt| doubt.broken.is_none_or(|heard| heard <= sent));
                    self.believe(Lease::counted_from(sent, ttl, self.drift));
                }
            }
            HoldAnswer::NotHeld { key, held_by } => {
                let loss = match held_by {
                    _ if self.is_said_to_be_broken() => Loss::Broken { key },
                    None => Loss::Gone { key },
                    Some(held_by) => Loss::TakenByOther { held_by },
                };
                self.loss.get_or_insert_with(|| Box::new(loss));
            }
        }
    }

    fn is_said_to_be_broken(&self) -> bool {
        self.doubt.as_ref().is_some_and(|doubt| doubt.broken.is_some())
    }

    /// No renewal shortens what the store keeps, so of two answers the one with the later end holds, in whatever order they
    /// were given. A longest hold ends the belief to the instant, although renewals ask in whole milliseconds.
    fn believe(&mut self, lease: Lease) {
        let lease = self.limit().map_or(lease, |limit| lease.ending_by(limit));
        if lease.end() > self.lease.end() {
            self.lease = lease;
        }
    }

    fn end_of_lease(&self) -> Loss {
        let fault = self.doubt.as_ref().and_then(|doubt| doubt.fault.clone());
        match self.renewal {
            // The drift of the last lease ends the hold a little before the limit: nothing could have made it longer.
            Renewal::AtMost(at_most) if fault.is_none() => Loss::HeldTooLong { at_most },
            _ => Loss::Expired { fault },
        }
    }
}

/// Two that hash alike decide alike from here on: when it was granted and confirmed counts only by what is due after that.
impl Hash for Keep {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { lease, ttl, drift, renewal, unclaimed, asking, doubt, loss, .. } = self;
        (lease, ttl, drift, renewal, unclaimed, asking, doubt, loss).hash(state);
        (self.limit(), self.hinted + BETWEEN_ASKS, self.confirmed + self.term().duration() / 3).hash(state);
    }
}

#[cfg(test)]
mod tests;
