//! Namings: a library and Leasehold get the same lock name, and use the same key.

use std::{
    thread,
    time::{Duration, Instant},
};

use interop::{Answer, Driver, Language, Peer, now};
use leasehold::{Guard, Locks, Naming};
use servers::{Flavor, Reply, Server};
use tokio::runtime::Handle;

use crate::Test;
use crate::pair::{LONG, nanos, took, with_runtime};

const NAME: &str = "invoice:42";
/// python-redis-lock keeps a signal for a second.
const SIGNAL_KEPT: Duration = Duration::from_secs(1);
/// Much less than for ever, as without a signal, and enough for a machine that compiles.
const AT_ONCE: Duration = Duration::from_secs(2);

pub(crate) const BY_NAME: [Test; 4] = [
    ("pottery_and_ours_meet_by_name", &[Language::Python], || meets_by_name(Peer::Pottery, Naming::Pottery)),
    ("redis_semaphore_and_ours_meet_by_name", &[Language::Node], || {
        meets_by_name(Peer::RedisSemaphore, Naming::RedisSemaphore);
    }),
    ("python_redis_lock_and_ours_meet_by_name", &[Language::Python], || {
        meets_by_name(Peer::PythonRedisLock, Naming::PythonRedisLock);
    }),
    ("redlock_and_ours_meet_by_name_without_a_naming", &[Language::Node], || {
        meets_by_name(Peer::Redlock5, Naming::Verbatim);
    }),
];

pub(crate) const BY_SIGNAL: [Test; 3] = named! {
    our_release_wakes_python_redis_lock_at_once_by_its_naming: &[Language::Python],
    ten_of_python_redis_lock_and_ours_pass_a_lock_on_without_anybody_being_left_asleep: &[Language::Python],
    a_lock_that_is_dropped_wakes_python_redis_lock_too: &[Language::Python],
};

fn ours(server: &Server, naming: Naming, runtime: &Handle) -> Locks {
    let builder = Locks::builder().ttl(LONG).naming(naming);
    runtime.block_on(builder.connect(&server.url())).unwrap()
}

fn meets_by_name(peer: Peer, naming: Naming) {
    with_runtime(|runtime| {
        let server = Server::start(Flavor::Redis70);
        let locks = ours(&server, naming, runtime);
        let mut driver = Driver::start(peer, &[&server.url()]);

        took(driver.take(NAME, LONG, Duration::ZERO));
        assert!(runtime.block_on(locks.mutex(NAME).try_lock()).unwrap().is_none(), "next to its lock");
        assert!(matches!(driver.release(), Answer::Released { .. } | Answer::Untold { .. }));

        let guard = runtime.block_on(locks.mutex(NAME).try_lock()).unwrap().unwrap();
        assert_eq!(driver.take(NAME, LONG, Duration::ZERO), Answer::Held, "next to ours");
        runtime.block_on(guard.release()).unwrap();
        took(driver.take(NAME, LONG, Duration::ZERO));
    });
}

/// Waits for so many clients blocked at the server: others would find the lock free without a signal.
fn until_asleep(server: &Server, count: usize) {
    let begun = Instant::now();
    let wanted = format!("blocked_clients:{count}\r");
    while !server.text(&["INFO", "clients"]).as_text().unwrap().contains(&wanted) {
        assert!(begun.elapsed() < LONG, "they do not wait");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A server, our locks on it and a guard of one, and a python-redis-lock that waits for that. Without a
/// timeout and an expiry, it asks once and then waits for the signal alone.
fn asleep_behind_ours(flavor: Flavor, runtime: &Handle) -> (Server, Locks, Guard, Driver) {
    let server = Server::start(flavor);
    let locks = ours(&server, Naming::PythonRedisLock, runtime);
    let mut driver = Driver::start(Peer::PythonRedisLock, &[&server.url()]);
    let guard = runtime.block_on(async { locks.mutex(NAME).lock().await.unwrap() });
    driver.begin_to_take_for_ever(NAME);
    until_asleep(&server, 1);
    (server, locks, guard, driver)
}

fn our_release_wakes_python_redis_lock_at_once_by_its_naming() {
    with_runtime(|runtime| {
        let (server, _locks, guard, mut driver) = asleep_behind_ours(Flavor::Valkey91, runtime);
        let called = now();
        runtime.block_on(guard.release()).unwrap();
        let Some(Answer::Took { answered, .. }) = driver.answer_within(AT_ONCE) else {
            panic!("it sleeps on")
        };
        assert!(answered < called + nanos(AT_ONCE), "{} ns", answered - called);
        // The waiter that it woke has used it up.
        assert_eq!(server.text(&["EXISTS", "lock-signal:invoice:42"]), Reply::Integer(0));
        assert!(matches!(driver.release(), Answer::Released { .. }));
    });
}

/// Each waits without a limit; ours queue among themselves, and each release wakes the library's, too.
fn ten_of_python_redis_lock_and_ours_pass_a_lock_on_without_anybody_being_left_asleep() {
    with_runtime(|runtime| {
        let server = &Server::start(Flavor::Redis70);
        let locks = ours(server, Naming::PythonRedisLock, runtime);
        let guard = runtime.block_on(async { locks.mutex(NAME).lock().await.unwrap() });
        let theirs: Vec<_> = (0..5)
            .map(|_| {
                let mut driver = Driver::start(Peer::PythonRedisLock, &[&server.url()]);
                driver.begin_to_take_for_ever(NAME);
                driver
            })
            .collect();
        let ours: Vec<_> = (0..5)
            .map(|_| {
                let lock = locks.mutex(NAME).lock();
                runtime.spawn(async { lock.await.unwrap().release().await.unwrap() })
            })
            .collect();
        until_asleep(server, 5);
        runtime.block_on(guard.release()).unwrap();
        thread::scope(|scope| {
            for mut driver in theirs {
                scope.spawn(move || {
                    took(driver.answer_within(LONG).expect("it is left asleep"));
                    assert!(matches!(driver.release(), Answer::Released { .. }));
                });
            }
        });
        for one in ours {
            runtime.block_on(one).unwrap();
        }
        let length = server.text(&["LLEN", "lock-signal:invoice:42"]).as_integer().unwrap();
        assert!(length <= 1, "{length} signals lie there");
        let left = server.text(&["PTTL", "lock-signal:invoice:42"]).as_integer().unwrap();
        assert!(left == -2 || (0..=1000).contains(&left), "{left} ms, and {SIGNAL_KEPT:?} is its time");
    });
}

fn a_lock_that_is_dropped_wakes_python_redis_lock_too() {
    with_runtime(|runtime| {
        let (_server, _locks, guard, mut driver) = asleep_behind_ours(Flavor::Redis70, runtime);
        drop(guard);
        took(driver.answer_within(AT_ONCE).expect("it sleeps on"));
    });
}
