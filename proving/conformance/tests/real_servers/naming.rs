//! Locks under the names of other libraries. Libraries that can run here are tested in
//! `proving/interop`; for RedLock.net, ShedLock and exclusive-lock, which cannot, these tests use
//! the keys and values that their sources write.

use std::time::{Duration, Instant};

use conformance::events::wait_for;
use leasehold::{Event, Locks, Naming, Owner, Signal};
use servers::{Flavor, Reply, Server};
use tokio::time::timeout;

use super::guards::voting;

const SECOND: Duration = Duration::from_secs(1);

/// Each naming, the name of a lock, and the key and value that its library writes for it.
fn written() -> [(Naming, &'static str, &'static str, &'static str); 4] {
    [
        (Naming::RedLockNet, "invoice:42", "redlock:invoice:42", "5e0d1d39-6c55-4a1e-8c2c-5e3f4d7f9b7a"),
        (
            Naming::ShedLock { environment: "default".into() },
            "nightly",
            "job-lock:default:nightly",
            "ADDED:2026-03-01T02:00:00.000Z@web-3:0f8fad5b-d9cb-469f-a165-70867728950e",
        ),
        (
            Naming::ShedLock { environment: "prod".into() },
            "nightly",
            "job-lock:prod:nightly",
            "ADDED:2026-03-01T02:00:00.000Z@web-3",
        ),
        (Naming::ExclusiveLock, "my app", "exclusive-lock:my-app", "1"),
    ]
}

#[tokio::test]
async fn locks_of_redlock_net_shedlock_and_exclusive_lock_exclude_ours_and_ours_exclude_theirs() {
    let server = Server::start(Flavor::Redis70);
    for (naming, name, key, value) in written() {
        let locks = Locks::builder().naming(naming.clone()).connect(&server.url()).await.unwrap();
        let theirs = ["SET", key, value, "NX", "PX", "20000"];
        assert_eq!(server.text(&theirs), Reply::Simple("OK".into()), "{naming}");
        assert!(locks.mutex(name).try_lock().await.unwrap().is_none(), "{naming}");
        let state = locks.inspect(name).await.unwrap();
        assert_eq!(state.holders[0].owner, Owner::Foreign { value: value.as_bytes().into() }, "{naming}");
        server.text(&["DEL", key]);

        let guard = locks.mutex(name).lock().await.unwrap();
        assert_eq!(server.text(&theirs), Reply::Bulk(None), "{naming}");
        assert_eq!(locks.list(&name[..2]).await.unwrap().len(), 1, "{naming}");
        guard.release().await.unwrap();
        assert_eq!(server.text(&["EXISTS", key]), Reply::Integer(0), "{naming}");
    }
}

/// A library's configured prefix replaces its default; a prefix of Leasehold is part of the name.
#[tokio::test]
async fn a_prefix_is_a_part_of_the_name() {
    let locks = Locks::builder().prefix("billing:").naming(Naming::RedLockNet).in_memory().unwrap();
    let _guard = locks.mutex("42").lock().await.unwrap();
    assert_eq!(locks.inspect("42").await.unwrap().key.to_string(), "redlock:billing:42");
    assert_eq!(locks.list("4").await.unwrap().len(), 1);
    assert_eq!(locks.list("5").await.unwrap().len(), 0);
}

/// exclusive-lock has one key for `a b`, `a.b` and `a/b`, and one for all names in Chinese; its
/// users found out when two applications kept each other from starting.
#[tokio::test]
async fn two_names_that_exclusive_lock_considers_equal_are_reported_once_and_are_one_lock() {
    let locks = Locks::builder().naming(Naming::ExclusiveLock).in_memory().unwrap();
    let mut events = locks.events();
    let guard = locks.mutex("a b").lock().await.unwrap();
    assert!(matches!(events.next().await, Some(Event::Acquired { .. })));
    assert_eq!(locks.warnings(), [""; 0]);

    for _ in 0..2 {
        assert!(locks.clone().mutex("a.b").try_lock().await.unwrap().is_none());
    }
    let Some(Event::NamesCollide { key, names, .. }) = timeout(SECOND, events.next()).await.unwrap() else {
        panic!("nobody is told")
    };
    assert_eq!((key.to_string(), names), ("exclusive-lock:a-b".into(), ["a b".into(), "a.b".into()]));
    drop((locks.mutex("請求書"), locks.mutex("契約")));
    let second = wait_for(&mut events, SECOND, |event| match event {
        Event::NamesCollide { names, .. } => Some(names.clone()),
        _ => None,
    });
    assert_eq!(second.await, ["請求書", "契約"]);
    let warnings = locks.warnings();
    assert_eq!(warnings.len(), 2);
    assert!(warnings[0].starts_with("a.b: ") && warnings[0].contains("exclusive-lock:a-b"), "{warnings:?}");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn names_that_are_different_keys_are_warned_about_by_nobody() {
    for naming in [Naming::Verbatim, Naming::RedLockNet, Naming::ExclusiveLock] {
        let locks = Locks::builder().naming(naming).in_memory().unwrap();
        for name in ["a b", "a b", "ab", "a_b"] {
            drop(locks.mutex(name));
        }
        assert_eq!(locks.warnings(), [""; 0]);
    }
}

/// A batch of releases wakes nobody, so these are made alone.
#[tokio::test]
async fn a_quorum_wakes_the_waiters_of_another_library_at_each_member() {
    let members = [(); 3].map(|()| Server::start(Flavor::Valkey91));
    let builder = Locks::builder().signal(Some(Signal::PythonRedisLock));
    let locks = builder.quorum(members.iter().map(voting), 60 * SECOND).unwrap();
    locks.mutex("lock:a").lock().await.unwrap().release().await.unwrap();
    let is_told = |member: &Server| member.text(&["LLEN", "lock-signal:a"]) == Reply::Integer(1);
    let begun = Instant::now();
    while !members.iter().all(is_told) {
        assert!(begun.elapsed() < 5 * SECOND, "some member wakes nobody");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn the_release_of_a_transferred_lock_wakes_the_waiters_of_another_library() {
    let server = Server::start(Flavor::Valkey91);
    let builder = Locks::builder().signal(Some(Signal::PythonRedisLock));
    let locks = builder.connect(&server.url()).await.unwrap();
    for is_adopted in [true, false] {
        let token = locks.mutex("lock:a").lock().await.unwrap().transfer(60 * SECOND).await.unwrap();
        if is_adopted {
            locks.adopt(&token).await.unwrap().release().await.unwrap();
        } else {
            locks.release_transfer(&token).await.unwrap();
        }
        assert_eq!(server.text(&["DEL", "lock-signal:a"]), Reply::Integer(1), "adopted: {is_adopted}");
    }
}
