//! Claims that another transaction has locked, for example a checked transaction that is still open
//! after the end of its lease.
//!
//! All requests of a process share one connection, so a request that waits for such a transaction
//! delays all others. So the process waits once, and then refuses requests for that claim for a
//! while without asking.

use std::sync::Mutex;
use std::time::Duration;

use leasehold_core::{Claim, Fault, Instant, Request, locked};

#[derive(Debug, Default)]
pub(crate) struct Blocked(Mutex<Vec<(Claim, Instant, Fault)>>);

impl Blocked {
    /// The fault for a request that is refused now. Only grants are refused: a holder must be able
    /// to renew and release.
    pub(crate) fn refuses(&self, request: &Request, now: Instant) -> Option<Fault> {
        let Request::Grant { attempt, .. } = request else { return None };
        let mut all = locked(&self.0);
        all.retain(|(_, until, _)| now < *until);
        all.iter().find(|(claim, ..)| *claim == attempt.claim).map(|(.., fault)| fault.clone())
    }

    /// Notes that a request has waited in vain.
    pub(crate) fn note(&self, request: &Request, now: Instant, rest: Duration, fault: &Fault) {
        let Request::Grant { attempt, .. } = request else { return };
        let mut all = locked(&self.0);
        all.retain(|(claim, until, _)| now < *until && *claim != attempt.claim);
        all.push((attempt.claim.clone(), now + rest, fault.clone()));
    }
}
