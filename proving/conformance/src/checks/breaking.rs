//! Checks: breaking a lease.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{Locks, Loss, TokioRuntime};
use leasehold_core::{
    BreakAnswer, BreakNote, Claim, Fence, GrantAnswer, HoldAnswer, HolderInfo, Label, Store, WaitMode, Wake,
};

use super::{LONG, attempt, holders, key, renew, take};
use crate::target::Target;

/// Long for a push on one machine, short for a person.
const AT_ONCE: Duration = Duration::from_millis(100);

async fn broken(store: &dyn Store, fence: Fence) -> HolderInfo {
    match store.admin().unwrap().break_lease(&key("k"), fence, &BreakNote::default()).await.unwrap() {
        BreakAnswer::Broken { holding } => holding,
        other => panic!("{other:?}"),
    }
}

async fn seen(store: &dyn Store) -> Fence {
    holders(store, "k").await[0].fence.unwrap()
}

/// Exactly the holding with that fence: not the one before it, nor the one after it, nor one of
/// another key.
pub async fn a_break_ends_the_holding_with_that_fence_and_no_other(target: &Target) {
    let (here, there) = (target.store(), target.store());
    let nothing = there
        .admin()
        .unwrap()
        .break_lease(&key("k"), Fence::new(7).unwrap(), &BreakNote::default())
        .await
        .unwrap();
    assert_eq!(nothing, BreakAnswer::NotHeld { held_by: None });
    let (one, other, bystander) = (attempt(&["k"], LONG), attempt(&["k"], LONG), attempt(&["l"], LONG));
    take(&*here, &bystander).await;
    take(&*here, &one).await;
    let fence = seen(&*there).await;
    for wrong in [fence.get() - 1, fence.get() + 1] {
        let answer = there
            .admin()
            .unwrap()
            .break_lease(&key("k"), Fence::new(wrong).unwrap(), &BreakNote::default())
            .await
            .unwrap();
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
    let again = there.admin().unwrap().break_lease(&key("k"), fence, &BreakNote::default()).await.unwrap();
    assert!(matches!(again, BreakAnswer::NotHeld { held_by: Some(_) }), "{again:?}");
    assert_eq!(renew(&*there, &other).await, HoldAnswer::Done);
    assert_eq!(renew(&*here, &bystander).await, HoldAnswer::Done);
}

/// The record says who broke which lease, when and why, also after the key is free again. A break
/// that broke nothing leaves no record.
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
    admin.break_lease(&key("k"), wrong, &note).await.unwrap();
    assert_eq!(admin.last_break(&key("k")).await.unwrap(), None);
    let before = there.marks().unwrap().marked(&key("k")).await.unwrap().now;
    admin.break_lease(&key("k"), fence, &note).await.unwrap();
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
    admin.break_lease(&key("shared"), fence, &BreakNote::default()).await.unwrap();
    let breaks = admin.list_breaks(b"").await.unwrap();
    assert_eq!(breaks.len(), 2, "{breaks:?}");
    assert_eq!((&breaks[1].held_by, &breaks[1].note), (&None, &BreakNote::default()));
    assert_eq!(breaks[1].fence, fence);
}

/// In the same step, so that nobody gets in between.
pub async fn a_broken_lease_goes_to_the_first_waiter(target: &Target) {
    let (here, there) = (target.store(), target.store());
    let (one, next) = (attempt(&["k"], LONG), attempt(&["k"], LONG));
    take(&*here, &one).await;
    let waits = there.grant(&next, WaitMode::Wait { queue_limit: None }).await.unwrap();
    assert!(matches!(waits, GrantAnswer::Busy { place: Some(_), .. }), "{waits:?}");
    let fence = seen(&*here).await;
    broken(&*here, fence).await;
    loop {
        match there.woken(&next).await {
            Wake::Granted { fence: after, .. } => {
                assert!(after > fence);
                break;
            }
            Wake::AskAgain => match there.grant(&next, WaitMode::Wait { queue_limit: None }).await.unwrap() {
                GrantAnswer::Granted { fence: after } => {
                    assert!(after > fence);
                    break;
                }
                other => assert!(matches!(other, GrantAnswer::Busy { .. }), "{other:?}"),
            },
        }
    }
}

/// By a push, long before the next renewal; also a holder that never had to wait.
pub async fn a_holder_is_notified_at_once_that_its_lease_was_broken(target: &Target) {
    let runtime = TokioRuntime::current().unwrap();
    let (here, there) = (target.store(), target.store());
    let locks = Locks::builder().ttl(LONG).runtime(Arc::new(runtime)).over(here).unwrap();
    let guard = locks.mutex("k").try_lock().await.unwrap().unwrap();
    let other = locks.mutex("l").try_lock().await.unwrap().unwrap();
    // The first lock subscribes the connection in the background.
    tokio::time::sleep(AT_ONCE).await;
    let fence = seen(&*there).await;
    broken(&*there, fence).await;
    let loss = tokio::time::timeout(AT_ONCE, guard.lost()).await.expect("told at once");
    assert!(matches!(&loss, Loss::Broken { key: broken, .. } if *broken == key("k")), "{loss:?}");
    assert!(other.is_held() && !guard.is_held());
}

/// In stores that can notify only waiters, a holder that has waited can still be notified while it
/// holds.
pub async fn a_holder_that_waited_is_notified_at_once_that_its_lease_was_broken(target: &Target) {
    let runtime = TokioRuntime::current().unwrap();
    let (here, there) = (target.store(), target.store());
    let locks = Locks::builder().ttl(LONG).runtime(Arc::new(runtime)).over(here).unwrap();
    let one = attempt(&["k"], LONG);
    take(&*there, &one).await;
    let waits = locks.mutex("k");
    let waiting = tokio::spawn(async move { waits.lock().await.unwrap() });
    while there.inspector().unwrap().inspect(&key("k")).await.unwrap().waiters.is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    tokio::time::sleep(AT_ONCE).await;
    there.release(&one).await.unwrap();
    let guard = waiting.await.unwrap();
    tokio::time::sleep(AT_ONCE).await;
    broken(&*there, guard.fence()).await;
    let loss = tokio::time::timeout(AT_ONCE, guard.lost()).await.expect("told at once");
    assert!(matches!(&loss, Loss::Broken { key: broken, .. } if *broken == key("k")), "{loss:?}");
}
