//! Bugs of other lock managers over several servers, each test named for the symptom.

use std::time::Duration;

use conformance::faulty::CallFate;
use leasehold::{HoldError, LockError, Loss, Misuse, ReleaseError, Renewal};
use tokio::time::{sleep, timeout};

use super::world::{SECOND, TTL, World, holding, process_of};

/// redlock 4 unlocks everywhere if an extension fails: after one transient error at two of three
/// servers, the keys were gone at all three while the work continued.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_unlocks_nothing() {
    let (world, process, guard) = holding(3).await;
    process.set([0, 1], &CallFate::Lost);
    assert!(guard.renew(TTL).await.is_err());
    assert_eq!(world.taken(), 3);
    process.set([0, 1], &CallFate::Fair);
    guard.renew(TTL).await.unwrap();
    sleep(5 * TTL).await;
    assert!(guard.is_held());
}

/// redlock 5 does not check the clock after the last vote, and granted locks whose servers had
/// already let them expire.
#[tokio::test(start_paused = true)]
async fn a_lock_that_has_expired_is_never_given_out() {
    let (world, process) = process_of(3);
    let mutex = process.locks.mutex("k").ttl(SECOND / 5).renewal(Renewal::Off);
    process.set([1, 2], &CallFate::Slow(SECOND / 5));
    let error = mutex.lock().within(SECOND).await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    sleep(2 * SECOND).await;
    assert!(world.is_empty());
    process.set([1, 2], &CallFate::Slow(SECOND / 20));
    let guard = mutex.lock().await.unwrap();
    assert!(guard.is_held() && guard.remaining() <= SECOND * 3 / 20);
}

/// redlock 5 leaves the keys of a failed attempt in place, and its next attempt, with another
/// value, is refused because of them: it waits for its own leftovers to expire.
#[tokio::test(start_paused = true)]
async fn a_retry_is_not_blocked_by_what_the_attempt_before_left() {
    let (_world, process) = process_of(3);
    process.set([1, 2], &CallFate::AnswerLost);
    let locks = process.locks.clone();
    let waits = tokio::spawn(locks.mutex("k").lock().into_future());
    sleep(2 * SECOND).await;
    process.set([1, 2], &CallFate::Fair);
    let guard = timeout(2 * SECOND, waits).await.expect("well before a ttl").unwrap().unwrap();
    assert!(guard.attempts() > 1);
}

/// redlock 5 retries the release of an expired lock for two seconds, and then fails without naming
/// a reason.
#[tokio::test(start_paused = true)]
async fn releasing_an_expired_lock_says_so_at_once() {
    let world = World::of(3);
    let mutex = world.process().locks.mutex("k").renewal(Renewal::Off);
    let guard = mutex.lock().await.unwrap();
    sleep(TTL).await;
    let begun = world.time.passed();
    assert!(matches!(guard.release().await, Err(ReleaseError::Expired { .. })));
    assert_eq!(world.time.passed(), begun);
}

/// redlock 5's `using` notified the work of the loss more than a second after the lease had ended,
/// and a failed release replaced the result of the work.
#[tokio::test(start_paused = true)]
async fn work_is_stopped_by_the_end_of_the_lease_and_its_result_is_never_replaced() {
    let (world, process) = process_of(3);
    let work = process.locks.mutex("k").lock().hold(|_| {
        process.set(0..3, &CallFate::Hung);
        std::future::pending::<()>()
    });
    assert!(matches!(work.await, Err(HoldError::Lost(Loss::Expired { .. }))));
    assert!(world.time.passed() <= TTL);
    process.set(0..3, &CallFate::Fair);
    let work = process.locks.mutex("other").lock().hold(|_| async {
        process.set(0..3, &CallFate::Refused);
        7
    });
    assert_eq!(work.await, Ok(7));
}

/// redlock 4 takes `retryCount: 0` for "not set", and with −1, acquiring a stolen lock never
/// returned.
#[tokio::test(start_paused = true)]
async fn one_try_is_one_try_and_a_limit_is_kept() {
    let world = World::of(3);
    let _guard = world.process().locks.mutex("k").lock().await.unwrap();
    let process = world.process();
    assert!(process.locks.mutex("k").try_lock().await.unwrap().is_none());
    assert_eq!(world.time.passed(), Duration::ZERO);
    let error = process.locks.mutex("k").lock().within(3 * SECOND).await.unwrap_err();
    assert!(matches!(error, LockError::TimedOut { .. }), "{error}");
    assert_eq!(world.time.passed(), 3 * SECOND);
}

/// redlock 4 and 5 accept `['a', 'a']` and cannot release it; `[]` locks nothing, and succeeds.
#[tokio::test(start_paused = true)]
async fn a_key_named_twice_is_locked_once_and_no_key_is_a_misuse() {
    let (world, process) = process_of(3);
    process.locks.mutex_all(["a", "a"]).lock().await.unwrap().release().await.unwrap();
    sleep(SECOND).await;
    assert!(world.is_empty());
    let nothing = process.locks.mutex_all([""; 0]).lock().await.unwrap_err();
    assert_eq!(nothing, LockError::Misuse(Misuse::NoKeys));
}

/// All of them count a lease on the wall clock: when that was set back an hour, a dead lock
/// reported an hour left. Leasehold's lease clock is not the wall clock, and leases end even so.
#[tokio::test(start_paused = true)]
async fn the_remaining_time_of_a_lease_never_exceeds_its_ttl() {
    let world = World::of(3);
    let guard = world.process().locks.mutex("k").renewal(Renewal::Off).lock().await.unwrap();
    for second in 0..=10 {
        assert!(guard.remaining() <= TTL - second * SECOND);
        sleep(SECOND).await;
    }
    assert!(!guard.is_held() && guard.remaining() == Duration::ZERO);
}
