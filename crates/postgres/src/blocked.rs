//! Claims with a row that another transaction has locked, for example one that has checked the fence
//! of the lock and is still open.
//!
//! All requests of a process share one connection, so a request that waits for such a row delays all
//! others. So the process waits once. For a while after that, it asks for and releases that claim by a
//! transaction, which need not wait for a check, and hardly waits; or, if that was blocked too, only
//! looks at first.

use std::sync::Mutex;
use std::time::Duration;

use leasehold_core::{Claim, Fault, Instant, Request, locked};

#[derive(Debug, Default)]
pub(crate) struct Blocked(Mutex<Vec<BlockedClaim>>);

#[derive(Debug)]
struct BlockedClaim {
    claim: Claim,
    /// Until then, nobody waits for it for long.
    until: Instant,
    /// The fault, if a transaction was blocked too, and until when it is the answer to others.
    fault: Option<(Fault, Instant)>,
}

/// A claim is remembered for as many rests.
const KEPT_FOR: u32 = 10;

impl Blocked {
    /// Returns true if this request would probably be blocked.
    pub(crate) fn contains(&self, request: &Request, now: Instant) -> bool {
        let (Request::Grant { attempt, .. } | Request::Release(attempt)) = request else { return false };
        self.find(&attempt.claim, now, |_| ()).is_some()
    }

    /// The fault for a request that would be blocked. Only grants are refused: a holder must be able
    /// to renew and release.
    pub(crate) fn refuses(&self, request: &Request, now: Instant) -> Option<Fault> {
        let Request::Grant { attempt, .. } = request else { return None };
        let (fault, until) = self.find(&attempt.claim, now, |blocked| blocked.fault.clone())??;
        (now < until).then_some(fault)
    }

    /// Notes that a request has waited in vain.
    pub(crate) fn note(&self, request: &Request, now: Instant, rest: Duration, fault: Option<&Fault>) {
        let Request::Grant { attempt, .. } = request else { return };
        let mut all = locked(&self.0);
        all.retain(|blocked| now < blocked.until && blocked.claim != attempt.claim);
        let fault = fault.map(|fault| (fault.clone(), now + rest));
        all.push(BlockedClaim { claim: attempt.claim.clone(), until: now + rest * KEPT_FOR, fault });
    }

    fn find<T>(&self, claim: &Claim, now: Instant, read: impl FnOnce(&BlockedClaim) -> T) -> Option<T> {
        let mut all = locked(&self.0);
        all.retain(|blocked| now < blocked.until);
        all.iter().find(|blocked| blocked.claim == *claim).map(read)
    }
}
