//! The log: spans and events of `tracing`, all with the target `leasehold`.
//!
//! Normal events are logged at `debug`, and renewals, of which there are many, at `trace`. Events
//! that somebody should look at are logged at `warn`, and their end at `info`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use leasehold_core::{Claim, Fence, Label};
use pin_project_lite::pin_project;
use tracing::field::{Empty, display};
use tracing::level_filters::LevelFilter;
use tracing::{debug, debug_span, info, trace, warn};

use super::{outcome, reason};
use crate::event::{Event, Keys, RequestInfo};

const TARGET: &str = "leasehold";

/// Returns true if any subscriber listens to anything; this reads one atomic.
pub(super) fn is_heard() -> bool {
    LevelFilter::current() != LevelFilter::OFF
}

/// The span of an acquisition, if anybody listens. Small, because there may be very many waiters.
#[derive(Clone, Debug)]
pub(crate) struct Span(Option<Arc<tracing::Span>>);

pin_project! {
    /// A future within a span. Unlike an instrumented future, it does not store the span twice.
    pub(crate) struct Within<F> {
        span: Span,
        #[pin]
        work: Option<F>,
    }

    impl<F> PinnedDrop for Within<F> {
        /// Events that are logged when the future is dropped belong to its span.
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            let _entered = this.span.enter();
            this.work.set(None);
        }
    }
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _entered = this.span.enter();
        // There is work until this is dropped.
        this.work.as_pin_mut().map_or(Poll::Pending, |work| work.poll(context))
    }
}

impl Span {
    pub(crate) fn of(claim: &Claim) -> Self {
        let mode = claim.wants()[0].mode;
        let (key, mode) = (display(Keys(claim)), tracing::field::debug(mode));
        let span = debug_span!(target: TARGET, "acquire", key, mode, waited = Empty, outcome = Empty);
        Self((!span.is_disabled()).then(|| Arc::new(span)))
    }

    pub(crate) const fn around<F: Future>(self, work: F) -> Within<F> {
        Within { span: self, work: Some(work) }
    }

    fn enter(&self) -> Option<tracing::span::Entered<'_>> {
        self.0.as_deref().map(tracing::Span::enter)
    }

    /// Ends the span with this outcome and duration.
    pub(crate) fn ends(&self, waited: Duration, outcome: &str) {
        if let Some(span) = &self.0 {
            span.record("waited", tracing::field::debug(waited));
            span.record("outcome", outcome);
        }
    }
}

pub(super) fn write(store: &str, event: &Event) {
    /// Logs an event about a request or a holder.
    macro_rules! about {
        ($level:ident, $request:expr, $words:literal, $($fields:tt)*) => {{
            let RequestInfo { claim, holder, label } = $request;
            let label = label.as_ref().map(Label::as_str);
            let key = Keys(claim);
            $level!(target: TARGET, store, %key, %holder, label, $($fields)*, $words);
        }};
    }
    match event {
        Event::Waiting { request, held_by, place, waited, .. } => {
            about!(debug, request, "waiting", held_by = %held_by, place = *place, waited = ?waited);
        }
        Event::Acquired { request, fence, ttl, waited, attempts, .. } => {
            about!(debug, request, "acquired", fence = fence.get(), ttl = %ttl, waited = ?waited, attempts = attempts);
        }
        Event::GaveUp { request, why, waited, .. } => match why {
            Some(why) => {
                about!(debug, request, "gave up", outcome = outcome(Some(why)), waited = ?waited, why = %why);
            }
            None => about!(debug, request, "gave up", outcome = outcome(None), waited = ?waited),
        },
        Event::Renewed { request, fence, remaining } => {
            about!(trace, request, "renewed", fence = fence.get(), remaining = ?remaining);
        }
        Event::Released { request, fence, held_for } => {
            about!(debug, request, "released", fence = fence.get(), held_for = ?held_for);
        }
        Event::NotReleased { request, fence, held_for, fault } => {
            about!(warn, request, "the release was not confirmed", fence = fence.get(), held_for = ?held_for, fault = %fault);
        }
        Event::Transferred { request, fence, held_for } => {
            about!(debug, request, "transferred", fence = fence.get(), held_for = ?held_for);
        }
        Event::Lost { request, fence, held_for, why } => {
            let reason = reason(why);
            about!(warn, request, "lost", fence = fence.get(), held_for = ?held_for, reason = reason, why = %why);
        }
        Event::Broke { holding } => {
            let (key, fence) = (&holding.key, holding.fence.map(Fence::get));
            warn!(target: TARGET, store, %key, fence, held_by = %holding, "broke a lease");
        }
        Event::StoreFault { fault, in_a_row: 1 } => {
            warn!(target: TARGET, store, %fault, "the store did not do what it was asked");
        }
        // Logged once until the store answers again: otherwise an outage would fill the log.
        Event::StoreFault { fault, in_a_row } => {
            debug!(target: TARGET, store, %fault, in_a_row, "the store did not do what it was asked");
        }
        Event::StoreBack { faults, .. } => info!(target: TARGET, store, faults, "the store answers again"),
        Event::MemberDown { fault } => {
            warn!(target: TARGET, store, member = &*fault.store, %fault, "a member of the quorum is down");
        }
        Event::MemberBack { store: member } => {
            info!(target: TARGET, store, member = &**member, "a member of the quorum is back");
        }
        Event::PushDown { fault } => {
            warn!(target: TARGET, store, %fault, "waiters are not notified of their turn, and ask instead");
        }
        Event::PushBack { .. } => info!(target: TARGET, store, "waiters are notified of their turn again"),
        Event::NamesCollide { key, names: [first, name] } => {
            warn!(target: TARGET, store, %key, first, name, "two names are one lock");
        }
        Event::Missed { events } => warn!(target: TARGET, store, events, "more happened than was read"),
    }
}
