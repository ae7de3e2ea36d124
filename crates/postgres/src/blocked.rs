//! Claims on which a transaction of somebody else sits, such as one that was checked and is open past its lease.
//!
//! All requests of a process share one connection. So what waits for such a transaction keeps all others waiting: it waits once, and
//! is then refused without asking for a while.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leasehold_core::{Claim, Fault, Instant, Request};

#[derive(Debug, Default)]
pub(crate) struct Blocked(Mutex<Vec<(Claim, Instant, Fault)>>);

impl Blocked {
    /// Why a request is refused now, if it is one for such a claim. Only grants are: whoever holds must be able to renew and release.
    pub(crate) fn refuses(&self, request: &Request, now: Instant) -> Option<Fault> {
        let Request::Grant { attempt, .. } = request else { return None };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, until, _)| now < *until);
        all.iter().find(|(claim, ..)| *claim == attempt.claim).map(|(.., fault)| fault.clone())
    }

    /// A request has waited in vain.
    pub(crate) fn note(&self, request: &Request, now: Instant, rest: Duration, fault: &Fault) {
        let Request::Grant { attempt, .. } = request else { return };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(claim, until, _)| now < *until && *claim != attempt.claim);
        all.push((attempt.claim.clone(), now + rest, fault.clone()));
    }
}
