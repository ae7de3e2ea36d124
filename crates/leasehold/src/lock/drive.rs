//! Runs one acquisition: asks the store when the state machine says so, and passes the answers to
//! it.

use std::sync::Arc;

use leasehold_core::{Acquire as Machine, Holder, Outcome, Step};

use super::guard::Guard;
use super::pending::PendingAttempt;
use super::terms::Terms;
use crate::error::LockError;
use crate::report::Span;
use crate::store_handle::{Askers, StoreHandle, check_drift, low_bits};

/// Waits for the lock on these terms.
///
/// Cancel safe: if it is dropped at any await, it gives the attempt up in the background.
///
/// There may be very many of these futures, so values that are needed only at the start are not
/// kept across awaits.
pub(super) async fn acquire(askers: Arc<Askers>, terms: Box<Terms>) -> Result<Guard, LockError> {
    let handle = &askers.handle;
    handle.admit(&terms.claim, terms.ttl)?;
    check_drift(terms.drift.unwrap_or(handle.drift), terms.ttl)?;
    let span = Span::of(&terms.claim);
    let work = {
        // Drop the box now, so that it is not kept during the wait.
        let terms = terms;
        run(handle, *terms, &span)
    };
    span.around(work).await
}

fn run<'a>(
    handle: &'a Arc<StoreHandle>,
    terms: Terms,
    span: &'a Span,
) -> impl Future<Output = Result<Guard, LockError>> + use<'a> {
    let started = handle.runtime.now();
    let holder = Holder::from_bits(handle.runtime.random());
    // It spreads pauses, so nobody need be unable to guess it.
    let seed = low_bits(holder.bits());
    let drift = terms.drift.unwrap_or(handle.drift);
    let mut machine = Machine::new(started, terms.ttl, drift, terms.patience, seed);
    machine.rest_first(started + handle.rest_first(&terms.claim, terms.patience.within, started, seed));
    // Created before the first byte is sent, so that everything is undone if this future is
    // dropped.
    let mut request = PendingAttempt::new(handle, terms, holder, started, span);
    async move {
        let mut now = request.started;
        loop {
            if let Some(reason) = request.handle.registry.closed_because() {
                return Err(request.fails(LockError::Closed { reason }));
            }
            let until = match machine.next(now) {
                Step::Ask => None,
                Step::WaitUntil(until) => Some(until),
                Step::Done(Outcome::Granted { lease, fence, handed }) => {
                    return request.into_guard(&machine, now, lease, fence, handed);
                }
                Step::Done(other) => return Err(request.refused(machine.asks(), other)),
            };
            match until {
                None => {
                    let asked = request.ask(&mut machine, now).await;
                    now = request.handle.runtime.now();
                    request.hears(&mut machine, now, asked);
                }
                Some(until) => {
                    request.rest(&mut machine, until).await;
                    now = request.handle.runtime.now();
                }
            }
        }
    }
}
