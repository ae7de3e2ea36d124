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

#[cfg(test)]
mod tests {
    use leasehold_core::{Attempt, Holder, Key, Ttl};

    use super::*;

    #[test]
    fn a_claim_is_refused_for_one_rest_and_its_grants_and_releases_are_known_for_ten() {
        let attempt = |key, who| {
            let claim = Claim::exclusive(Key::new(key).unwrap());
            Attempt::new(claim, Holder::from_bits(who), None, Ttl::DEFAULT)
        };
        let grant = |key, who| Request::Grant { attempt: attempt(key, who), wait: None, not_after: None };
        let (rest, begun) = (Duration::from_millis(500), Instant::from_nanos(7));
        let fault = Fault::passing("s", "blocked");
        let blocked = Blocked::default();
        blocked.note(&grant("k", 1), begun, rest, Some(&fault));
        let after = |rests| begun + rest * rests;
        let just_before = |rests| after(rests) - Duration::from_nanos(1);
        for request in [grant("k", 2), Request::Release(attempt("k", 2))] {
            assert!(blocked.contains(&request, just_before(10)), "{request:?}");
        }
        assert!(!blocked.contains(&grant("l", 2), begun));
        assert_eq!(blocked.refuses(&grant("k", 2), just_before(1)), Some(fault));
        assert_eq!(
            blocked.refuses(&Request::Release(attempt("k", 2)), begun),
            None,
            "a holder must be able to"
        );
        assert_eq!(blocked.refuses(&grant("k", 2), after(1)), None);
        assert!(!blocked.contains(&grant("k", 2), after(10)));
    }
}
