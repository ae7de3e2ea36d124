//! Runs one acquisition: asks what the machine says, tells it what came back.

use std::fmt;
use std::sync::Arc;

use leasehold_core::{
    Acquire as Machine, Attempt, Claim, Fault, FaultKind, Fence, GrantAnswer, Handed, Instant, Keep, Label,
    Lease, Manner, Outcome, Patience, Renewal, Step, Ttl,
};

use super::acquire::Waiting;
use super::guard::Guard;
use super::holding::Holding;
use crate::error::LockError;
use crate::place::{Place, low_bits};

/// What is asked for, and how.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) claim: Claim,
    pub(crate) label: Option<Label>,
    pub(crate) ttl: Ttl,
    pub(crate) renewal: Renewal,
    pub(crate) patience: Patience,
    pub(crate) line_limit: Option<u64>,
    pub(crate) on_wait: Option<OnWait>,
}

/// Whom to tell that the request waits.
#[derive(Clone)]
pub(crate) struct OnWait(pub(crate) Arc<dyn Fn(&Waiting) + Send + Sync>);

impl fmt::Debug for OnWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnWait")
    }
}

/// Waits for the lock on these terms.
///
/// Cancel safe: dropped at any await, it gives the attempt up in the background.
pub(crate) async fn acquire(place: &Arc<Place>, terms: Terms) -> Result<Guard, LockError> {
    place.admit(&terms.claim, terms.ttl)?;
    let one_try = terms.patience.within.is_some_and(|within| within.is_zero());
    let manner = if one_try { Manner::Try } else { Manner::Wait { line_limit: terms.line_limit } };
    let started = place.runtime.now();
    let seed = low_bits(place.runtime.random());
    let mut machine = Machine::new(started, terms.ttl, place.drift, terms.patience, seed);
    // Made before the first byte is sent, so that whatever comes of it is undone if this future goes.
    let mut request = Armed::new(place, &terms);
    loop {
        if let Some(reason) = place.roster.closed_because() {
            return Err(LockError::Closed { reason });
        }
        let now = place.runtime.now();
        match machine.next(now) {
            Step::Ask => request.ask(&mut machine, manner, terms.on_wait.as_ref()).await,
            Step::WaitUntil(until) => request.rest(&mut machine, until).await,
            Step::Done(outcome) => {
                return match outcome {
                    Outcome::Granted { lease, fence, handed } => {
                        request.into_guard(&terms, machine.asks(), lease, fence, handed)
                    }
                    other => Err(failure(place, &terms, &machine, started, other)),
                };
            }
        }
    }
}

fn failure(place: &Place, terms: &Terms, machine: &Machine, started: Instant, outcome: Outcome) -> LockError {
    let key = terms.claim.first_key().clone();
    let waited = place.runtime.now().saturating_since(started);
    let attempts = machine.asks();
    match outcome {
        Outcome::Busy { held_by, before } => {
            let key = held_by.as_ref().map_or(key, |held_by| held_by.key.clone());
            let place = before.map(|before| before + 1);
            LockError::TimedOut { key, held_by: held_by.map(Box::new), place, waited, attempts }
        }
        Outcome::LineFull { held_by, length } => {
            LockError::LineFull { key: held_by.key.clone(), held_by: Box::new(held_by), length }
        }
        Outcome::Silent { fault: Some(Fault { tally: Some(tally), .. }) } => {
            LockError::NoQuorum { key, tally, waited, attempts }
        }
        Outcome::Silent { fault } => {
            LockError::Unreachable { key, store: place.store.name().into(), fault, waited, attempts }
        }
        Outcome::Refused(fault) => LockError::Refused { key, fault },
        Outcome::NotALock { key } => LockError::NotALock { key },
        Outcome::FencesSpent { key } => LockError::FencesSpent { key },
        Outcome::Granted { .. } => unreachable!("a grant is made a guard"),
    }
}

/// An attempt that is given up when this is dropped, unless it became a guard or certainly left nothing.
struct Armed<'a> {
    place: &'a Arc<Place>,
    attempt: Option<Attempt>,
    /// Whether the store may have something of the attempt.
    traces: bool,
}

impl<'a> Armed<'a> {
    fn new(place: &'a Arc<Place>, terms: &Terms) -> Self {
        let holder = leasehold_core::Holder::from_bits(place.runtime.random());
        let attempt = Attempt::new(terms.claim.clone(), holder, terms.label.clone(), terms.ttl);
        Self { place, attempt: Some(attempt), traces: false }
    }

    async fn ask(&mut self, machine: &mut Machine, manner: Manner, on_wait: Option<&OnWait>) {
        let Some(attempt) = &self.attempt else { return };
        let unsettled = std::mem::replace(&mut self.traces, true);
        let runtime = &self.place.runtime;
        machine.handle_sent(runtime.now());
        let Step::WaitUntil(limit) = machine.next(runtime.now()) else { return };
        let answer = tokio::select! {
            biased;
            answer = self.place.store.grant(attempt, manner) => answer,
            // The machine finds by itself that the time is up.
            () = runtime.sleep_until(limit) => return,
        };
        let now = runtime.now();
        match answer {
            Ok(answer) => {
                // One definite refusal of a single try leaves nothing behind, and nothing need be undone.
                self.traces =
                    unsettled || manner != Manner::Try || matches!(answer, GrantAnswer::Granted { .. });
                let waiting = match &answer {
                    GrantAnswer::Busy { held_by, place } if manner != Manner::Try => on_wait.map(|on_wait| {
                        let place = place.map(|place| place.before + 1);
                        (on_wait, Waiting { held_by: held_by.clone(), place })
                    }),
                    _ => None,
                };
                machine.handle_answer(now, answer);
                if let Some((OnWait(tell), waiting)) = waiting {
                    tell(&waiting);
                }
            }
            Err(fault) => {
                self.traces = unsettled || fault.kind == FaultKind::Passing;
                machine.handle_fault(now, fault);
            }
        }
    }

    async fn rest(&self, machine: &mut Machine, until: Instant) {
        let Some(attempt) = &self.attempt else { return };
        tokio::select! {
            biased;
            wake = self.place.store.woken(attempt) => machine.handle_wake(self.place.runtime.now(), wake),
            () = self.place.runtime.sleep_until(until) => {}
            _ = self.place.roster.closed() => {}
        }
    }

    fn into_guard(
        mut self,
        terms: &Terms,
        asks: u32,
        lease: Lease,
        fence: Fence,
        handed: Option<Handed>,
    ) -> Result<Guard, LockError> {
        let (place, runtime) = (self.place, &self.place.runtime);
        let now = runtime.now();
        let seed = low_bits(runtime.random());
        let keep = Keep::new(now, lease, terms.ttl, place.drift, terms.renewal, seed).handed(handed);
        let Some(attempt) = self.attempt.clone() else { unreachable!("taken only below") };
        let holding = Holding::new(attempt, fence, now, asks, keep.lease(), runtime.clone());
        let holding = Arc::new(holding);
        match place.roster.enter(holding.clone(), keep, now) {
            Ok(number) => {
                self.attempt = None;
                Ok(Guard::new(place.clone(), holding, number, terms.renewal))
            }
            Err(reason) => Err(LockError::Closed { reason }),
        }
    }
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        if let Some(attempt) = self.attempt.take().filter(|_| self.traces) {
            self.place.give_up(attempt);
        }
    }
}
