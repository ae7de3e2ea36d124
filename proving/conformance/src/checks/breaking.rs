//! Checks: breaking a lease.

use std::time::Duration;

use leasehold::{Guard, Loss};
use leasehold_core::{
    BreakAnswer, BreakNote, Claim, Fence, GrantAnswer, HoldAnswer, HolderInfo, Label, LeaseBreak, Store, Wake,
};

use super::queue::{joins, locks, served};
use super::{LONG, WAIT, attempt, holders, key, queues, renew, take};
use crate::target::Target;

/// Long for a push on one machine, short for a person.
const AT_ONCE: Duration = Duration::from_millis(100);

async fn breaks(store: &dyn Store, fence: Fence) -> BreakAnswer {
    let lease = LeaseBreak::new(fence, BreakNote::default());
    store.admin().unwrap().break_lease(&key("k"), &lease).await.unwrap()
}

async fn broken(store: &dyn Store, fence: Fence) -> HolderInfo {
    let answer = breaks(store, fence).await;
    let BreakAnswer::Broken { holding } = answer else { panic!("{answer:?}") };
    holding
}

async fn seen(store: &dyn Store) -> Fence {
    holders(store, "k").await[0].fence.unwrap()
}

/// Not the holding before it, nor the one after it, nor one of another key.
pub async fn a_break_ends_the_holding_with_that_fence_and_no_other(target: &Target) {
    let (here, there) = (target.store(), target.store());
    assert_eq!(breaks(&*there, Fence::new(7).unwrap()).await, BreakAnswer::NotHeld { held_by: None });
    let (one, other, bystander) = (attempt(&["k"], LONG), attempt(&["k"], LONG), attempt(&["l"], LONG));
    take(&*here, &bystander).await;
    take(&*here, &one).await;
    let fence = seen(&*there).await;
    for wrong in [fence.get() - 1, fence.get() + 1] {
        let answer = breaks(&*there, Fence::new(wrong).unwrap()).await;
        let BreakAnswer::NotHeld { held_by: Some(held_by) } = answer else { panic!("{answer:?}") };
        assert_eq!(held_by.fence, Some(fence));
    }
    assert_eq!(renew(&*here, &one).await, HoldAnswer::Done);
    let was = broken(&*there, fence).await;
    assert_eq!(was.fence, Some(fence));
    assert_eq!(holders(&*here, "k").await, []);
    assert_eq!(renew(&*here, &one).await, HoldAnswer::NotHeld { key: key("k"), held_by: None });
    assert_eq!(holders(&*here, "k").await, [], "a renewal brings nothing back");
    assert!(take(&*there, &other).await > fence);
    let again = breaks(&*there, fence).await;
    assert!(matches!(again, BreakAnswer::NotHeld { held_by: Some(_) }), "{again:?}");
    assert_eq!(renew(&*there, &other).await, HoldAnswer::Done);
    assert_eq!(renew(&*here, &bystander).await, HoldAnswer::Done);
}

/// The record says who broke which lease, when and why, and outlives it. A vain break leaves none.
pub async fn a_break_leaves_a_record(target: &Target) {
    let (here, there) = (target.store(), target.store());
    let label = |text: &str| Some(Label::new(text).unwrap());
    let note = BreakNote { by: label("ada@web-1:4711"), reason: label("it hangs: größe") };
    let admin = there.admin().unwrap();
    assert_eq!(admin.last_break(&key("k")).await.unwrap(), None);
    let mut one = attempt(&["k"], LONG);
    one.label = label("web-3 deploy");
    take(&*here, &one).await;
    let fence = seen(&*there).await;
    let wrong = Fence::new(fence.get() - 1).unwrap();
    admin.break_lease(&key("k"), &LeaseBreak::new(wrong, note.clone())).await.unwrap();
    assert_eq!(admin.last_break(&key("k")).await.unwrap(), None);
    let before = there.marks().unwrap().marked(&key("k")).await.unwrap().now;
    admin.break_lease(&key("k"), &LeaseBreak::new(fence, note.clone())).await.unwrap();
    let after = there.marks().unwrap().marked(&key("k")).await.unwrap().now;
    let record = here.admin().unwrap().last_break(&key("k")).await.unwrap().unwrap();
    assert!(before <= record.at && record.at <= after, "{before:?} {record:?} {after:?}");
    assert_eq!((&record.key, &record.held_by, &record.note), (&key("k"), &one.label, &note));
    assert_eq!(admin.list_breaks(b"k").await.unwrap(), [record]);
    assert_eq!(admin.list_breaks(b"l").await.unwrap(), []);

    // The same for shared holders, and without a reason.
    let mut reader = attempt(&["shared"], LONG);
    reader.claim = Claim::shared([key("shared")]).unwrap();
    take(&*here, &reader).await;
    let fence = holders(&*there, "shared").await[0].fence.unwrap();
    admin.break_lease(&key("shared"), &LeaseBreak::new(fence, BreakNote::default())).await.unwrap();
    let breaks = admin.list_breaks(b"").await.unwrap();
    assert_eq!(breaks.len(), 2, "{breaks:?}");
    assert_eq!((&breaks[1].held_by, &breaks[1].note), (&None, &BreakNote::default()));
    assert_eq!(breaks[1].fence, fence);
    assert_eq!(admin.last_break(&key("share")).await.unwrap(), None);
}

/// In the same step, so that nobody gets in between.
pub async fn a_broken_lease_goes_to_the_first_waiter(target: &Target) {
    let (here, there) = (target.store(), target.store());
    let (one, next) = (attempt(&["k"], LONG), attempt(&["k"], LONG));
    take(&*here, &one).await;
    queues(&*there, &next).await;
    let fence = seen(&*here).await;
    broken(&*here, fence).await;
    let after = loop {
        match there.woken(&next).await {
            Wake::Granted { fence, .. } => break fence,
            Wake::AskAgain => match there.grant(&next, WAIT).await.unwrap() {
                GrantAnswer::Granted { fence } => break fence,
                other => assert!(matches!(other, GrantAnswer::Busy { .. }), "{other:?}"),
            },
        }
    };
    assert!(after > fence);
}

/// By a push, long before the next renewal; also a holder that never had to wait.
pub async fn a_holder_is_notified_at_once_that_its_lease_was_broken(target: &Target) {
    let (store, locks) = (target.store(), locks(target));
    let guard = locks.mutex("k").try_lock().await.unwrap().unwrap();
    let other = locks.mutex("l").try_lock().await.unwrap().unwrap();
    is_told(&*store, &guard).await;
    assert!(other.is_held() && !guard.is_held());
}

/// Stores that can notify only waiters still notify a holder that has waited.
pub async fn a_holder_that_waited_is_notified_at_once_that_its_lease_was_broken(target: &Target) {
    let (store, locks) = (target.store(), locks(target));
    let one = attempt(&["k"], LONG);
    take(&*store, &one).await;
    let waiting = joins(&*store, 0, locks.mutex("k").lock().into_future()).await;
    tokio::time::sleep(AT_ONCE).await;
    store.release(&one).await.unwrap();
    is_told(&*store, &served(waiting).await).await;
}

async fn is_told(store: &dyn Store, guard: &Guard) {
    // The first lock subscribes the connection in the background.
    tokio::time::sleep(AT_ONCE).await;
    broken(store, guard.fence()).await;
    let loss = tokio::time::timeout(AT_ONCE, guard.lost()).await.expect("told at once");
    assert!(matches!(&loss, Loss::Broken { key: broken, .. } if *broken == key("k")), "{loss:?}");
}
