//! The features of five lock libraries, written with Leasehold: a test for each feature that no
//! other test covers. `docs/replacing.md` lists all of them.

use std::time::Duration;

use conformance::events::wait_for;
use leasehold::{
    Backoff, ConnectError, Drift, Event, LockError, Locks, Misuse, ReleaseError, RenewError, Renewal,
};
use servers::{Flavor, Server};
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
/// Far longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);

async fn two() -> (Server, Locks, Locks) {
    let server = Server::start(Flavor::Redis70);
    let here = Locks::connect(&server.url()).await.unwrap();
    let there = Locks::connect(&server.url()).await.unwrap();
    (server, here, there)
}

/// exclusive-lock: calling `release()` twice is not an error. Here, a released guard no longer exists.
/// redislock: `release()` of one's own lock alone, an error if that had expired. redisLocker:
/// `unLock` returns null, 0, 1 or −1 where these errors explain; its late unlock deleted the lock
/// of another task of the same process.
#[tokio::test(flavor = "multi_thread")]
async fn redislock_release_and_redis_locker_unlock_touch_ones_own_lock_alone_and_say_what_was_there() {
    let (server, here, _) = two().await;
    let lease = here.mutex("k").ttl(SECOND / 5).renewal(Renewal::Off);
    let late = lease.lock().await.unwrap();
    late.lost().await;
    let same_process = here.mutex("k").lock().within(LONG).await.unwrap();
    let error = late.release().await.unwrap_err();
    assert!(matches!(error, ReleaseError::Expired { .. } | ReleaseError::TakenByOther { .. }), "{error:?}");
    here.close(Duration::ZERO).await.unwrap_err();
    drop(same_process);

    let again = Locks::connect(&server.url()).await.unwrap();
    let guard = again.mutex("other").lock().await.unwrap();
    server.text(&["SET", "other", "a thief's"]);
    assert!(matches!(guard.release().await, Err(ReleaseError::TakenByOther { .. })));
    assert_eq!(server.text(&["GET", "other"]).as_text(), Some("a thief's"));
}

/// redislock: `extend(time)` counts from now. Its `extend(-5)` reported success and deleted the
/// lock. redisLocker: the extension compares the value before it sets it.
#[tokio::test(flavor = "multi_thread")]
async fn redislock_extend_and_redis_locker_extension_last_from_now_for_the_holder_alone() {
    let (server, here, _) = two().await;
    let guard = here.mutex("k").ttl(2 * SECOND).renewal(Renewal::Off).lock().await.unwrap();
    guard.renew(LONG).await.unwrap();
    assert!(guard.remaining() > LONG - SECOND && guard.remaining() <= LONG);
    // A negative time cannot be written, and zero is refused before it is sent.
    let error = guard.renew(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, RenewError::Misuse(Misuse::TtlTooShort { .. })), "{error:?}");
    assert!(guard.is_held() && server.text(&["EXISTS", "k"]).as_integer() == Some(1));

    server.text(&["SET", "k", "a thief's", "PX", "5000"]);
    assert!(matches!(guard.renew(LONG).await, Err(RenewError::Lost(_))));
    assert!(server.text(&["PTTL", "k"]).as_integer().unwrap() <= 5000, "it lengthened the thief's");
}

/// redislock: `createLock` with `timeout`, `retries` and `delay`; `setDefaults`. An acquire on a
/// handle that already held a key orphaned that key: here, each has its own guard.
#[tokio::test(flavor = "multi_thread")]
async fn redislock_defaults_are_the_builders_and_each_lock_may_differ() {
    let locks = Locks::builder().ttl(7 * SECOND).label("web-3").in_memory().unwrap();
    let usual = locks.mutex("a").lock().await.unwrap();
    let other = locks.mutex("b").ttl(9 * SECOND).label("web-4").lock().await.unwrap();
    assert_eq!([usual.ttl(), other.ttl()].map(leasehold::Ttl::duration), [7 * SECOND, 9 * SECOND]);
    let labels = [usual.held(), other.held()].map(|held| held.label().map(str::to_owned));
    assert_eq!(labels, [Some("web-3".into()), Some("web-4".into())]);
    drop(usual);
    assert!(other.is_held());
}

/// redislock: LockAcquisitionError, LockReleaseError, LockExtendError, LockHeldError.
#[tokio::test(flavor = "multi_thread")]
async fn redislock_errors_are_one_type_for_each_operation_with_the_facts_in_them() {
    let (server, here, there) = two().await;
    let guard = here.mutex("k").label("web-3").lock().await.unwrap();
    let acquisition: LockError = there.mutex("k").lock().within(Duration::ZERO).await.unwrap_err();
    assert!(acquisition.to_string().contains("web-3"), "{acquisition}");
    let held: LockError = there.mutex("k").unlocked().within(Duration::ZERO).await.unwrap_err();
    assert!(matches!(held, LockError::TimedOut { .. }), "{held:?}");
    server.text(&["DEL", "k"]);
    let extend: RenewError = guard.renew(LONG).await.unwrap_err();
    let release: ReleaseError = guard.release().await.unwrap_err();
    assert!(
        extend.to_string().starts_with("k: ") && release.to_string().starts_with("k: "),
        "{extend}; {release}"
    );
}

/// exclusive-lock: the event `error`. With the key gone, it kept emitting refreshed; a thief's key it
/// refreshed, and deleted in the end. Without a listener, the process ended.
#[tokio::test(flavor = "multi_thread")]
async fn exclusive_lock_event_error_comes_when_the_key_is_gone_or_a_thiefs_and_nobody_need_listen() {
    let (server, here, there) = two().await;
    let lease = |key: &str| here.mutex(key).ttl(3 * SECOND);
    let (unheard, mut events) = (lease("unheard").lock().await.unwrap(), here.events());
    for steal in [&["DEL", "k"][..], &["SET", "k", "a thief's"][..]] {
        let guard = lease("k").lock().await.unwrap();
        server.text(&["DEL", "k"]);
        server.text(steal);
        let lost = wait_for(&mut events, 3 * SECOND, |event| match event {
            Event::Lost { request, .. } => Some(request.holder),
            _ => None,
        });
        assert_eq!(lost.await, guard.holder());
        assert!(!guard.is_held());
        guard.release().await.unwrap_err();
    }
    assert_eq!(server.text(&["GET", "k"]).as_text(), Some("a thief's"), "it was not ours to delete");
    server.kill_9();
    let next = timeout(5 * SECOND, events.next()).await.expect("soon");
    assert!(matches!(next, Some(Event::StoreFault { .. } | Event::Renewed { .. })));
    drop(events);
    let mut there_too = there.events();
    unheard.lost().await;
    drop((there_too.next(), unheard));
}

/// redis-dlm: `duration`, `retryCount`, `retryDelay`, `maxHoldTime`, `driftFactor`, `driftConstant`,
/// for a manager and each call. Invalid ones became defaults; a duration could exceed the maxHoldTime.
#[tokio::test(flavor = "multi_thread")]
async fn redis_dlm_settings_have_each_its_place_and_none_is_replaced_without_a_word() {
    let drift = Drift::new(10, Duration::from_millis(2)).unwrap();
    let most = Renewal::AtMost(9 * SECOND);
    let locks = Locks::builder().ttl(5 * SECOND).renewal(most).drift(drift).in_memory().unwrap();
    let backoff = Backoff::new(SECOND / 20, SECOND / 5).unwrap();
    let guard = locks.mutex("k").lock().within(SECOND).backoff(backoff).await.unwrap();
    // A hundredth of the TTL and 2 ms.
    assert!(guard.remaining() <= 5 * SECOND - Duration::from_millis(52), "{:?}", guard.remaining());

    let refused = |ttl, renewal| Locks::builder().ttl(ttl).renewal(renewal).in_memory().unwrap_err();
    let Err(error) = Drift::new(1000, Duration::ZERO) else { panic!("a drift that leaves nothing") };
    assert!(matches!(error, Misuse::Drift { .. }));
    for (ttl, renewal) in [(10 * SECOND, most), (Duration::ZERO, most), (Duration::MAX, Renewal::Automatic)] {
        assert!(matches!(refused(ttl, renewal), ConnectError::Misuse(_)), "{ttl:?}");
    }
}

/// redis-dlm: `lock.key`, `uid`, `duration`, `startTime`, `remainingTime`. One uid served for every
/// acquire: here, each attempt has its own, which nobody can guess.
#[tokio::test(flavor = "multi_thread")]
async fn redis_dlm_lock_says_its_key_holder_ttl_and_times() {
    let locks = Locks::in_memory();
    let guard = locks.mutex("k").ttl(5 * SECOND).lock().await.unwrap();
    assert_eq!(guard.keys().map(ToString::to_string).collect::<Vec<_>>(), ["k"]);
    assert_eq!(guard.ttl().duration(), 5 * SECOND);
    sleep(SECOND / 20).await;
    assert!(guard.held_for() >= SECOND / 20 && guard.remaining() < 5 * SECOND);
    let first = guard.holder();
    guard.release().await.unwrap();
    assert_ne!(locks.mutex("k").lock().await.unwrap().holder(), first);
}

/// redis-dlm subtracted the time of its retries from the lease, acquired the lock, and reported
/// that it had taken too long; and it had the same error for a held lock and for a dead server.
#[tokio::test(flavor = "multi_thread")]
async fn redis_dlm_waiting_takes_nothing_off_the_lease_and_held_is_not_dead() {
    let (server, here, there) = two().await;
    let guard = here.mutex("k").lock().await.unwrap();
    let waiting = tokio::spawn(there.mutex("k").ttl(SECOND).lock().into_future());
    sleep(2 * SECOND).await;
    guard.release().await.unwrap();
    let late = timeout(LONG, waiting).await.unwrap().unwrap().unwrap();
    // It waited for twice its TTL. A handed-over lease counts from when the server was last heard.
    assert!(late.is_held() && late.remaining() > SECOND / 10, "{:?}", late.remaining());
    let held = here.mutex("k").lock().within(Duration::ZERO).await.unwrap_err();
    assert!(matches!(held, LockError::TimedOut { .. }), "{held:?}");
    server.kill_9();
    let dead = here.mutex("other").lock().within(SECOND).await.unwrap_err();
    assert!(matches!(dead, LockError::Unreachable { .. }), "{dead:?}");
}
