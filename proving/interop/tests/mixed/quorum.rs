//! Libraries that lock over several servers, together with Leasehold on the same servers.

use std::{thread, time::Duration};

use interop::{Answer, Driver, Language, Peer, now};
use leasehold::{AnyStore, Locks, LocksBuilder, Owner, ReleaseError, Renewal};
use servers::{Flavor, Reply, Server};
use tokio::runtime::Handle;

use crate::{
    Test,
    pair::{A_WHILE, LONG, SLACK, nanos, took, with_runtime},
};

/// Both count votes as Leasehold does, on keys of the same name.
pub(crate) const SEVERAL: [Peer; 2] = [Peer::Redlock4, Peer::Redlock5];

pub(crate) const ALL: [Test; 4] = [
    ("redlock_over_three_servers_keeps_us_out_until_it_releases", &[Language::Node], || {
        each(redlock_keeps_us_out_until_it_releases);
    }),
    ("redlock_over_three_servers_keeps_us_out_until_its_end", &[Language::Node], || {
        each(redlock_keeps_us_out_until_its_end);
    }),
    ("our_quorum_keeps_redlock_out_until_we_release", &[Language::Node], || {
        each(our_quorum_keeps_redlock_out_until_we_release);
    }),
    ("our_quorum_keeps_redlock_out_until_its_end", &[Language::Node], || {
        each(our_quorum_keeps_redlock_out_until_its_end);
    }),
];

const KEY: &str = "invoice:42";

/// Longer than the longest lease of these tests.
const MAX_TTL: Duration = Duration::from_secs(60);

/// The servers count in milliseconds.
const ROUNDING: u64 = 2_000_000;

/// None of the servers is restarted, so none has to abstain.
pub(crate) fn quorum(builder: LocksBuilder, urls: &[&str]) -> Locks {
    let stores: Result<Vec<_>, _> =
        urls.iter().map(|url| AnyStore::from_url(&format!("{url}?quarantine=no"))).collect();
    builder.quorum(stores.expect("good URLs"), MAX_TTL).expect("three different servers")
}

pub(crate) fn three_servers() -> [Server; 3] {
    [Flavor::Redis70, Flavor::Valkey91, Flavor::Redis82].map(Server::start)
}

/// A library and Leasehold on three servers.
struct Pair {
    driver: Driver,
    locks: Locks,
    servers: [Server; 3],
}

fn each(test: fn(&mut Pair, &Handle)) {
    with_runtime(|runtime| {
        for peer in SEVERAL {
            let servers = three_servers();
            let urls = servers.each_ref().map(Server::url);
            let urls = urls.each_ref().map(String::as_str);
            let mut driver = Driver::start(peer, &urls);
            // After this, the library has its connections and asks at once.
            took(driver.take("before", LONG, Duration::ZERO));
            driver.release();
            let locks = runtime.block_on(async { quorum(Locks::builder().ttl(LONG), &urls) });
            test(&mut Pair { driver, locks, servers }, runtime);
        }
    });
}

impl Pair {
    /// The value that most servers have at the key.
    #[track_caller]
    fn value(&self) -> Reply {
        let [one, two, three] = self.servers.each_ref().map(|server| server.text(&["GET", KEY]));
        if one == two || one == three { one } else { two }
    }

    /// Leasehold waits for the lock, and still waits after a while; then `done` is called. Returns
    /// the time just before that, and the time at which Leasehold got the lock.
    #[track_caller]
    fn we_wait_until(&mut self, runtime: &Handle, done: impl FnOnce(&mut Self) -> u64) -> (u64, u64) {
        let lock = self.locks.mutex(KEY).lock().within(LONG);
        let waiting = runtime.spawn(async {
            let guard = lock.await.unwrap();
            let granted = now();
            guard.release().await.unwrap();
            granted
        });
        thread::sleep(A_WHILE);
        assert!(!waiting.is_finished(), "granted next to another holder");
        let called = done(self);
        (called, runtime.block_on(waiting).unwrap())
    }
}

fn redlock_keeps_us_out_until_it_releases(pair: &mut Pair, runtime: &Handle) {
    took(pair.driver.take(KEY, LONG, Duration::ZERO));
    let value = pair.value();
    let refused = runtime.block_on(async { pair.locks.mutex(KEY).lock().within(Duration::ZERO).await });
    let leasehold::LockError::TimedOut { held_by: Some(held_by), .. } = refused.unwrap_err() else {
        panic!("it is held")
    };
    assert!(matches!(held_by.owner, Owner::Foreign { .. }), "{held_by:?}");
    assert_eq!(pair.value(), value, "we touched its lock");
    let (called, granted) = pair.we_wait_until(runtime, |pair| match pair.driver.release() {
        Answer::Released { called } => called,
        other => panic!("{other:?}"),
    });
    assert!(granted > called, "granted {} ns before it released", called - granted);
    assert!(granted < called + nanos(SLACK), "{} ns after it released", granted - called);
}

fn redlock_keeps_us_out_until_its_end(pair: &mut Pair, runtime: &Handle) {
    let ttl = Duration::from_secs(1);
    let (asked, answered) = took(pair.driver.take(KEY, ttl, Duration::ZERO));
    let (_, granted) = pair.we_wait_until(runtime, |_| 0);
    assert!(granted + ROUNDING > asked + nanos(ttl), "{} ns before its end", asked + nanos(ttl) - granted);
    assert!(granted < answered + nanos(ttl + SLACK), "{} ns after its end", granted - answered - nanos(ttl));
    let guard = runtime.block_on(async { pair.locks.mutex(KEY).lock().await.unwrap() });
    let ours = pair.value();
    assert_eq!(pair.driver.release(), Answer::NotHeld);
    assert_eq!(pair.value(), ours, "its release touched our lock");
    runtime.block_on(guard.release()).unwrap();
}

fn our_quorum_keeps_redlock_out_until_we_release(pair: &mut Pair, runtime: &Handle) {
    let guard = runtime.block_on(async { pair.locks.mutex(KEY).lock().await.unwrap() });
    let ours = pair.value();
    assert_eq!(pair.driver.take(KEY, LONG, Duration::ZERO), Answer::Held);
    pair.driver.begin_to_take(KEY, LONG, LONG);
    assert_eq!(pair.driver.answer_within(A_WHILE), None);
    assert_eq!(pair.value(), ours, "it touched our lock");
    assert!(guard.is_held());
    let called = now();
    runtime.block_on(guard.release()).unwrap();
    let (_, answered) = took(pair.driver.answer());
    assert!(answered > called, "it took the lock {} ns before we released", called - answered);
    let tried = runtime.block_on(async { pair.locks.mutex(KEY).try_lock().await.unwrap() });
    assert!(tried.is_none(), "granted next to it");
    assert!(matches!(pair.driver.release(), Answer::Released { .. }));
}

fn our_quorum_keeps_redlock_out_until_its_end(pair: &mut Pair, runtime: &Handle) {
    let lease = pair.locks.mutex(KEY).ttl(Duration::from_secs(1)).renewal(Renewal::Off);
    let guard = runtime.block_on(async { lease.lock().await.unwrap() });
    let believed_until = now() + nanos(guard.remaining());
    pair.driver.begin_to_take(KEY, LONG, LONG);
    let (_, answered) = took(pair.driver.answer());
    assert!(answered > believed_until, "{} ns before we stopped believing", believed_until - answered);
    let its = pair.value();
    let error = runtime.block_on(guard.release()).unwrap_err();
    assert!(matches!(error, ReleaseError::Expired { .. } | ReleaseError::TakenByOther { .. }), "{error:?}");
    assert_eq!(pair.value(), its, "our release touched its lock");
    assert!(matches!(pair.driver.release(), Answer::Released { .. }));
}
