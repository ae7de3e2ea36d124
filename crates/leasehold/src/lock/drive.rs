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
///
/// There may be very many of these: what is known at the first look is not kept across the awaits.
pub(crate) async fn acquire(place: &Arc<Place>, terms: Box<Terms>) -> Result<Guard, LockError> {
    place.check(terms.ttl)?;
    let started = place.runtime.now();
    let seed = low_bits(place.runtime.random());
    let mut machine = Machine::new(started, terms.ttl, place.drift, terms.patience, seed);
    // Made before the first byte is sent, so that whatever comes of it is undone if this future goes.
    let mut request = Armed::new(place, *terms);
    loop {
        if let Some(reason) = place.roster.closed_because() {
            return Err(LockError::Closed { reason });
        }
        let until = match machine.next(place.runtime.now()) {
            Step::Ask => None,
            Step::WaitUntil(until) => Some(until),
            Step::Done(Outcome::Granted { lease, fence, handed }) => {
                return request.into_guard(machine.asks(), lease, fence, handed);
            }
            Step::Done(other) => return Err(request.failure(&machine, started, other)),
        };
        match until {
            None => request.ask(&mut machine).await,
            Some(until) => request.rest(&mut machine, until).await,
        }
    }
}

/// An attempt that is given up when this is dropped, unless it became a guard or certainly left nothing.
struct Armed<'a> {
    place: &'a Arc<Place>,
    attempt: Attempt,
    manner: Manner,
    renewal: Renewal,
    on_wait: Option<OnWait>,
    /// Whether the store may have something of the attempt.
    traces: bool,
}

impl<'a> Armed<'a> {
    fn new(place: &'a Arc<Place>, terms: Terms) -> Self {
        let Terms { claim, label, ttl, renewal, patience, line_limit, on_wait } = terms;
        let one_try = patience.within.is_some_and(|within| within.is_zero());
        let manner = if one_try { Manner::Try } else { Manner::Wait { line_limit } };
        let holder = leasehold_core::Holder::from_bits(place.runtime.random());
        let attempt = Attempt::new(claim, holder, label, ttl);
        Self { place, attempt, manner, renewal, on_wait, traces: false }
    }

    async fn ask(&mut self, machine: &mut Machine) {
        let manner = self.manner;
        let unsettled = std::mem::replace(&mut self.traces, true);
        let runtime = &self.place.runtime;
        machine.handle_sent(runtime.now());
        let Step::WaitUntil(limit) = machine.next(runtime.now()) else { return };
        let answer = tokio::select! {
            biased;
            answer = self.place.store.grant(&self.attempt, manner) => answer,
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
                    GrantAnswer::Busy { held_by, place } if manner != Manner::Try => {
                        self.on_wait.as_ref().map(|on_wait| {
                            let place = place.map(|place| place.before + 1);
                            (on_wait, Waiting { held_by: held_by.clone(), place })
                        })
                    }
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
        tokio::select! {
            biased;
            wake = self.place.store.woken(&self.attempt) => machine.handle_wake(self.place.runtime.now(), wake),
            () = self.place.runtime.sleep_until(until) => {}
            _ = self.place.roster.closed() => {}
        }
    }

    fn into_guard(
        mut self,
        asks: u32,
        lease: Lease,
        fence: Fence,
        handed: Option<Handed>,
    ) -> Result<Guard, LockError> {
        let (place, runtime, attempt) = (self.place, &self.place.runtime, self.attempt.clone());
        let now = runtime.now();
        let seed = low_bits(runtime.random());
        let keep = Keep::new(now, lease, attempt.ttl, place.drift, self.renewal, seed).handed(handed);
        let holding = Arc::new(Holding::new(attempt, fence, now, asks, keep.lease(), runtime.clone()));
        match place.roster.enter(holding.clone(), keep, now) {
            Ok(number) => {
                // The guard gives it up from now on.
                self.traces = false;
                Ok(Guard::new(place.clone(), holding, number, self.renewal))
            }
            Err(reason) => Err(LockError::Closed { reason }),
        }
    }

    fn failure(&self, machine: &Machine, started: Instant, outcome: Outcome) -> LockError {
        let place = self.place;
        let key = self.attempt.claim.first_key().clone();
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
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        if self.traces {
            self.place.give_up(self.attempt.clone());
        }
    }
}
