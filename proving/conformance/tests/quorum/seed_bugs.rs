//! Bugs of other lock managers over several servers, each test named for the symptom.

use conformance::faulty::CallFate;
use leasehold::{LockError, Misuse, ReleaseError, Renewal};
use tokio::time::{sleep, timeout};

use super::world::{SECOND, TTL, World, holding, process_of};

/// redlock 4 unlocks everywhere if an extension fails: one transient error lost all three keys.
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

/// redlock 5 leaves the keys of a failed attempt, and waits for its own leftovers to expire.
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

/// redlock 5 retries the release of an expired lock for two seconds, and names no reason.
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
