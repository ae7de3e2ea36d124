//! Runs one acquisition: asks the store when the state machine says so, and passes the answers to
//! it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Acquire as Machine, Claim, Drift, Fault, Key, Label, Outcome, Patience, Renewal, Signal, Step, Ttl,
};

use super::acquire::WaitStatus;
use super::guard::Guard;
use super::pending::PendingAttempt;
use crate::askers::Askers;
use crate::error::LockError;
use crate::report::Span;
use crate::store_handle::{StoreHandle, low_bits};

/// The request, with all its settings.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) claim: Claim,
    pub(crate) label: Option<Label>,
    pub(crate) ttl: Ttl,
    pub(crate) signal: Option<Signal>,
    /// Instead of that of the locks.
    pub(crate) drift: Option<Drift>,
    pub(crate) renewal: Renewal,
    pub(crate) patience: Patience,
    pub(crate) line_limit: Option<u64>,
    /// True if it joins a queue if it has to wait; otherwise it polls.
    pub(crate) queues: bool,
    pub(crate) on_wait: Option<OnWait>,
}

/// The callback for a request that waits.
#[derive(Clone)]
pub(crate) struct OnWait(pub(crate) Arc<dyn Fn(&WaitStatus) + Send + Sync>);

impl fmt::Debug for OnWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnWait")
    }
}

/// Waits for the lock on these terms.
///
/// Cancel safe: if it is dropped at any await, it gives the attempt up in the background.
///
/// There may be very many of these futures, so values that are needed only at the start are not
/// kept across awaits.
pub(super) async fn acquire(askers: Arc<Askers>, terms: Box<Terms>) -> Result<Guard, LockError> {
    let handle = askers.handle();
    handle.admit(&terms.claim, terms.ttl)?;
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
    let seed = low_bits(handle.runtime.random());
    let drift = terms.drift.unwrap_or(handle.drift);
    let mut machine = Machine::new(started, terms.ttl, drift, terms.patience, seed);
    machine.rest_first(started + handle.rest_first(&terms.claim, terms.patience.within, started, seed));
    // Created before the first byte is sent, so that everything is undone if this future is
    // dropped.
    let mut request = PendingAttempt::new(handle, terms, started, span);
    async move {
        loop {
            if let Some(reason) = handle.registry.closed_because() {
                return Err(request.fails(LockError::Closed { reason }));
            }
            let until = match machine.next(handle.runtime.now()) {
                Step::Ask => None,
                Step::WaitUntil(until) => Some(until),
                Step::Done(Outcome::Granted { lease, fence, handed }) => {
                    return request.into_guard(&machine, lease, fence, handed);
                }
                Step::Done(other) => return Err(request.refused(machine.asks(), other)),
            };
            match until {
                None => {
                    let asked = request.ask(&mut machine).await;
                    request.hears(&mut machine, asked);
                }
                Some(until) => request.rest(&mut machine, until).await,
            }
        }
    }
}

/// The error for the caller, if the outcome is not a grant.
pub(super) fn failure(
    handle: &StoreHandle,
    key: Key,
    waited: Duration,
    attempts: u32,
    outcome: Outcome,
) -> LockError {
    match outcome {
        Outcome::Busy { held_by, before } => {
            let key = held_by.as_ref().map_or(key, |held_by| held_by.key.clone());
            let place = before.map(|before| before + 1);
            LockError::TimedOut { key, held_by: held_by.map(Box::new), place, waited, attempts }
        }
        Outcome::LineFull { held_by, length } => {
            LockError::LineFull { key: held_by.key.clone(), held_by: Box::new(held_by), length }
        }
        Outcome::Silent { fault: Some(Fault { quorum_report: Some(quorum_report), .. }) } => {
            LockError::NoQuorum { key, quorum_report, waited, attempts }
        }
        Outcome::Silent { fault } => {
            LockError::Unreachable { key, store: handle.store.name().into(), fault, waited, attempts }
        }
        Outcome::Refused(fault) => LockError::Refused { key, fault },
        Outcome::NotALock { key } => LockError::NotALock { key },
        Outcome::FencesSpent { key } => LockError::FencesSpent { key },
        Outcome::Granted { .. } => unreachable!("a grant is made a guard"),
    }
}
