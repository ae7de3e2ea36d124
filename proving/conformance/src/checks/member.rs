//! Checks: members of a quorum.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Attempt, Claim, Fault, FaultKind, Fence, GrantAnswer, HoldAnswer, Instant, Proposal, RaiseAnswer, Store,
    Successor, Ttl, WaitMode, WaitQueue,
};
use tokio::time::{sleep, timeout};

use super::{attempt, holders, key, queues, refused, take};
use crate::target::{Target, runtime};

/// The smallest longest TTL of a quorum, because the checks wait for it to pass.
const MAX_TTL: Duration = Fence::LEAST_MAX_TTL;
const QUARANTINE: Duration = Duration::from_secs(6);
/// Long enough for a check, and not longer than the longest.
const TTL: Duration = MAX_TTL;
/// Far longer than anything here takes.
const IN_TIME: Duration = Duration::from_secs(20);

fn clock() -> u64 {
    u64::try_from(runtime().since_epoch().as_micros()).unwrap()
}

/// The same attempt as a quorum makes it.
fn at_fence(attempt: &Attempt, fence: u64) -> Attempt {
    let proposal = Proposal { fence: Fence::new(fence).unwrap(), max_ttl: Ttl::new(MAX_TTL).unwrap() };
    attempt.at_member(attempt.holder, proposal)
}

fn proposing(keys: &[&str], ttl: Duration) -> Attempt {
    at_fence(&attempt(keys, ttl), clock())
}

async fn rejoin(store: &dyn Store, attempt: &Attempt) -> Result<HoldAnswer, Fault> {
    store.member().unwrap().rejoin(std::slice::from_ref(attempt)).await.pop().unwrap()
}

async fn raised(store: &dyn Store, attempt: &Attempt) -> Fence {
    match store.member().unwrap().raise(attempt).await.unwrap() {
        RaiseAnswer::Raised { fence } => fence,
        other => panic!("{attempt:?} should be raised: {other:?}"),
    }
}

/// The store after the quarantine of its first start.
async fn serving(target: &Target) -> Arc<dyn Store> {
    target.has_served();
    let store = target.store();
    serves(&*store).await;
    store
}

async fn serves(store: &dyn Store) {
    let asking = async {
        loop {
            let ours = proposing(&["first"], TTL);
            match store.grant(&ours, WaitMode::Try).await {
                Ok(GrantAnswer::Granted { .. }) => return store.release(&ours).await.unwrap(),
                Ok(GrantAnswer::TooLate { .. }) => {}
                Err(fault) if fault.kind != FaultKind::Lasting => {}
                other => panic!("{other:?}"),
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(IN_TIME, asking).await.expect("a member that serves in the end");
}

/// So members whose clocks differ slightly answer the same, and one round is enough.
pub async fn the_fence_that_is_proposed_is_granted_unless_a_greater_one_was(target: &Target) {
    let store = serving(target).await;
    for (name, ahead) in [("behind", -1_000_000), ("now", 0), ("ahead", 1_000_000)] {
        let fence = clock().checked_add_signed(ahead).unwrap();
        let ours = at_fence(&attempt(&[name], TTL), fence);
        assert_eq!(take(&*store, &ours).await.get(), fence, "{name}");
        store.release(&ours).await.unwrap();
        let next = at_fence(&attempt(&[name], TTL), fence - 500_000);
        assert_eq!(take(&*store, &next).await.get(), fence + 1, "{name}");
    }
    let several = proposing(&["ahead 2", "now 2"], TTL);
    let fence = take(&*store, &several).await;
    assert_eq!(Some(fence), several.proposal.map(|proposal| proposal.fence), "of all keys");
    let theirs = refused(&*store, &proposing(&["now 2"], TTL)).await;
    assert_eq!(theirs.fence, Some(fence));
}

/// A clock that is far off neither uses up the fences nor repeats a forgotten one.
pub async fn a_fence_is_kept_near_the_stores_own_clock(target: &Target) {
    let store = serving(target).await;
    for (name, fence) in [("early", 1), ("late", Fence::MAX.get())] {
        let given = take(&*store, &at_fence(&attempt(&[name], TTL), fence)).await.get();
        let off = Duration::from_micros(given.abs_diff(clock()));
        let second = Duration::from_secs(1);
        assert!(off + second > Fence::MARGIN && off < Fence::MARGIN + second, "{name}: off by {off:?}");
    }
}

/// Otherwise, a majority's answer would depend on who has lost the key since.
pub async fn only_the_holder_raises_a_fence_and_exactly_to_the_requested_value(target: &Target) {
    let store = serving(target).await;
    let ours = proposing(&["a", "b"], TTL);
    let fence = take(&*store, &ours).await.get();
    let to = |fence| Fence::new(fence).unwrap();
    assert_eq!(raised(&*store, &at_fence(&ours, fence + 7)).await, to(fence + 7));
    assert_eq!(raised(&*store, &at_fence(&ours, fence + 3)).await, to(fence + 7), "it never sinks");
    // Far above any clock: it comes from the majority, and is not a proposal.
    assert_eq!(raised(&*store, &at_fence(&ours, fence + 60_000_000)).await, to(fence + 60_000_000));
    let theirs = at_fence(&attempt(&["b"], TTL), fence + 70_000_000);
    let answer = store.member().unwrap().raise(&theirs).await.unwrap();
    assert!(matches!(answer, RaiseAnswer::NotHeld { held_by: Some(_), .. }), "{answer:?}");
    let nobody = store.member().unwrap().raise(&proposing(&["c"], TTL)).await.unwrap();
    assert!(matches!(nobody, RaiseAnswer::NotHeld { held_by: None, .. }), "{nobody:?}");
    store.release(&ours).await.unwrap();
    assert_eq!(take(&*store, &proposing(&["b"], TTL)).await, to(fence + 60_000_001));
}

/// Otherwise, two readers of a quorum with the same majority would share a fence.
pub async fn no_fence_is_answered_to_two_readers(target: &Target) {
    let store = serving(target).await;
    let reader = || {
        let mut reader = attempt(&["k"], TTL);
        reader.claim = Claim::shared([key("k")]).unwrap();
        reader
    };
    let [one, other] = [reader(), reader()];
    let first = take(&*store, &at_fence(&one, clock())).await.get();
    let second = take(&*store, &at_fence(&other, clock())).await.get();
    assert!(second > first);
    let to = |fence| Fence::new(fence).unwrap();
    let above = second + 7;
    assert_eq!(raised(&*store, &at_fence(&one, above)).await, to(above));
    assert_eq!(raised(&*store, &at_fence(&other, above)).await, to(above + 1));
    assert_eq!(raised(&*store, &at_fence(&one, above)).await, to(above), "asked again, it has that one");
    assert_eq!(raised(&*store, &at_fence(&one, above + 1)).await, to(above + 2));
    assert_eq!(raised(&*store, &at_fence(&other, above + 9)).await, to(above + 9));
    for attempt in [one, other] {
        store.release(&attempt).await.unwrap();
    }
}

/// As at a member that was away when the others granted.
pub async fn a_rejoin_renews_a_lease_or_takes_a_key_that_is_free_and_not_waited_for(target: &Target) {
    let store = serving(target).await;
    let ours = proposing(&["k"], TTL);
    assert_eq!(rejoin(&*store, &ours).await, Ok(HoldAnswer::Done), "nobody had it");
    assert_eq!(rejoin(&*store, &ours).await, Ok(HoldAnswer::Done), "we have it");
    let holding = refused(&*store, &proposing(&["k"], TTL)).await;
    assert_eq!(holding.fence, ours.proposal.map(|proposal| proposal.fence), "with the fence of the majority");
    let theirs = proposing(&["k"], TTL);
    let answer = rejoin(&*store, &theirs).await;
    assert!(matches!(answer, Ok(HoldAnswer::NotHeld { held_by: Some(_), .. })), "{answer:?}");
    let both = proposing(&["free", "k"], TTL);
    assert!(matches!(rejoin(&*store, &both).await, Ok(HoldAnswer::NotHeld { .. })));
    assert!(holders(&*store, "free").await.is_empty(), "all keys or none");
    store.release(&ours).await.unwrap();
    assert!(holders(&*store, "k").await.is_empty());
}

/// A waiter was promised the lock before a holder that only held it at other members.
pub async fn a_rejoin_does_not_overtake_waiters(target: &Target) {
    let store = serving(target).await;
    let holder = proposing(&["k"], TTL);
    take(&*store, &holder).await;
    let waiter = proposing(&["k"], TTL);
    queues(&*store, &waiter).await;
    store.release(&holder).await.unwrap();
    let answer = rejoin(&*store, &proposing(&["k"], TTL)).await;
    assert!(matches!(answer, Ok(HoldAnswer::NotHeld { .. })), "{answer:?}");
    timeout(WaitQueue::CLAIM_WINDOW, store.woken(&waiter)).await.expect("it was handed over");
    assert_eq!(rejoin(&*store, &waiter).await, Ok(HoldAnswer::Done));
    store.release(&waiter).await.unwrap();
}

/// Somebody else may hold a lease that it forgot for as long as the longest TTL. Releases are
/// accepted all the same, and requests for this store alone are served.
///
/// Regression: a transfer was served. A member that came back with its state of a moment ago had
/// forgotten that the lock was adopted, and helped a second process to adopt it.
pub async fn a_store_that_may_have_forgotten_leases_abstains_for_the_longest_ttl(target: &Target) {
    let store = serving(target).await;
    let ours = proposing(&["k"], TTL);
    take(&*store, &ours).await;
    target.forget();
    let left = abstains(&*store).await;
    let begun = runtime().now();
    let second = Duration::from_secs(1);
    assert!(left <= QUARANTINE && left + 2 * second > QUARANTINE, "{left:?}");
    let kinds = |fault: Option<Fault>| fault.map(|fault| fault.kind);
    assert_eq!(kinds(rejoin(&*store, &ours).await.err()), Some(FaultKind::Quarantined));
    assert_eq!(kinds(store.member().unwrap().raise(&ours).await.err()), Some(FaultKind::Quarantined));
    let renewed = store.renew(std::slice::from_ref(&ours)).await.pop().unwrap();
    assert_eq!(kinds(renewed.err()), Some(FaultKind::Quarantined));
    let successor = Successor { holder: attempt(&["k"], TTL).holder, label: None };
    let transferred = store.transfers().unwrap().transfer(&ours, &successor).await;
    assert_eq!(kinds(transferred.err()), Some(FaultKind::Quarantined));
    assert!(store.release(&ours).await.is_ok());
    let alone = attempt(&["alone"], TTL);
    take(&*store, &alone).await;
    store.release(&alone).await.unwrap();
    assert!(holders(&*store, "k").await.is_empty(), "nothing was granted meanwhile");
    serves(&*store).await;
    let passed = runtime().now().saturating_since(begun);
    assert!(passed + second / 2 > left, "it served after {passed:?} of {left:?}");
}

/// Asks until the store abstains, perhaps after connecting. Returns for how long it abstains.
async fn abstains(store: &dyn Store) -> Duration {
    let begun: Instant = runtime().now();
    loop {
        match store.grant(&proposing(&["k"], TTL), WaitMode::Try).await {
            Err(fault) if fault.kind == FaultKind::Quarantined => {
                let words: Vec<_> = fault.reason.split(' ').collect();
                return Duration::from_secs(words[2].parse().expect("quarantined for N s more"));
            }
            Err(fault) if fault.kind == FaultKind::Passing => {}
            other => panic!("it should abstain: {other:?}"),
        }
        assert!(runtime().now().saturating_since(begun) < IN_TIME, "it never answers");
        sleep(Duration::from_millis(20)).await;
    }
}

/// The quarantine does not affect observers.
pub async fn a_store_that_abstains_still_says_who_holds(target: &Target) {
    let store = serving(target).await;
    target.forget();
    abstains(&*store).await;
    assert_eq!(holders(&*store, "k").await, []);
}
