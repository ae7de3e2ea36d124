//! Runs one acquisition: asks the store when the state machine says so, and passes the answers to
//! it, until the attempt has become a guard or has been given up.

use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold_core::{
    Acquire as Machine, Attempt, Fault, GrantAnswer, Granted, Holder, Instant, LeaseRenewal, NotGranted,
    Renewal, Step, WaitMode, Wake,
};

use super::guard::Guard;
use super::holding::Holding;
use super::terms::{OnWait, Terms, WaitStatus};
use crate::error::LockError;
use crate::event::Event;
use crate::pauses::Refusals;
use crate::report::{Span, outcome};
use crate::store_handle::{Askers, StoreHandle};

/// Waits for the lock on these terms. Invalid terms are an error at once.
///
/// Cancel safe: if the future is dropped, it gives the attempt up in the background.
///
/// There may be very many of these futures, so nothing that is needed only at the start is kept in
/// them.
pub(super) fn acquire(
    askers: Arc<Askers>,
    terms: Terms,
) -> Result<impl Future<Output = Result<Guard, LockError>> + use<>, LockError> {
    let handle = &askers.handle;
    handle.admit(&terms.claim, terms.ttl)?;
    terms.drift.unwrap_or(handle.drift).admit(terms.ttl)?;
    // Created before the first byte is sent, so that everything is undone if the future is dropped.
    let mut attempt = PendingAttempt::new(askers, terms);
    let span = attempt.span.clone();
    Ok(span.around(async move {
        let mut now = attempt.started;
        loop {
            if let Some(reason) = attempt.handle().registry.closed_because() {
                return Err(attempt.fails(LockError::Closed { reason }));
            }
            let until = match attempt.machine.next(now) {
                Step::Ask => None,
                Step::WaitUntil(until) => Some(until),
                Step::Done(Ok(granted)) => return attempt.becomes_guard(now, granted),
                Step::Done(Err(why)) => return Err(attempt.is_refused(why)),
            };
            match until {
                None => {
                    let unsettled = std::mem::replace(&mut attempt.traces, true);
                    let answer = attempt.ask(now).await;
                    now = attempt.handle().runtime.now();
                    attempt.hears(now, answer, unsettled);
                }
                Some(until) => {
                    let wake = attempt.rest(until).await;
                    now = attempt.handle().runtime.now();
                    wake.into_iter().for_each(|wake| attempt.machine.handle_wake(now, wake));
                }
            }
        }
    }))
}

/// One attempt, and its cleanup guard: dropping it gives the attempt up, unless the attempt became a
/// guard or certainly left nothing at the store.
struct PendingAttempt {
    /// Kept until the guard exists, because a request may outlive the locks that it came from.
    askers: Arc<Askers>,
    span: Span,
    started: Instant,
    machine: Machine,
    attempt: Attempt,
    /// True once it has become a guard, or has been given up.
    is_over: bool,
    wait_mode: WaitMode,
    /// True if it asks again after it was refused.
    waits: bool,
    renewal: Renewal,
    on_wait: Option<OnWait>,
    /// True if the attempt may have left something at the store.
    traces: bool,
    /// How often the attempt was refused and kept waiting.
    refusals: u32,
    /// A digest of the state that was last reported, if anybody listens to events. It is small
    /// because there may be very many waiters.
    told: Option<NonZeroU64>,
}

type Answer = Option<Result<GrantAnswer, Fault>>;

impl PendingAttempt {
    fn new(askers: Arc<Askers>, terms: Terms) -> Self {
        let handle = &askers.handle;
        let span = Span::of(&terms.claim);
        let Terms { claim, label, ttl, signal, drift, renewal, patience, queue_limit, queues, on_wait } =
            terms;
        let started = handle.runtime.now();
        let holder = Holder::from_bits(handle.runtime.random());
        // It spreads pauses, so nobody need be unable to guess it.
        let seed = holder.bits() as u64;
        let mut machine = Machine::new(started, ttl, drift.unwrap_or(handle.drift), patience, seed);
        machine.rest_first(started + handle.rest_first(&claim, patience.within, started, seed));
        let waits = patience.within != Some(Duration::ZERO) && patience.retries != Some(0);
        let wait_mode = if waits && queues && patience.retries.is_none() {
            WaitMode::Wait { queue_limit }
        } else {
            WaitMode::Try
        };
        handle.registry.begin_request();
        Self {
            askers,
            span,
            started,
            machine,
            attempt: Attempt::new(claim, holder, label, ttl).with_signal(signal),
            is_over: false,
            wait_mode,
            waits,
            renewal,
            on_wait,
            traces: false,
            refusals: 0,
            told: None,
        }
    }

    fn handle(&self) -> &Arc<StoreHandle> {
        &self.askers.handle
    }

    /// Asks the store once; the lease counts from `now`. Returns the answer, or nothing if the time
    /// is up; the machine notices that on its own.
    ///
    /// The future is small, as is that of [`PendingAttempt::rest`], because there may be very many.
    fn ask(&mut self, now: Instant) -> impl Future<Output = Answer> + use<'_> {
        self.machine.handle_sent(now);
        // If the time is already up, nothing is sent.
        let limit = match self.machine.next(now) {
            Step::WaitUntil(limit) => Some(limit),
            _ => None,
        };
        let mut call = limit.map(|_| self.handle().store.grant(&self.attempt, self.wait_mode));
        let mut timer = self.handle().runtime.sleep_until(limit.unwrap_or(now));
        poll_fn(move |context| {
            if let Some(call) = &mut call
                && let Poll::Ready(answer) = call.as_mut().poll(context)
            {
                return Poll::Ready(Some(answer));
            }
            timer.as_mut().poll(context).map(|()| None)
        })
    }

    /// Handles the answer. `unsettled`: the attempt may have left something at the store before.
    fn hears(&mut self, now: Instant, answer: Answer, unsettled: bool) {
        let Some(answer) = answer else { return };
        self.handle().report.answered(&answer);
        match answer {
            Ok(answer) => {
                // A try that was only ever refused leaves nothing behind, so nothing has to
                // be undone.
                self.traces = unsettled
                    || self.wait_mode != WaitMode::Try
                    || matches!(answer, GrantAnswer::Granted { .. });
                let waiting = match &answer {
                    GrantAnswer::Busy { held_by, place } if self.waits => {
                        let place = place.map(|place| place.before + 1);
                        Some(WaitStatus { held_by: held_by.clone(), place })
                    }
                    _ => None,
                };
                self.machine.handle_answer(now, answer);
                // After the last retry it does not wait.
                if let Some(waiting) = waiting
                    && !matches!(self.machine.next(now), Step::Done(_))
                {
                    self.handle().registry.concern();
                    self.tell_waiting(now, &waiting);
                    self.on_wait.iter().for_each(|OnWait(tell)| tell(&waiting));
                }
            }
            Err(fault) => {
                self.handle().registry.concern();
                self.traces = unsettled || !fault.is_unserved();
                self.machine.handle_fault(now, fault);
            }
        }
    }

    /// Waits for a wake-up, which it returns, the given time or the closing of the locks.
    fn rest(&self, until: Instant) -> impl Future<Output = Option<Wake>> + use<'_> {
        let handle = self.handle();
        let mut woken = handle.store.woken(&self.attempt);
        let mut timer = handle.runtime.sleep_until(until);
        let mut closed = handle.registry.closed();
        poll_fn(move |context| {
            if let Poll::Ready(wake) = woken.as_mut().poll(context) {
                return Poll::Ready(Some(wake));
            }
            if timer.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            Pin::new(&mut closed).poll(context).map(|()| None)
        })
    }

    /// Reports that the attempt was refused and keeps waiting, if anything changed since the last
    /// report.
    fn tell_waiting(&mut self, now: Instant, waiting: &WaitStatus) {
        self.refusals = self.refusals.saturating_add(1);
        let digest = digest(waiting);
        if self.told == Some(digest) {
            return;
        }
        let told = self.handle().report.tell(|| Event::Waiting {
            request: (&self.attempt).into(),
            held_by: waiting.held_by.clone(),
            place: waiting.place,
            waited: now.saturating_since(self.started),
            refusals: self.refusals,
        });
        self.told = told.then_some(digest);
    }

    fn becomes_guard(&mut self, now: Instant, granted: Granted) -> Result<Guard, LockError> {
        let Granted { lease, fence, handed } = granted;
        let attempt = self.attempt.clone();
        let renewal =
            LeaseRenewal::new(now, lease, attempt.ttl, self.machine.drift(), self.renewal).handed(handed);
        let (asks, runtime) = (self.machine.asks(), self.handle().runtime.clone());
        let holding = Holding::new(attempt, fence, now, asks, renewal.lease(), runtime);
        let waited = now.saturating_since(self.started);
        self.span.ends(waited, "acquired");
        match Guard::enter(self.handle(), holding, renewal, waited, self.refusals) {
            Ok(guard) => {
                self.is_over = true;
                Ok(guard)
            }
            Err(reason) => Err(self.fails(LockError::Closed { reason })),
        }
    }

    /// Ends the attempt without a guard.
    fn is_refused(&mut self, why: NotGranted) -> LockError {
        let now = self.handle().runtime.now();
        let key = self.attempt.claim.first_key();
        if matches!(why, NotGranted::Refused(_)) {
            self.handle().refusals.get_or_init(Refusals::default).note(key, now);
        }
        let (waited, asks) = (now.saturating_since(self.started), self.machine.asks());
        let store = &self.handle().store;
        let votes = store.take_report(&self.attempt);
        self.fails(LockError::of(why, store.name(), key.clone(), waited, asks, votes))
    }

    /// Ends the attempt with this error.
    fn fails(&mut self, error: LockError) -> LockError {
        self.ends(Some(&error));
        error
    }

    fn ends(&mut self, why: Option<&LockError>) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let waited = self.handle().runtime.now().saturating_since(self.started);
        self.span.ends(waited, outcome(why));
        if self.machine.asks() > 0 {
            self.handle().report.tell(|| Event::GaveUp {
                request: (&self.attempt).into(),
                why: why.map(|why| Arc::new(why.clone())),
                waited,
                refusals: self.refusals,
            });
        }
        if self.traces {
            self.handle().give_up(self.attempt.clone());
        }
    }
}

impl Drop for PendingAttempt {
    fn drop(&mut self) {
        self.ends(None);
        self.handle().registry.end_request();
    }
}

/// A digest that is equal for the same position behind the same holding, whatever remains of its
/// lease.
fn digest(WaitStatus { held_by, place }: &WaitStatus) -> NonZeroU64 {
    let mut hasher = DefaultHasher::new();
    (&held_by.key, &held_by.owner, place).hash(&mut hasher);
    NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MAX)
}
