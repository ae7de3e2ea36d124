//! One attempt, from before the first byte is sent until it is a guard, or nothing.

use std::sync::Arc;

use leasehold_core::{
    Acquire as Machine, Attempt, FaultKind, Fence, GrantAnswer, Handed, Holder, Instant, Keep, Lease, Manner,
    Outcome, Renewal, Step, Tenancy,
};

use super::acquire::Waiting;
use super::drive::{OnWait, Terms, failure};
use super::guard::Guard;
use super::holding::Holding;
use crate::error::LockError;
use crate::event::Event;
use crate::place::{Place, low_bits};
use crate::report::{Span, outcome};

/// An attempt that is given up when this is dropped, unless it became a guard or certainly left nothing.
pub(super) struct Armed<'a> {
    place: &'a Arc<Place>,
    span: &'a Span,
    started: Instant,
    attempt: Option<Attempt>,
    manner: Manner,
    renewal: Renewal,
    on_wait: Option<OnWait>,
    /// Whether the store may have something of the attempt.
    traces: bool,
    /// Whether it was ever asked with.
    asked: bool,
    /// How often it was refused and waited on.
    refusals: u32,
    /// What was told of that last. In a box: mostly nobody listens, and very many may wait.
    told: Option<Box<Waiting>>,
}

impl<'a> Armed<'a> {
    pub(super) fn new(place: &'a Arc<Place>, terms: Terms, started: Instant, span: &'a Span) -> Self {
        let Terms { claim, label, ttl, signal, renewal, patience, line_limit, on_wait } = terms;
        let one_try = patience.within.is_some_and(|within| within.is_zero());
        let manner = if one_try { Manner::Try } else { Manner::Wait { line_limit } };
        let holder = Holder::from_bits(place.runtime.random());
        Self {
            place,
            span,
            started,
            attempt: Some(Attempt::new(claim, holder, label, ttl).with_signal(signal)),
            manner,
            renewal,
            on_wait,
            traces: false,
            asked: false,
            refusals: 0,
            told: None,
        }
    }

    pub(super) async fn ask(&mut self, machine: &mut Machine) {
        let (Some(attempt), manner) = (&self.attempt, self.manner) else { return };
        let unsettled = std::mem::replace(&mut self.traces, true);
        self.asked = true;
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
        self.place.report.answered(&answer);
        match answer {
            Ok(answer) => {
                // One definite refusal of a single try leaves nothing behind, and nothing need be undone.
                self.traces =
                    unsettled || manner != Manner::Try || matches!(answer, GrantAnswer::Granted { .. });
                let waiting = match &answer {
                    GrantAnswer::Busy { held_by, place } if manner != Manner::Try => {
                        let place = place.map(|place| place.before + 1);
                        Some(Waiting { held_by: held_by.clone(), place })
                    }
                    _ => None,
                };
                machine.handle_answer(now, answer);
                if let Some(waiting) = waiting {
                    self.place.roster.concern();
                    self.tell_waiting(now, &waiting);
                    self.on_wait.iter().for_each(|OnWait(tell)| tell(&waiting));
                }
            }
            Err(fault) => {
                self.place.roster.concern();
                self.traces = unsettled || fault.kind == FaultKind::Passing;
                machine.handle_fault(now, fault);
            }
        }
    }

    pub(super) async fn rest(&self, machine: &mut Machine, until: Instant) {
        let Some(attempt) = &self.attempt else { return };
        tokio::select! {
            biased;
            wake = self.place.store.woken(attempt) => machine.handle_wake(self.place.runtime.now(), wake),
            () = self.place.runtime.sleep_until(until) => {}
            _ = self.place.roster.closed() => {}
        }
    }

    /// It was refused, and waits on. Only what is another than before is told.
    fn tell_waiting(&mut self, now: Instant, waiting: &Waiting) {
        self.refusals = self.refusals.saturating_add(1);
        let same = |told: &Waiting| told.place == waiting.place && is_same(&told.held_by, &waiting.held_by);
        let Some(attempt) = self.attempt.as_ref().filter(|_| !self.told.as_deref().is_some_and(same)) else {
            return;
        };
        let told = self.place.report.tell(|| Event::Waiting {
            who: attempt.into(),
            held_by: waiting.held_by.clone(),
            place: waiting.place,
            waited: now.saturating_since(self.started),
            refusals: self.refusals,
        });
        self.told = told.then(|| Box::new(waiting.clone()));
    }

    pub(super) fn into_guard(
        mut self,
        asks: u32,
        lease: Lease,
        fence: Fence,
        handed: Option<Handed>,
    ) -> Result<Guard, LockError> {
        let (place, runtime) = (self.place, &self.place.runtime);
        let now = runtime.now();
        let seed = low_bits(runtime.random());
        let Some(attempt) = self.attempt.clone() else { unreachable!("taken only below") };
        let ttl = attempt.ttl;
        let keep = Keep::new(now, lease, ttl, place.drift, self.renewal, seed).handed(handed);
        let holding = Holding::new(attempt, fence, now, asks, keep.lease(), runtime.clone());
        let holding = Arc::new(holding);
        let waited = now.saturating_since(self.started);
        self.span.ends(waited, "acquired");
        let acquired = || Event::Acquired {
            who: (&holding.attempt).into(),
            fence,
            ttl,
            waited,
            attempts: asks,
            refusals: self.refusals,
        };
        match place.roster.enter(holding.clone(), keep, now, acquired) {
            Ok(number) => {
                self.attempt = None;
                Ok(Guard::new(place.clone(), holding, number, self.renewal))
            }
            Err(reason) => Err(self.fails(LockError::Closed { reason })),
        }
    }

    /// It ends without a guard.
    pub(super) fn refused(self, attempts: u32, outcome: Outcome) -> LockError {
        let waited = self.place.runtime.now().saturating_since(self.started);
        let Some(attempt) = &self.attempt else { unreachable!("taken only by what ends it") };
        let key = attempt.claim.first_key().clone();
        let error = failure(self.place, key, waited, attempts, outcome);
        self.fails(error)
    }

    /// It ends with this error.
    pub(super) fn fails(mut self, error: LockError) -> LockError {
        self.ends(Some(&error));
        error
    }

    fn ends(&mut self, why: Option<&LockError>) {
        let Some(attempt) = self.attempt.take() else { return };
        let waited = self.place.runtime.now().saturating_since(self.started);
        self.span.ends(waited, outcome(why));
        if self.asked {
            self.place.report.tell(|| Event::GaveUp {
                who: (&attempt).into(),
                why: why.map(|why| Arc::new(why.clone())),
                waited,
                refusals: self.refusals,
            });
        }
        if self.traces {
            self.place.give_up(attempt);
        }
    }
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        self.ends(None);
    }
}

/// The same holding, whatever is left of it by now.
fn is_same(one: &Tenancy, other: &Tenancy) -> bool {
    one.key == other.key && one.tenant == other.tenant && one.fence == other.fence
}
