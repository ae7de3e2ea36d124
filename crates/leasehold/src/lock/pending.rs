//! One attempt, from before the first byte is sent until it has become a guard or has been given
//! up.

use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold_core::{
    Acquire as Machine, Attempt, Fault, Fence, GrantAnswer, Handed, Holder, Instant, Lease, LeaseRenewal,
    Outcome, Renewal, Step, WaitMode,
};

use super::failure::failure;
use super::guard::Guard;
use super::holding::Holding;
use super::terms::{OnWait, Terms, WaitStatus};
use crate::error::LockError;
use crate::event::Event;
use crate::refusals::Refusals;
use crate::report::{Span, outcome};
use crate::store_handle::StoreHandle;

/// The cleanup guard of one attempt: dropping it gives the attempt up, unless the attempt became a
/// guard or certainly left nothing at the store.
pub(super) struct PendingAttempt<'a> {
    pub(super) handle: &'a Arc<StoreHandle>,
    span: &'a Span,
    pub(super) started: Instant,
    attempt: Option<Attempt>,
    wait_mode: WaitMode,
    /// True if it asks again after it was refused.
    waits: bool,
    renewal: Renewal,
    on_wait: Option<OnWait>,
    /// True if the attempt may have left something at the store.
    traces: bool,
    /// True if the store was ever asked with this attempt.
    asked: bool,
    /// How often the attempt was refused and kept waiting.
    refusals: u32,
    /// A digest of the state that was last reported, if anybody listens to events. It is small
    /// because there may be very many waiters.
    told: Option<NonZeroU64>,
}

/// The result of asking the store once.
pub(super) struct Asked {
    /// True if the attempt may already have left something at the store before this.
    unsettled: bool,
    answer: Option<Result<GrantAnswer, Fault>>,
}

impl<'a> PendingAttempt<'a> {
    pub(super) fn new(
        handle: &'a Arc<StoreHandle>,
        terms: Terms,
        holder: Holder,
        started: Instant,
        span: &'a Span,
    ) -> Self {
        let Terms { claim, label, ttl, signal, renewal, patience, queue_limit, queues, on_wait, drift: _ } =
            terms;
        let waits = patience.within != Some(Duration::ZERO) && patience.retries != Some(0);
        let wait_mode = if waits && queues && patience.retries.is_none() {
            WaitMode::Wait { queue_limit }
        } else {
            WaitMode::Try
        };
        handle.registry.begin_request();
        Self {
            handle,
            span,
            started,
            attempt: Some(Attempt::new(claim, holder, label, ttl).with_signal(signal)),
            wait_mode,
            waits,
            renewal,
            on_wait,
            traces: false,
            asked: false,
            refusals: 0,
            told: None,
        }
    }

    /// Asks the store once; the lease counts from `now`. Returns the answer, or nothing if the time
    /// is up; the machine notices that on its own. The result is for [`PendingAttempt::hears`].
    ///
    /// The future is small, as is that of [`PendingAttempt::rest`], because there may be very many.
    pub(super) fn ask<'s>(
        &'s mut self,
        machine: &mut Machine,
        now: Instant,
    ) -> impl Future<Output = Asked> + use<'s> {
        let unsettled = std::mem::replace(&mut self.traces, true);
        self.asked = true;
        let runtime = &self.handle.runtime;
        machine.handle_sent(now);
        // If the time is already up, nothing is sent.
        let limit = match machine.next(now) {
            Step::WaitUntil(limit) => Some(limit),
            _ => None,
        };
        let attempt = self.attempt.as_ref().filter(|_| limit.is_some());
        let mut call = attempt.map(|attempt| self.handle.store.grant(attempt, self.wait_mode));
        let limit = limit.unwrap_or(now);
        let mut timer = runtime.sleep_until(limit);
        poll_fn(move |context| {
            if let Some(call) = &mut call
                && let Poll::Ready(answer) = call.as_mut().poll(context)
            {
                return Poll::Ready(Asked { unsettled, answer: Some(answer) });
            }
            timer.as_mut().poll(context).map(|()| Asked { unsettled, answer: None })
        })
    }

    pub(super) fn hears(&mut self, machine: &mut Machine, now: Instant, asked: Asked) {
        let Asked { unsettled, answer: Some(answer) } = asked else { return };
        self.handle.report.answered(&answer);
        let wait_mode = self.wait_mode;
        match answer {
            Ok(answer) => {
                // A try that was only ever refused leaves nothing behind, so nothing has to
                // be undone.
                self.traces =
                    unsettled || wait_mode != WaitMode::Try || matches!(answer, GrantAnswer::Granted { .. });
                let waiting = match &answer {
                    GrantAnswer::Busy { held_by, place } if self.waits => {
                        let place = place.map(|place| place.before + 1);
                        Some(WaitStatus { held_by: held_by.clone(), place })
                    }
                    _ => None,
                };
                machine.handle_answer(now, answer);
                if let Some(waiting) = waiting {
                    self.handle.registry.concern();
                    self.tell_waiting(now, &waiting);
                    self.on_wait.iter().for_each(|OnWait(tell)| tell(&waiting));
                }
            }
            Err(fault) => {
                self.handle.registry.concern();
                self.traces = unsettled || !fault.is_lasting();
                machine.handle_fault(now, fault);
            }
        }
    }

    /// Waits for a wake-up, the given time or the closing of the locks, and informs the machine of
    /// a wake-up.
    pub(super) fn rest<'s>(
        &'s self,
        machine: &'s mut Machine,
        until: Instant,
    ) -> impl Future<Output = ()> + use<'s> {
        let runtime = &self.handle.runtime;
        let mut woken = self.attempt.as_ref().map(|attempt| self.handle.store.woken(attempt));
        let mut timer = runtime.sleep_until(until);
        let mut closed = self.handle.registry.closed();
        poll_fn(move |context| {
            if let Some(woken) = &mut woken
                && let Poll::Ready(wake) = woken.as_mut().poll(context)
            {
                machine.handle_wake(runtime.now(), wake);
                return Poll::Ready(());
            }
            if timer.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            Pin::new(&mut closed).poll(context)
        })
    }

    /// Reports that the attempt was refused and keeps waiting, if anything changed since the last
    /// report.
    fn tell_waiting(&mut self, now: Instant, waiting: &WaitStatus) {
        self.refusals = self.refusals.saturating_add(1);
        let digest = digest(waiting);
        let Some(attempt) = self.attempt.as_ref().filter(|_| self.told != Some(digest)) else { return };
        let told = self.handle.report.tell(|| Event::Waiting {
            request: attempt.into(),
            held_by: waiting.held_by.clone(),
            place: waiting.place,
            waited: now.saturating_since(self.started),
            refusals: self.refusals,
        });
        self.told = told.then_some(digest);
    }

    pub(super) fn into_guard(
        mut self,
        machine: &Machine,
        now: Instant,
        lease: Lease,
        fence: Fence,
        handed: Option<Handed>,
    ) -> Result<Guard, LockError> {
        let (handle, runtime) = (self.handle, &self.handle.runtime);
        let Some(attempt) = self.attempt.clone() else { unreachable!("taken only below") };
        let ttl = attempt.ttl;
        let asks = machine.asks();
        let lease_renewal = LeaseRenewal::new(now, lease, ttl, machine.drift(), self.renewal).handed(handed);
        let holding = Holding::new(attempt, fence, now, asks, lease_renewal.lease(), runtime.clone());
        let holding = Arc::new(holding);
        let waited = now.saturating_since(self.started);
        self.span.ends(waited, "acquired");
        let acquired = || Event::Acquired {
            request: (&holding.attempt).into(),
            fence,
            ttl,
            waited,
            attempts: asks,
            refusals: self.refusals,
        };
        match handle.registry.enter(holding.clone(), lease_renewal, now, acquired) {
            Ok(number) => {
                self.attempt = None;
                Ok(Guard::new(handle.clone(), holding, number))
            }
            Err(reason) => Err(self.fails(LockError::Closed { reason })),
        }
    }

    /// Ends the attempt without a guard.
    pub(super) fn refused(self, attempts: u32, outcome: Outcome) -> LockError {
        let waited = self.handle.runtime.now().saturating_since(self.started);
        let Some(attempt) = &self.attempt else { unreachable!("taken only by what ends it") };
        if matches!(outcome, Outcome::Refused(_)) {
            let refusals = self.handle.refusals.get_or_init(Refusals::default);
            refusals.note(attempt.claim.first_key(), self.handle.runtime.now());
        }
        let (key, votes) = (attempt.claim.first_key().clone(), self.handle.store.take_report(attempt));
        let error = failure(self.handle, key, waited, attempts, outcome, votes);
        self.fails(error)
    }

    /// Ends the attempt with this error.
    pub(super) fn fails(mut self, error: LockError) -> LockError {
        self.ends(Some(&error));
        error
    }

    fn ends(&mut self, why: Option<&LockError>) {
        let Some(attempt) = self.attempt.take() else { return };
        let waited = self.handle.runtime.now().saturating_since(self.started);
        self.span.ends(waited, outcome(why));
        if self.asked {
            self.handle.report.tell(|| Event::GaveUp {
                request: (&attempt).into(),
                why: why.map(|why| Arc::new(why.clone())),
                waited,
                refusals: self.refusals,
            });
        }
        if self.traces {
            self.handle.give_up(attempt);
        }
    }
}

impl Drop for PendingAttempt<'_> {
    fn drop(&mut self) {
        self.ends(None);
        self.handle.registry.end_request();
    }
}

/// A digest that is equal for the same position behind the same holding, whatever remains of its
/// lease.
fn digest(WaitStatus { held_by, place }: &WaitStatus) -> NonZeroU64 {
    let mut hasher = DefaultHasher::new();
    (&held_by.key, &held_by.owner, held_by.fence, place).hash(&mut hasher);
    NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MAX)
}
