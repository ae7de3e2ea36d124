//! The features of redislock's `check` and of exclusive-lock, row by row, on a real server.

use leasehold::{Event, LockError, Locks, Misuse, Owner, ReleaseError, Renewal};
use servers::{Flavor, Server};
use tokio::time::{sleep, timeout};

use super::world::SECOND;

async fn two_processes() -> (Server, Locks, Locks) {
    let server = Server::start(Flavor::Redis70);
    let here = Locks::builder().ttl(3 * SECOND).connect(&server.url()).await.unwrap();
    let there = Locks::builder().ttl(3 * SECOND).connect(&server.url()).await.unwrap();
    (server, here, there)
}

/// The next event, which is available soon.
async fn next(events: &mut leasehold::Events) -> Event {
    timeout(5 * SECOND, events.next()).await.expect("soon").expect("not over")
}

/// The fork of redislock has `check(key)`, which should wait until a lock is free for a number of
/// retries. It is inverted: it failed if the lock was free. Its error was of another class than the
/// one that it exports.
#[tokio::test(flavor = "multi_thread")]
async fn redislock_check_waits_until_the_key_is_free_without_taking_it() {
    let (_server, here, there) = two_processes().await;
    let mutex = there.mutex("k");
    assert!(!mutex.is_locked().await.unwrap());
    mutex.unlocked().within(SECOND).await.unwrap();
    let guard = here.mutex("k").lock().await.unwrap();
    assert!(mutex.is_locked().await.unwrap());
    let error = mutex.unlocked().within(SECOND / 10).await.unwrap_err();
    assert!(matches!(error, LockError::TimedOut { .. }), "{error:?}");
    let (freed, released) = tokio::join!(mutex.unlocked().within(5 * SECOND).into_future(), async {
        sleep(SECOND / 5).await;
        guard.release().await
    });
    freed.unwrap();
    released.unwrap();
    assert!(here.mutex("k").try_lock().await.unwrap().is_some());
}

/// exclusive-lock: `acquire()` returns true in one instance and false in all others.
#[tokio::test(flavor = "multi_thread")]
async fn exclusive_lock_acquire_has_one_winner_among_instances() {
    let (server, ..) = two_processes().await;
    let mut instances = Vec::new();
    for _ in 0..8 {
        instances.push(Locks::connect(&server.url()).await.unwrap());
    }
    let tries = instances.iter().map(|locks| tokio::spawn(async_try(locks.clone())));
    let mut winners = Vec::new();
    for one in tries.collect::<Vec<_>>() {
        winners.extend(one.await.unwrap());
    }
    assert_eq!(winners.len(), 1);
}

async fn async_try(locks: Locks) -> Option<leasehold::Guard> {
    locks.mutex("k").try_lock().await.unwrap()
}

/// exclusive-lock: `inspect()` gives everybody the TTL and `lock_contents`, and null if there is no
/// lock.
#[tokio::test(flavor = "multi_thread")]
async fn exclusive_lock_inspect_and_lock_contents_are_there_for_anybody() {
    let (_server, here, there) = two_processes().await;
    assert_eq!(there.inspect("k").await.unwrap().holders, []);
    let guard = here.mutex("k").label("pod-7, since the deploy").lock().await.unwrap();
    let state = there.inspect("k").await.unwrap();
    let [holding] = &state.holders[..] else { panic!("{state:?}") };
    let Owner::Holder { holder, label: Some(label) } = &holding.owner else { panic!("{holding:?}") };
    assert_eq!((*holder, label.as_str()), (guard.holder(), "pod-7, since the deploy"));
    let left = holding.remaining.unwrap();
    assert!(left > SECOND && left <= 3 * SECOND, "{left:?}");
    guard.release().await.unwrap();
    assert_eq!(there.inspect("k").await.unwrap().holders, []);
}

/// exclusive-lock: a timer refreshes the lock until it is released, with the events acquired,
/// refreshed and released.
#[tokio::test(flavor = "multi_thread")]
async fn exclusive_lock_events_acquired_refreshed_and_released_come_in_order() {
    let (_server, here, _) = two_processes().await;
    let mut events = here.events();
    let guard = here.mutex("k").lock().await.unwrap();
    assert!(matches!(next(&mut events).await, Event::Acquired { .. }));
    assert!(matches!(next(&mut events).await, Event::Renewed { .. }));
    assert!(matches!(next(&mut events).await, Event::Renewed { .. }));
    guard.release().await.unwrap();
    assert!(matches!(next(&mut events).await, Event::Released { .. }));
}

/// exclusive-lock: the event `error`. When the key was gone, it went on emitting refreshed; when a
/// thief had the key, it refreshed the thief's lock and deleted it in the end. Without a listener,
/// the process ended.
#[tokio::test(flavor = "multi_thread")]
async fn exclusive_lock_event_error_comes_when_the_key_is_gone_or_a_thiefs_and_nobody_need_listen() {
    let (server, here, there) = two_processes().await;
    let (unheard, mut events) = (here.mutex("unheard").lock().await.unwrap(), here.events());
    for steal in [&["DEL", "k"][..], &["SET", "k", "a thief's"][..]] {
        let guard = here.mutex("k").lock().await.unwrap();
        server.text(&["DEL", "k"]);
        server.text(steal);
        let lost = async {
            loop {
                if let Event::Lost { request, .. } = next(&mut events).await {
                    return request;
                }
            }
        };
        assert_eq!(timeout(3 * SECOND, lost).await.unwrap().holder, guard.holder());
        assert!(!guard.is_held());
        guard.release().await.unwrap_err();
    }
    assert_eq!(server.text(&["GET", "k"]).as_text(), Some("a thief's"), "it was not ours to delete");
    server.kill_9();
    assert!(matches!(next(&mut events).await, Event::StoreFault { .. } | Event::Renewed { .. }));
    drop(events);
    let mut there_too = there.events();
    unheard.lost().await;
    drop((there_too.next(), unheard));
}

/// exclusive-lock: calling `release()` twice is not an error. Here, a released guard no longer
/// exists, and a lost one reports that.
#[tokio::test(flavor = "multi_thread")]
async fn exclusive_lock_release_is_idempotent_by_type() {
    let (server, here, there) = two_processes().await;
    let mut events = here.events();
    here.mutex("k").lock().await.unwrap().release().await.unwrap();
    drop(here.mutex("k").lock().await.unwrap());
    for _ in 0..2 {
        assert!(matches!(next(&mut events).await, Event::Acquired { .. }));
        assert!(matches!(next(&mut events).await, Event::Released { .. }));
    }
    let late = here.mutex("k").renewal(Renewal::Off).lock().await.unwrap();
    server.text(&["DEL", "k"]);
    let other = there.mutex("k").lock().await.unwrap();
    let error = late.release().await.unwrap_err();
    assert!(matches!(error, ReleaseError::TakenByOther { .. }), "{error:?}");
    assert!(other.is_held());
    other.release().await.unwrap();
}

/// exclusive-lock checks its input. Here, nothing is sent, so nothing is reported.
#[tokio::test(flavor = "multi_thread")]
async fn exclusive_lock_input_validation_comes_before_anything_is_sent() {
    let (_server, here, _) = two_processes().await;
    let mut events = here.events();
    let error = here.mutex("k").ttl(SECOND / 1000).lock().await.unwrap_err();
    assert!(matches!(error, LockError::Misuse(Misuse::TtlTooShort { .. })), "{error:?}");
    drop(here);
    assert_eq!(events.next().await, None);
}
