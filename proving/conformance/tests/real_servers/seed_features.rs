//! The features of five lock libraries, written with Leasehold: a test for each feature that no
//! other test covers. `docs/replacing.md` lists all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use leasehold::{
    AnyStore, Backoff, ConnectError, Drift, EveryOutcome, LockError, Locks, Misuse, OnceOutcome,
    ReleaseError, RenewError, Renewal,
};
use servers::{Flavor, Server};
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
/// Far longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);

/// Two processes on one server.
async fn two() -> (Server, Locks, Locks) {
    let server = Server::start(Flavor::Redis70);
    let here = Locks::connect(&server.url()).await.unwrap();
    let there = Locks::connect(&server.url()).await.unwrap();
    (server, here, there)
}

/// redislock: `acquire(key)` with `retries` 0, n or −1, and a `delay` between them.
#[tokio::test(flavor = "multi_thread")]
async fn redislock_acquire_tries_once_waits_so_long_or_for_ever() {
    let (_server, here, there) = two().await;
    let guard = here.mutex("k").lock().await.unwrap();
    assert!(there.mutex("k").try_lock().await.unwrap().is_none());
    let error = there.mutex("k").lock().within(SECOND / 5).await.unwrap_err();
    assert!(matches!(error, LockError::TimedOut { held_by: Some(_), .. }), "{error:?}");
    let for_ever = tokio::spawn(there.mutex("k").lock().into_future());
    sleep(SECOND / 5).await;
    assert!(!for_ever.is_finished());
    guard.release().await.unwrap();
    drop(timeout(LONG, for_ever).await.unwrap().unwrap().unwrap());
}

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

/// redislock: `getAcquiredLocks()`. Its locks stayed in the list, as held, after they had expired.
#[tokio::test(flavor = "multi_thread")]
async fn redislock_acquired_locks_are_those_that_are_held_now() {
    let locks = Locks::in_memory();
    let short = locks.mutex("short").ttl(SECOND / 10).renewal(Renewal::Off).lock().await.unwrap();
    let long = locks.mutex("long").lock().await.unwrap();
    assert_eq!(locks.guards().len(), 2);
    short.lost().await;
    assert!(!short.is_held());
    let held: Vec<_> =
        locks.guards().iter().flat_map(|held| held.keys().cloned().collect::<Vec<_>>()).collect();
    assert_eq!(held, long.keys().cloned().collect::<Vec<_>>());
    long.release().await.unwrap();
    assert_eq!(locks.guards().len(), 0);
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

/// redisLocker: `lock(key, expire)`, many keys through one object.
#[tokio::test(flavor = "multi_thread")]
async fn redis_locker_locks_many_keys_by_one_object() {
    let (server, here, _) = two().await;
    let mut guards = Vec::new();
    for number in 0..50 {
        guards.push(here.mutex(format!("k{number}")).ttl(LONG).lock().await.unwrap());
    }
    assert_eq!((here.guards().len(), here.list("k").await.unwrap().len()), (50, 50));
    let clients = server.text(&["CLIENT", "LIST", "TYPE", "normal"]).as_text().unwrap().lines().count();
    assert!(clients <= 4, "{clients} connections, ours and the test's");
    drop(guards);
    here.close(LONG).await.unwrap();
}

/// redisLocker: `waitLock(key, expire, interval, waitTime)` exceeded its time, and swallowed every
/// error.
#[tokio::test(flavor = "multi_thread")]
async fn redis_locker_wait_lock_does_not_overshoot_and_swallows_no_error() {
    let (server, here, there) = two().await;
    let _guard = here.mutex("k").lock().await.unwrap();
    let begun = Instant::now();
    let error = there.mutex("k").lock().within(SECOND / 2).await.unwrap_err();
    assert!(matches!(error, LockError::TimedOut { .. }), "{error:?}");
    assert!((SECOND / 2..SECOND).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    server.text(&["RPUSH", "list", "x"]);
    let error = there.mutex("list").lock().within(LONG).await.unwrap_err();
    assert!(matches!(error, LockError::NotALock { .. }), "{error:?}");
}

/// exclusive-lock: exclusive initialisation and periodic checks, done by one instance of several.
#[tokio::test(flavor = "multi_thread")]
async fn exclusive_lock_initialisation_and_periodic_checks_are_done_by_one_instance() {
    let (_server, here, there) = two().await;
    let times = Arc::new(AtomicU32::new(0));
    let count = || {
        let times = times.clone();
        async move { Ok::<_, std::io::Error>(times.fetch_add(1, Ordering::Relaxed)) }
    };
    let (one, other) = (here.once("init"), there.once("init"));
    let (one, other) = tokio::join!(one.run(|_| count()), other.run(|_| count()));
    let ran = [one, other].map(|done| matches!(done.unwrap(), OnceOutcome::Ran(_)));
    assert!(ran[0] != ran[1] && times.load(Ordering::Relaxed) == 1, "{ran:?}");

    let (one, other) = (here.every(LONG, "check"), there.every(LONG, "check"));
    let (one, other) = tokio::join!(one.run(|_| count()), other.run(|_| count()));
    let ran = [one, other].map(|done| matches!(done.unwrap(), EveryOutcome::Ran(_)));
    assert!(ran[0] != ran[1] && times.load(Ordering::Relaxed) == 2, "{ran:?}");
}

/// redis-dlm: Redlock over instances of several kinds.
#[tokio::test(flavor = "multi_thread")]
async fn redis_dlm_locks_over_a_mix_of_stores() {
    let (redis, valkey) = (Server::start(Flavor::Redis70), Server::start(Flavor::Valkey91));
    let directory = tempfile::tempdir().unwrap();
    let file = format!("file:{}", directory.path().join("leases.db").display());
    let urls = [redis.url() + "?quarantine=no", valkey.url() + "?quarantine=no", file];
    let stores = || urls.each_ref().map(|url| AnyStore::from_url(url).unwrap());
    let process = || Locks::builder().ttl(5 * SECOND).quorum(stores(), 10 * SECOND).unwrap();
    let (here, there) = (process(), process());
    let guard = here.mutex("k").lock().await.unwrap();
    assert!(there.mutex("k").try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
    there.mutex("k").lock().await.unwrap().release().await.unwrap();
}

/// redis-dlm: `duration`, `retryCount`, `retryDelay`, `maxHoldTime`, `driftFactor` and
/// `driftConstant`, for a manager and for each call. It silently replaced invalid values by its
/// defaults, and accepted a duration above the maxHoldTime.
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

/// redis-dlm: `extend` refuses to exceed the maxHoldTime.
#[tokio::test(flavor = "multi_thread")]
async fn redis_dlm_extend_does_not_pass_the_longest_hold() {
    let locks = Locks::in_memory();
    let renewal = Renewal::AtMost(2 * SECOND);
    let guard = locks.mutex("k").ttl(SECOND).renewal(renewal).lock().await.unwrap();
    guard.renew(SECOND).await.unwrap();
    let error = guard.renew(LONG).await.unwrap_err();
    assert!(matches!(error, RenewError::PastLongestHold { .. }), "{error:?}");
    assert!(guard.is_held());
    timeout(3 * SECOND, guard.lost()).await.expect("it ends with the longest hold");
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
    // It waited for twice its TTL. The lease of a lock that is handed over is counted from when
    // this process last heard from the server.
    assert!(late.is_held() && late.remaining() > SECOND / 10, "{:?}", late.remaining());
    let held = here.mutex("k").lock().within(Duration::ZERO).await.unwrap_err();
    assert!(matches!(held, LockError::TimedOut { .. }), "{held:?}");
    server.kill_9();
    let dead = here.mutex("other").lock().within(SECOND).await.unwrap_err();
    assert!(matches!(dead, LockError::Unreachable { .. }), "{dead:?}");
}

/// node-redlock: several resources together, all or nothing.
#[tokio::test(flavor = "multi_thread")]
async fn redlock_several_resources_are_all_or_none() {
    let (server, here, there) = two().await;
    let one = here.mutex("account:2").lock().await.unwrap();
    assert!(there.mutex_all(["account:1", "account:2"]).try_lock().await.unwrap().is_none());
    assert_eq!(server.text(&["EXISTS", "account:1"]).as_integer(), Some(0), "half of it is left");
    one.release().await.unwrap();
    let both = there.mutex_all(["account:2", "account:1"]).lock().await.unwrap();
    assert_eq!(both.keys().len(), 2);
    assert!(here.mutex("account:1").try_lock().await.unwrap().is_none());
    both.release().await.unwrap();
}

/// node-redlock: `attempts` and `attemptsRemaining`. The number of requests is in the guard and in
/// the error; the remaining time is up to the caller.
#[tokio::test(flavor = "multi_thread")]
async fn redlock_attempts_are_counted_in_guards_and_errors() {
    let (_server, here, there) = two().await;
    let guard = here.mutex("k").lock().await.unwrap();
    assert_eq!(guard.attempts(), 1);
    let error = there.mutex("k").lock().within(SECOND / 5).await.unwrap_err();
    assert!(matches!(error, LockError::TimedOut { attempts: 1.., .. }), "{error:?}");
}
