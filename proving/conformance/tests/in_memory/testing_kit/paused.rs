//! A world whose time is tokio's, which the test has paused.

use std::time::Duration;

use leasehold::testing::{Outage, World};
use leasehold::{HoldError, LockError, Locks, Loss};
use tokio::time::{Instant, sleep};

use super::{SECOND, TTL};

/// Works for ten minutes of tokio's time, as a user's job.
async fn job(locks: Locks) -> Result<&'static str, HoldError<&'static str>> {
    let work = async |_| {
        for _ in 0..10 {
            sleep(60 * SECOND).await;
        }
        "done"
    };
    locks.mutex("job").lock().hold(work).await
}

/// Regression: the world's time stood still while the job slept, and the lock was lost.
#[tokio::test(start_paused = true)]
async fn a_job_that_sleeps_by_tokio_sees_its_loss() {
    let world = World::new();
    assert_eq!(job(world.locks()).await, Ok("done"));
    assert_eq!(world.passed(), 600 * SECOND);

    let running = tokio::spawn(job(world.locks()));
    world.until_held("job").await;
    sleep(200 * SECOND).await;
    world.lose("job");
    let begun = Instant::now();
    let lost = running.await.unwrap();
    assert!(matches!(lost, Err(HoldError::Lost(Loss::Gone { .. }))), "{lost:?}");
    assert!(begun.elapsed() <= TTL / 2, "{:?}", begun.elapsed());

    let running = tokio::spawn(job(world.locks()));
    world.until_held("job").await;
    world.outage(Outage::Silent);
    let begun = Instant::now();
    assert!(matches!(running.await.unwrap(), Err(HoldError::Lost(Loss::Expired { .. }))));
    assert!(begun.elapsed() <= TTL, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn advancing_moves_both_times() {
    let world = World::new();
    let (begun, guard) = (Instant::now(), world.locks().mutex("k").lock().await.unwrap());
    world.advance(3600 * SECOND).await;
    assert_eq!((world.passed(), guard.held_for()), (3600 * SECOND, 3600 * SECOND));
    assert_eq!(begun.elapsed(), 3600 * SECOND);
    let asked = world.locks().mutex("k").lock().within(60 * SECOND);
    let busy = world.within(120 * SECOND, asked).await;
    assert!(matches!(busy, Err(LockError::TimedOut { .. })), "{busy:?}");
    assert_eq!(begun.elapsed(), 3660 * SECOND);
}

/// Up to the time limit of a call; then it is an outage. On each kind of clock.
async fn a_slow_store_answers_late(world: World) {
    let locks = world.locks();
    for by in [SECOND / 10, SECOND / 4] {
        world.outage(Outage::Slow { by });
        let begun = world.passed();
        let guard = world.within(TTL, locks.mutex("k").try_lock()).await.unwrap().unwrap();
        assert_eq!(world.passed() - begun, by);
        world.within(TTL, guard.release()).await.unwrap();
    }
    world.outage(Outage::Slow { by: SECOND });
    let silent = world.within(TTL, locks.mutex("k").try_lock()).await;
    assert!(matches!(silent, Err(LockError::Unreachable { .. })), "{silent:?}");
    world.heal();
    world.advance(Duration::ZERO).await;
    assert!(world.within(TTL, locks.mutex("k").try_lock()).await.unwrap().is_some());
}

/// Regression: a waiter was notified, and a break reported, only when the store was no longer slow.
#[tokio::test]
async fn a_slow_store_notifies_a_waiter_and_a_holder() {
    let world = World::new();
    world.outage(Outage::Slow { by: SECOND / 10 });
    let guard = world.within(SECOND, world.locks().mutex("k").lock()).await.unwrap();
    let waiting = tokio::spawn(world.locks().mutex("k").lock().into_future());
    world.advance(SECOND).await;
    world.within(SECOND, guard.release()).await.unwrap();
    let guard = world.within(SECOND, waiting).await.unwrap().unwrap();
    world.break_lease("k");
    world.advance(SECOND).await;
    assert!(!guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_answers_late_on_a_paused_clock() {
    a_slow_store_answers_late(World::new()).await;
}

#[tokio::test]
async fn a_slow_store_answers_late_in_the_worlds_own_time() {
    a_slow_store_answers_late(World::new()).await;
}
