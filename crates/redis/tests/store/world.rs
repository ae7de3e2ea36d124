//! Helpers for every test here: a runtime, attempts, and a view of the server without the store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use leasehold_core::{
    Answer, Attempt, BoxFuture, BreakNote, Claim, Fault, FaultKind, Fence, GrantAnswer, Holder, Instant, Key,
    Label, LeaseBreak, Mark, Proposal, Request, Runtime, Stamp, Store, Ttl, WaitMode,
};
use leasehold_redis::script::{call_for, decode};
use leasehold_redis::{ClusterStore, RedisStore};
use redis::aio::MultiplexedConnection;
use servers::{Connection, Flavor, Proxy, Reply, Server};

/// Tokio's timers on the standard library's clock: no test sleeps through a suspend.
#[derive(Debug)]
pub(crate) struct Tokio {
    began: std::time::Instant,
}

impl Runtime for Tokio {
    fn now(&self) -> Instant {
        Instant::from_nanos(1_000_000_000 + u64::try_from(self.began.elapsed().as_nanos()).unwrap())
    }

    fn since_epoch(&self) -> Duration {
        std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        let rest = at.saturating_since(self.now());
        Box::pin(tokio::time::sleep(rest))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }

    fn random(&self) -> u128 {
        static DRAWN: AtomicU64 = AtomicU64::new(1);
        u128::from(DRAWN.fetch_add(1, Ordering::Relaxed)) << 64
    }
}

/// One clock for all, so that the readings of different stores can be compared.
pub(crate) fn runtime() -> Arc<dyn Runtime> {
    static BEGAN: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    Arc::new(Tokio { began: *BEGAN })
}

#[track_caller]
pub(crate) fn store(url: &str) -> RedisStore {
    RedisStore::from_url(url, runtime()).unwrap()
}

#[track_caller]
pub(crate) fn cluster_store(url: &str) -> ClusterStore {
    ClusterStore::from_url(url, runtime()).unwrap()
}

/// The URL for a user of the server whose password is `secret`.
pub(crate) fn as_user(server: &Server, user: &str) -> String {
    format!("redis://{user}:secret@127.0.0.1:{}", server.port())
}

/// A new server, with a store on it.
pub(crate) fn started(flavor: Flavor) -> (Server, RedisStore) {
    started_with(flavor, "")
}

/// The same with these parameters in the URL of the store.
pub(crate) fn started_with(flavor: Flavor, query: &str) -> (Server, RedisStore) {
    let server = Server::start(flavor);
    let store = store(&format!("{}?{query}", server.url()));
    (server, store)
}

/// Each server of the tests, newly started, with a store on it.
pub(crate) fn every_server() -> impl Iterator<Item = (Flavor, Server, RedisStore)> {
    Flavor::ALL.into_iter().map(|flavor| {
        let (server, store) = started(flavor);
        (flavor, server, store)
    })
}

/// A new server, and a proxy in front of it.
pub(crate) fn behind_a_proxy(flavor: Flavor) -> (Server, Proxy) {
    let server = Server::start(flavor);
    let proxy = Proxy::before(&server);
    (server, proxy)
}

/// A plain connection of a user whose password is `secret`.
pub(crate) fn login(server: &Server, user: &str) -> Connection {
    let mut connection = server.connect().unwrap();
    assert_eq!(connection.text(&["AUTH", user, "secret"]).unwrap(), Reply::Simple("OK".into()));
    connection
}

/// A connection of another program.
pub(crate) async fn connect(url: &str) -> MultiplexedConnection {
    redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap()
}

/// The answer of the script of a single request.
pub(crate) async fn ask(by: &mut MultiplexedConnection, request: &Request, window: Duration) -> Answer {
    let call = call_for(request, window);
    decode(request, call.by_text().query_async(by).await.unwrap()).unwrap().answer
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// An attempt of ten seconds by a new holder.
pub(crate) fn attempt(keys: &[&str]) -> Attempt {
    claiming(Claim::exclusive_all(keys.iter().map(|name| key(name))).unwrap())
}

pub(crate) fn claiming(claim: Claim) -> Attempt {
    static DRAWN: AtomicU64 = AtomicU64::new(1);
    let holder = Holder::from_bits(u128::from(DRAWN.fetch_add(1, Ordering::Relaxed)) << 64);
    Attempt::new(claim, holder, Label::new("web-3").ok(), Ttl::new(Duration::from_secs(10)).unwrap())
}

/// The same as a quorum requests it whose longest TTL is a minute.
pub(crate) fn at_member(attempt: &Attempt) -> Attempt {
    let max_ttl = Ttl::new(Duration::from_secs(60)).unwrap();
    attempt.at_member(attempt.holder, Proposal { fence: Fence::new(7).unwrap(), max_ttl })
}

pub(crate) fn breaking(fence: Fence) -> LeaseBreak {
    LeaseBreak::new(fence, BreakNote::default())
}

pub(crate) fn mark_of(fence: Fence) -> Mark {
    Mark::new(Stamp::from_micros(1), fence, None)
}

/// As if the member had begun to abstain a minute earlier.
pub(crate) fn a_minute_later(server: &Server) {
    let since = value(server, "leasehold:member").unwrap();
    let (run, since) = since.split_once(' ').unwrap();
    let since = format!("{run} {}", since.parse::<u64>().unwrap() - 61_000_000);
    server.text(&["SET", "leasehold:member", &since, "PX", "1000000"]);
}

/// Grants; a refusal fails the test.
#[track_caller]
pub(crate) fn granted(answer: Result<GrantAnswer, Fault>) -> Fence {
    match answer {
        Ok(GrantAnswer::Granted { fence }) => fence,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn grant(store: &impl Store, attempt: &Attempt) -> Result<GrantAnswer, Fault> {
    store.grant(attempt, WaitMode::Try).await
}

#[track_caller]
pub(crate) fn passing<T: std::fmt::Debug>(answer: Result<T, Fault>, words: &[&str]) {
    fault(answer, FaultKind::Passing, words);
}

#[track_caller]
pub(crate) fn lasting<T: std::fmt::Debug>(answer: Result<T, Fault>, words: &[&str]) {
    fault(answer, FaultKind::Lasting, words);
}

#[track_caller]
fn fault<T: std::fmt::Debug>(answer: Result<T, Fault>, kind: FaultKind, words: &[&str]) {
    let fault = answer.unwrap_err();
    assert_eq!(fault.kind, kind, "{fault}");
    for word in words {
        assert!(fault.to_string().contains(word), "{word}: {fault}");
    }
}

/// A number in the answer to `INFO`.
pub(crate) fn info(server: &Server, section: &str, field: &str) -> u64 {
    let info = server.text(&["INFO", section]);
    let mut fields = info.as_text().unwrap().lines().filter_map(|line| line.split_once(':'));
    fields.find(|(name, _)| *name == field).unwrap().1.parse().unwrap()
}

pub(crate) fn value(server: &Server, key: &str) -> Option<String> {
    match server.text(&["GET", key]) {
        Reply::Bulk(bytes) => bytes.map(|bytes| String::from_utf8(bytes).unwrap()),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn pttl(server: &Server, key: &str) -> i64 {
    server.text(&["PTTL", key]).as_integer().unwrap()
}
