//! The state machine of a lease: from the grant to the release, or to the loss.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::{Backoff, Drift, Fault, Handed, HoldAnswer, Instant, Lease, Loss, QuorumReport, Ttl};

/// The renewal of a lease while its guard exists.
///
/// ```
/// # use leasehold_core::Renewal;
/// # use std::time::Duration;
/// let work_that_may_hang = Renewal::AtMost(Duration::from_secs(3600));
/// assert_eq!(Renewal::default(), Renewal::Automatic);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[doc(alias = "watchdog")]
#[doc(alias = "heartbeat")]
pub enum Renewal {
    /// While the guard exists. This is the default: work often takes longer than planned, and a
    /// dead holder stops renewing.
    #[default]
    Automatic,
    /// While the guard exists, but no longer than this in all; then the lease is lost. For work
    /// that may hang.
    AtMost(Duration),
    /// No automatic renewal: the lease lasts one TTL, unless the program renews it with its guard. A
    /// lock that was handed over in a queue, or adopted, is renewed once, which confirms it.
    Off,
}

/// The next step for a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every variant")]
pub enum RenewalStep {
    /// Nothing before this instant, or before an answer.
    WaitUntil(Instant),
    /// Ask the store to renew with this ttl, and report [`LeaseRenewal::handle_sent`] just before.
    Renew(Ttl),
    /// It is lost for good.
    Lost(Loss),
}

/// The state machine of one lease.
///
/// Invariant: the end of the lease comes only from an answer, counted from before its request was
/// sent; a fault does not move the end in either direction.
#[derive(Clone, Debug)]
pub struct LeaseRenewal {
    lease: Lease,
    ttl: Ttl,
    drift: Drift,
    renewal: Chosen,
    /// When the last answered request was sent.
    confirmed: Instant,
    /// The length of a lease that was handed over or adopted, until the first renewal is answered.
    unclaimed: Option<Ttl>,
    asking: Option<(Instant, Ttl)>,
    /// Boxed, like the loss: they are rare, and there may be very many leases.
    doubt: Option<Box<Doubt>>,
    loss: Option<Box<Loss>>,
}

/// The renewal that the program chose. The longest hold is boxed: it is rare, and there may be very
/// many leases.
#[derive(Clone, Debug, Hash)]
enum Chosen {
    Automatic,
    AtMost(Box<LongestHold>),
    Off,
}

#[derive(Clone, Debug, Hash)]
struct LongestHold {
    length: Duration,
    /// When the lease is lost.
    limit: Instant,
}

/// The shortest time between requests that reports of a broken lease cause: somebody who floods a
/// holder with such reports must not make it flood the store.
const BETWEEN_ASKS: Duration = Duration::from_millis(150);

/// The reasons to ask the store before the lease is due, until a renewal is answered; and when it
/// was last asked for one of them.
#[derive(Clone, Debug, Default, Hash)]
struct Doubt {
    /// The number of renewals that ended in a fault.
    faults: u32,
    /// The last fault.
    fault: Option<Box<Fault>>,
    /// When to ask, whatever else is due; reset when that is done.
    ask: Option<Instant>,
    /// When a report came that somebody broke a lease of this holder.
    broken: Option<Instant>,
    /// When it last asked, or will ask, because of such a report.
    hinted: Option<Instant>,
    /// The lease is to become that of a reader, which the store has not confirmed yet.
    downgrade: Option<Downgrade>,
}

/// A renewal in flight may have been sent before the holder became a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Downgrade {
    /// No renewal in flight says so.
    Unsent,
    /// The renewal in flight says so.
    Sent,
}

impl LeaseRenewal {
    /// Starts keeping a lease whose grant was answered now.
    #[must_use]
    pub fn new(now: Instant, lease: Lease, ttl: Ttl, drift: Drift, renewal: Renewal) -> Self {
        let renewal = match renewal {
            Renewal::Automatic => Chosen::Automatic,
            Renewal::AtMost(length) => Chosen::AtMost(Box::new(LongestHold { length, limit: now + length })),
            Renewal::Off => Chosen::Off,
        };
        let mut machine = Self {
            lease,
            ttl,
            drift,
            renewal,
            confirmed: lease.sent(ttl, drift),
            unclaimed: None,
            asking: None,
            doubt: None,
            loss: None,
        };
        if let Some(limit) = machine.limit() {
            machine.lease = lease.ending_by(limit);
        }
        machine
    }

    /// For a lease that was handed over in the queue: it is renewed soon, and until that succeeds.
    #[must_use]
    pub fn handed(self, handed: Option<Handed>) -> Self {
        let Some(Handed { since, lasts }) = handed else { return self };
        Self { confirmed: since, unclaimed: Some(lasts), ..self }
    }

    /// The lease as its holder may rely on it.
    #[must_use]
    pub const fn lease(&self) -> Lease {
        self.lease
    }

    /// How long the lease lasts without renewal.
    #[must_use]
    pub const fn ttl(&self) -> Ttl {
        self.ttl
    }

    /// The drift between the clocks of the holder and the store.
    #[must_use]
    pub const fn drift(&self) -> Drift {
        self.drift
    }

    /// The renewal of the lease.
    #[must_use]
    pub fn renewal(&self) -> Renewal {
        match &self.renewal {
            Chosen::Automatic => Renewal::Automatic,
            Chosen::AtMost(longest) => Renewal::AtMost(longest.length),
            Chosen::Off => Renewal::Off,
        }
    }

    /// Why the lease is lost, if it is.
    #[must_use]
    pub fn loss(&self) -> Option<&Loss> {
        self.loss.as_deref()
    }

    /// Notes that a renewal is about to be sent.
    pub fn handle_sent(&mut self, now: Instant, ttl: Ttl) {
        self.asking = Some((now, ttl));
        if let Some(doubt) = &mut self.doubt {
            doubt.ask = None;
            doubt.downgrade = doubt.downgrade.map(|_| Downgrade::Sent);
        }
    }

    /// Handles the answer to the current renewal.
    pub fn handle_answer(&mut self, now: Instant, answer: HoldAnswer) {
        let Some((sent, ttl)) = self.asking.take() else { return };
        self.confirm(now, sent, ttl, answer);
    }

    /// Handles the answer to a renewal that the holder requested itself; its TTL is the lease's TTL
    /// from now on.
    pub fn handle_own_renewal(&mut self, now: Instant, sent: Instant, ttl: Ttl, answer: HoldAnswer) {
        if answer == HoldAnswer::Done {
            self.ttl = ttl;
        }
        self.confirm(now, sent, ttl, answer);
    }

    /// Handles a fault of the current renewal. The lease is unchanged, and the renewal is retried.
    /// `chance`, any number, spreads the retries; it need not be secret.
    pub fn handle_fault(&mut self, now: Instant, fault: Fault, chance: u64) {
        self.asking = None;
        let term = self.term().duration();
        let doubt = self.doubt.get_or_insert_default();
        doubt.downgrade = doubt.downgrade.map(|_| Downgrade::Unsent);
        let rest = Backoff::WHILE_SILENT.delay(doubt.faults, chance);
        // With a short TTL, a second is too long a pause: at least four retries fit into the time
        // that is left after a first fault.
        doubt.ask = Some(now + rest.min(term / 8));
        doubt.faults += 1;
        doubt.fault = Some(Box::new(fault));
    }

    /// Notes how the members of a quorum voted in the answer that was handled last.
    pub fn handle_votes(&mut self, quorum_report: Arc<QuorumReport>) {
        self.loss.iter_mut().for_each(|loss| loss.explain(&quorum_report));
    }

    /// Handles a report that a lease of this holder was broken. It may concern an earlier lease,
    /// and it may be false: the store is asked, and its answer counts.
    pub fn handle_broken(&mut self, now: Instant) {
        let doubt = self.doubt.get_or_insert_default();
        let at = doubt.hinted.map_or(now, |hinted| now.max(hinted + BETWEEN_ASKS));
        doubt.broken = Some(now);
        // A store that has not answered lately is asked again soon anyway.
        doubt.hinted = doubt.hinted.max(Some(*doubt.ask.get_or_insert(at)));
    }

    /// Handles that the holder becomes a reader: from now on every renewal says so, and the store
    /// is asked until it has confirmed one, even if the lease is not renewed otherwise. Until then
    /// it may exclude others as before, which is safe.
    pub fn handle_downgrade(&mut self, now: Instant) {
        let doubt = self.doubt.get_or_insert_default();
        doubt.downgrade = Some(Downgrade::Unsent);
        doubt.ask.get_or_insert(now);
    }

    /// Handles that the lease was adopted: it is renewed at once, and at least once. From then on, a
    /// store that frees the locks of dead processes knows whose it is.
    pub fn handle_adopted(&mut self, now: Instant) {
        self.unclaimed = Some(self.ttl);
        self.doubt.get_or_insert_default().ask = Some(now);
    }

    /// Stops keeping the lease, because this process closes its locks.
    pub fn handle_close(&mut self, reason: Arc<str>) {
        self.loss.get_or_insert_with(|| Box::new(Loss::Closed { reason }));
    }

    /// The next step.
    pub fn next(&mut self, now: Instant) -> RenewalStep {
        if self.loss.is_none() && !self.lease.is_held(now) {
            self.loss = Some(Box::new(self.end_of_lease()));
        }
        if let Some(loss) = &self.loss {
            return RenewalStep::Lost(Loss::clone(loss));
        }
        let end = self.lease.end();
        let Some(ttl) = self.worth_asking(now) else { return RenewalStep::WaitUntil(end) };
        if self.asking.is_some() {
            return RenewalStep::WaitUntil(end);
        }
        let ask = self.doubt.as_ref().and_then(|doubt| doubt.ask);
        let due = ask.unwrap_or(self.confirmed + self.term().duration() / 3);
        if now < due { RenewalStep::WaitUntil(due.min(end)) } else { RenewalStep::Renew(ttl) }
    }

    /// How long the lease lasts without another renewal: its TTL, or less until a lease that was
    /// handed over is renewed first.
    #[must_use]
    pub fn term(&self) -> Ttl {
        self.unclaimed.unwrap_or(self.ttl)
    }

    /// The TTL of a renewal that would extend the lease, or tell or ask the store something; `None`
    /// if none may or would.
    fn worth_asking(&self, now: Instant) -> Option<Ttl> {
        self.worth_renewing(now).or_else(|| {
            let doubt = self.doubt.as_ref()?;
            // The shortest TTL extends no lease, but its answer says whether there is one.
            if doubt.broken.is_some() || self.unclaimed.is_some() {
                return Some(self.ttl.up_to(Duration::ZERO));
            }
            doubt.downgrade.map(|_| self.ttl.up_to(self.lease.end().saturating_since(now)))
        })
    }

    fn worth_renewing(&self, now: Instant) -> Option<Ttl> {
        match &self.renewal {
            Chosen::Automatic => Some(self.ttl),
            Chosen::Off => self.unclaimed.map(|_| self.ttl),
            Chosen::AtMost(longest) => (self.lease.end() < longest.limit)
                .then(|| self.ttl.up_to(longest.limit.saturating_since(now))),
        }
    }

    fn limit(&self) -> Option<Instant> {
        match &self.renewal {
            Chosen::AtMost(longest) => Some(longest.limit),
            Chosen::Automatic | Chosen::Off => None,
        }
    }

    fn confirm(&mut self, now: Instant, sent: Instant, ttl: Ttl, answer: HoldAnswer) {
        match answer {
            HoldAnswer::Done => {
                // An answer that comes after the lease was declared lost does not restore it.
                if self.loss.is_none() && self.lease.is_held(now) {
                    self.confirmed = self.confirmed.max(sent);
                    self.unclaimed = None;
                    // A report that came after this renewal was sent may still be true, and that
                    // renewal may still have been a writer's.
                    let settled = self.doubt.take_if(|doubt| {
                        doubt.broken.is_none_or(|heard| heard <= sent)
                            && doubt.downgrade != Some(Downgrade::Unsent)
                    });
                    if let Some(Doubt { hinted: Some(hinted), .. }) = settled.as_deref() {
                        self.doubt = Some(Box::new(Doubt { hinted: Some(*hinted), ..Doubt::default() }));
                    }
                    self.believe(Lease::counted_from(sent, ttl, self.drift));
                }
            }
            HoldAnswer::NotHeld { key, held_by } => {
                let loss = if self.doubt.as_ref().is_some_and(|doubt| doubt.broken.is_some()) {
                    Loss::Broken { key, quorum_report: None }
                } else {
                    Loss::not_held(key, held_by)
                };
                self.loss.get_or_insert_with(|| Box::new(loss));
            }
        }
    }

    /// No renewal shortens what the store keeps, so of two answers the one with the later end
    /// counts, in whatever order they came. A longest hold ends the lease at an exact instant,
    /// although renewals request whole milliseconds.
    fn believe(&mut self, lease: Lease) {
        let lease = self.limit().map_or(lease, |limit| lease.ending_by(limit));
        if lease.end() > self.lease.end() {
            self.lease = lease;
        }
    }

    fn end_of_lease(&self) -> Loss {
        let fault = self.doubt.as_ref().and_then(|doubt| doubt.fault.clone());
        // The drift of the last lease ends the hold a little before the limit, so compare the request.
        let reached = self.confirmed + self.term().duration();
        match &self.renewal {
            Chosen::AtMost(longest) if fault.is_none() && longest.limit <= reached => {
                Loss::HeldTooLong { at_most: longest.length }
            }
            _ => Loss::Expired { fault },
        }
    }
}

/// Two machines with equal hashes decide the same from here on: the time of the last confirmation
/// matters only for what is due after it.
impl Hash for LeaseRenewal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { lease, ttl, drift, renewal, unclaimed, asking, doubt, loss, .. } = self;
        (lease, ttl, drift, renewal, unclaimed, asking, doubt, loss).hash(state);
        (self.confirmed + self.term().duration() / 3).hash(state);
    }
}

#[cfg(test)]
mod tests;
