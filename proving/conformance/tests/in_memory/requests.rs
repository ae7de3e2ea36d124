//! Requests are futures that own what they need.

use std::time::Duration;

use leasehold::testing::{Outage, World};
use leasehold::{Backoff, Drift, Event, LockError, Locks, Misuse, RenewError, TransferError};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_request_is_spawned_as_it_is() {
    let locks = Locks::in_memory();
    let guard = tokio::spawn(locks.mutex("k").lock()).await.unwrap().unwrap();
    let free = tokio::spawn(locks.mutex("k").unlocked());
    let next = tokio::spawn(locks.mutex("k").lock().within(60 * SECOND));
    let reader = tokio::spawn(locks.rw_lock("doc").read());
    let permit = tokio::spawn(locks.semaphore("gpus", 2).acquire_many(2));
    guard.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    free.await.unwrap().unwrap();
    drop((reader.await.unwrap().unwrap(), permit.await.unwrap().unwrap()));
}

/// Regression: it blocked all other tasks of its thread.
#[tokio::test]
async fn a_task_that_locks_and_releases_again_and_again_lets_others_run() {
    let mutex = Locks::in_memory().mutex("k");
    let other = tokio::spawn(async {});
    let mut cycles = 0;
    while !other.is_finished() {
        mutex.lock().await.unwrap().release().await.unwrap();
        cycles += 1;
        assert!(cycles < 1000, "the other task never ran");
    }
}

/// As in libraries that poll.
#[tokio::test]
async fn a_request_with_a_number_of_retries_polls_and_ends_after_them() {
    let world = World::new();
    let mutex = world.locks().mutex("k");
    let guard = mutex.lock().await.unwrap();
    let pauses = Backoff::fixed(SECOND / 5, Duration::ZERO).unwrap();
    let request = tokio::spawn(mutex.lock().retries(10).backoff(pauses));
    world.advance(SECOND).await;
    assert_eq!(world.locks().inspect("k").await.unwrap().waiters.len(), 0, "it waits in no queue");
    assert!(!request.is_finished());
    world.advance(SECOND).await;
    let LockError::TimedOut { attempts, waited, held_by, .. } = request.await.unwrap().unwrap_err() else {
        panic!("it was refused")
    };
    assert_eq!((attempts, waited, held_by.is_some()), (11, 2 * SECOND, true));
    let told = Backoff::fixed(SECOND, Duration::ZERO).unwrap();
    let request = tokio::spawn(mutex.lock().retries(1).backoff(told));
    world.settle().await;
    guard.release().await.unwrap();
    world.advance(SECOND).await;
    assert_eq!(request.await.unwrap().unwrap().attempts(), 2);
}

/// Somebody ahead of it gave up.
#[tokio::test]
async fn a_waiter_is_reported_again_when_only_its_place_has_changed() {
    let world = World::new();
    let (others, locks) = (world.locks(), world.locks());
    let _held = others.mutex("k").lock().await.unwrap();
    let ahead = tokio::spawn(others.mutex("k").lock());
    world.settle().await;
    let mut events = locks.events();
    let _waiting = tokio::spawn(locks.mutex("k").lock());
    world.settle().await;
    ahead.abort();
    world.advance(6 * SECOND).await;
    for expected in [2, 1] {
        let event = world.within(SECOND, events.next()).await;
        assert!(matches!(event, Some(Event::Waiting { place: Some(place), .. }) if place == expected));
    }
}

#[tokio::test]
async fn a_request_has_an_outage_limit_of_its_own() {
    let world = World::new();
    world.outage(Outage::Down);
    let request = tokio::spawn(world.locks().mutex("k").lock().outage_limit(3 * SECOND));
    world.advance(2 * SECOND).await;
    assert!(!request.is_finished());
    world.advance(SECOND).await;
    let LockError::Unreachable { waited, .. } = request.await.unwrap().unwrap_err() else { panic!() };
    assert_eq!(waited, 3 * SECOND);
}

/// Regression: a call in flight at the outage limit was awaited to its end, up to 2 s later.
#[tokio::test]
async fn jobs_and_followers_of_a_leader_wait_for_a_silent_store_no_longer_than_the_outage_limit() {
    let world = World::new();
    let locks = world.locks_with(Locks::builder().outage_limit(SECOND / 5));
    let (once, every, mut leaders) =
        (locks.once("job"), locks.every(SECOND, "tick"), locks.election("e").leaders());
    world.outage(Outage::Silent);
    assert!(world.within(SECOND, once.mark()).await.is_err());
    assert_eq!(world.passed(), SECOND / 5);
    assert!(world.within(SECOND, once.begin()).await.is_err());
    assert!(world.within(SECOND, every.begin()).await.is_err());
    assert!(world.within(SECOND, leaders.next()).await.is_err());
    assert_eq!(world.passed(), 4 * SECOND / 5);
}

#[tokio::test]
async fn a_request_has_a_drift_of_its_own_and_so_has_its_guard() {
    let world = World::new();
    let drift = Drift::new(500, Duration::ZERO).unwrap();
    let guard = world.locks().mutex("k").ttl(10 * SECOND).lock().drift(drift).await.unwrap();
    assert_eq!(guard.remaining(), 5 * SECOND);
    guard.renew(20 * SECOND).await.unwrap();
    assert_eq!(guard.remaining(), 10 * SECOND);
    // Others are kept out for all of the TTL.
    assert!(world.locks().mutex("k").try_lock().await.unwrap().is_none());
}

/// Regression: the store granted the lock again and again, and was asked without a pause up to the
/// outage limit. The error then said that it did not answer.
#[tokio::test]
async fn a_drift_that_leaves_no_lease_is_refused_before_the_store_is_asked() {
    let drift = Drift::new(0, 10 * SECOND).unwrap();
    let locks = Locks::in_memory();
    let request = locks.mutex("k").ttl(10 * SECOND).lock().drift(drift).outage_limit(SECOND / 10);
    let error = request.await.unwrap_err();
    assert!(matches!(error, LockError::Misuse(Misuse::Drift { .. })), "{error}");
    let locks = Locks::builder().drift(drift).ttl(10 * SECOND).in_memory().unwrap();
    let refused = locks.mutex("k").try_lock().await.unwrap_err();
    assert!(matches!(refused, LockError::Misuse(Misuse::Drift { .. })), "{refused}");
    let guard = locks.mutex("k").ttl(11 * SECOND).try_lock().await.unwrap().unwrap();
    // Regression: the guard then asked for renewals that it could not believe, and lost its lock.
    let refused = guard.renew(10 * SECOND).await.unwrap_err();
    assert!(matches!(refused, RenewError::Misuse(Misuse::Drift { .. })), "{refused}");
    assert_eq!(guard.ttl().duration(), 11 * SECOND);
    let token = guard.transfer(60 * SECOND).await.unwrap();
    let refused = locks.adopt(&token).await.unwrap_err();
    assert!(matches!(refused, TransferError::Misuse(Misuse::Drift { .. })), "{refused}");
}

/// There may be very many waiters, each with its request.
#[test]
fn a_request_is_two_words() {
    assert_eq!(size_of::<leasehold::Acquire>(), 2 * size_of::<usize>());
}

#[tokio::test]
async fn a_wait_until_a_lock_is_free_has_its_own_outage_limit() {
    let world = World::new();
    let process = world.process();
    process.outage(Outage::Down);
    let refused = world.within(SECOND, process.locks().mutex("k").unlocked().outage_limit(SECOND / 2)).await;
    assert!(matches!(refused, Err(LockError::Unreachable { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_guard_says_why_it_was_lost() {
    let world = World::new();
    let guard = world.locks().mutex("k").lock().await.unwrap();
    assert_eq!(guard.loss(), None);
    world.break_lease("k");
    let loss = world.within(SECOND, guard.lost()).await;
    assert_eq!(guard.loss(), Some(loss));
}
