//! An operator breaks a lease that was handed to a stopped process, which continues later.

use std::{thread, time::Duration};

use faults::{Crowd, Plan, history::now, until};
use leasehold::{Locks, Owner};
use servers::Flavor;
use tokio::runtime::Runtime;

use crate::scene::{Scene, WINDOW, worker};

servers::tests! {
    fn a_lock_granted_after_a_break_is_not_lost_to_that_break_at_a_valkey() =
        granted_after_a_break(&Scene::on(Flavor::Valkey91));
    fn a_lock_granted_after_a_break_is_not_lost_to_that_break_at_a_redis() =
        granted_after_a_break(&Scene::on(Flavor::Redis62));
    fn a_lock_granted_after_a_break_is_not_lost_to_that_break_at_a_file() =
        granted_after_a_break(&Scene::on_a_file());
}

/// Found by a soak test: when it continued, it asked again under the same id and was granted the lock.
/// Then it read that its lease had been broken, and took the new one for lost.
fn granted_after_a_break(scene: &Scene) {
    let runtime = Runtime::new().unwrap();
    let locks = runtime.block_on(Locks::connect(&scene.url)).unwrap();
    let look = || runtime.block_on(locks.inspect(Plan::KEY)).unwrap();
    let before = runtime.block_on(locks.mutex(Plan::KEY).lock().into_future()).unwrap();
    let mut plan = scene.plan();
    // Long enough to receive every message that was sent meanwhile.
    (plan.tasks, plan.hold) = (1, Duration::from_millis(500));
    let mut crowd = Crowd::new(plan);
    crowd.add(worker(), 1);
    let process = crowd.alive()[0];
    until("the process is queued", Duration::from_secs(10), || look().waiters.len() == 1);
    crowd.stop(process);
    runtime.block_on(before.release()).unwrap();
    assert_eq!(crowd.has_the_lock(), Some(process));
    let handed = look().holders[0].fence.unwrap();
    let broken = runtime.block_on(locks.break_lease(Plan::KEY, handed)).unwrap();
    assert!(matches!(broken.owner, Owner::Holder { .. }), "{broken:?}");
    // By its own clock, the lease that it was handed is over then, so it asks again.
    thread::sleep(WINDOW + Duration::from_millis(100));
    let since = now();
    crowd.cont(process);
    // Served once, and once more: then it has released its first grant.
    crowd.wait_until_served_since(since, &[process], Duration::from_secs(10));
    crowd.wait_until_served_since(now(), &[process], Duration::from_secs(10));

    let parsed_history = scene.ends_unjudged("granted after a break", &mut crowd);
    let granted = parsed_history.spans.iter().find(|span| span.granted.is_some()).unwrap();
    assert!(granted.granted.unwrap().1 > handed.get(), "{granted}");
    assert!(!granted.knew && granted.deceived.is_none(), "it was taken for lost: {granted}");
}
