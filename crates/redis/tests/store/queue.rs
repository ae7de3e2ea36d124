//! Helpers for tests of queues: a waiter that waits as a program does, and a view of the queue.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use leasehold_core::{
    Acquire, Attempt, Drift, Fault, GrantAnswer, InspectStore as _, Lease, Patience, Step, Store, Ttl,
    WaitMode, Wake,
};
use leasehold_redis::RedisStore;
use servers::{Reply, Server};
use tokio::task::JoinHandle;

use crate::world::{attempt, granted, key, runtime};

pub(crate) const BOTH: [&str; 2] = ["resp2", "resp3"];

pub(crate) const WAIT: WaitMode = WaitMode::Wait { queue_limit: None };

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for the lock, as a program does, until it is acquired.
pub(crate) async fn lock(store: &RedisStore, attempt: &Attempt) -> Lease {
    let runtime = runtime();
    let patience = Patience::new(Some(PATIENCE), PATIENCE);
    let mut machine = Acquire::new(runtime.now(), attempt.ttl, Drift::BETWEEN_MACHINES, patience, 1);
    loop {
        match machine.next(runtime.now()) {
            Step::Ask => {
                machine.handle_sent(runtime.now());
                match store.grant(attempt, WAIT).await {
                    Ok(answer) => machine.handle_answer(runtime.now(), answer),
                    Err(fault) => machine.handle_fault(runtime.now(), fault),
                }
            }
            Step::WaitUntil(until) => tokio::select! {
                wake = store.woken(attempt) => {
                    if let Wake::Granted { since, .. } = wake {
                        assert!(since <= runtime.now());
                    }
                    machine.handle_wake(runtime.now(), wake);
                }
                () = runtime.sleep_until(until) => {}
            },
            Step::Done(Ok(granted)) => return granted.lease,
            Step::Done(Err(other)) => panic!("{attempt:?}: {other:?}"),
        }
    }
}

pub(crate) fn wait(store: &RedisStore, attempt: &Attempt) -> JoinHandle<()> {
    let (store, attempt) = (store.clone(), attempt.clone());
    tokio::spawn(async move {
        lock(&store, &attempt).await;
    })
}

/// All of them wait for `k`; each joins the queue once those before it are in it.
pub(crate) async fn wait_in_line<const N: usize>(
    server: &Server,
    waiters: [(&RedisStore, &Attempt); N],
) -> [JoinHandle<()>; N] {
    let (mut tasks, mut in_line) = (Vec::new(), Vec::new());
    for (store, attempt) in waiters {
        tasks.push(wait(store, attempt));
        in_line.push(attempt);
        until_queued(server, &in_line).await;
    }
    tasks.try_into().unwrap()
}

/// Two attempts at `k`: the holder here, and the waiter there.
pub(crate) async fn held_and_awaited(
    server: &Server,
    here: &RedisStore,
    there: &RedisStore,
) -> ([Attempt; 2], JoinHandle<()>) {
    let [first, second] = [(); 2].map(|()| attempt(&["k"]));
    granted(here.grant(&first, WaitMode::Try).await);
    let [waiting] = wait_in_line(server, [(there, &second)]).await;
    ([first, second], waiting)
}

/// Releases, and returns how long it took until the waiter had the lock.
pub(crate) async fn hand_over(store: &RedisStore, holder: &Attempt, waiting: JoinHandle<()>) -> Duration {
    let began = Instant::now();
    let_go(store, holder).await;
    waiting.await.unwrap();
    began.elapsed()
}

/// Asks once, and joins the queue.
pub(crate) async fn waits(store: &RedisStore, attempt: &Attempt) {
    let answer = store.grant(attempt, WAIT).await;
    assert!(matches!(answer, Ok(GrantAnswer::Busy { place: Some(_), .. })), "{answer:?}");
}

/// Asks again after each passing fault, until there is an answer.
pub(crate) async fn until_answered<T, Asked: Future<Output = Result<T, Fault>>>(
    limit: Duration,
    mut ask: impl FnMut() -> Asked,
) -> T {
    let began = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(fault) => assert!(!fault.is_lasting() && began.elapsed() < limit, "{fault}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Releases. On a busy machine the answer may come too late; then this asks again.
pub(crate) async fn let_go(store: &RedisStore, attempt: &Attempt) {
    until_answered(PATIENCE, || store.release(attempt)).await;
}

pub(crate) async fn give_up(store: &RedisStore, attempt: &Attempt) {
    until_answered(PATIENCE, || store.give_up(attempt)).await;
}

/// Waits until a condition holds, and returns how long that took.
#[track_caller]
pub(crate) fn until(
    what: &str,
    limit: Duration,
    mut is: impl FnMut() -> bool,
) -> impl Future<Output = Duration> {
    let (began, what, place) = (Instant::now(), what.to_owned(), std::panic::Location::caller());
    async move {
        while !is() {
            assert!(began.elapsed() < limit, "{place}: not within {limit:?}: {what}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        began.elapsed()
    }
}

/// The waiters for `k` in their order, read without the store under test.
pub(crate) async fn line(server: &Server) -> Vec<leasehold_core::Holder> {
    let looking = crate::world::store(&server.url());
    looking.inspect(&key("k")).await.unwrap().waiters.iter().map(|waiter| waiter.holder).collect()
}

/// Waits once for a key that is held, so that the store is subscribed from now on.
pub(crate) async fn subscribe(store: &RedisStore) {
    let [holder, waiter] = [(); 2].map(|()| attempt(&["another"]));
    lock(store, &holder).await;
    let began = Instant::now();
    loop {
        let answer = store.grant(&waiter, WAIT).await;
        if matches!(answer, Ok(GrantAnswer::Busy { place: Some(_), .. })) {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{answer:?}");
    }
    give_up(store, &waiter).await;
    give_up(store, &holder).await;
}

/// Waits until these are queued for `k`, in this order.
pub(crate) async fn until_queued(server: &Server, attempts: &[&Attempt]) {
    let wanted: Vec<_> = attempts.iter().map(|attempt| attempt.holder).collect();
    let began = Instant::now();
    loop {
        let line = line(server).await;
        if line == wanted {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "queued: {line:?}, not {wanted:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The pattern of the connections' channels, which excludes the channel of all holders.
const NOTIFY_CHANNELS: &str = "leasehold:????????????????????????????????";

/// The channels of connections that have a subscriber, in any order.
pub(crate) fn channels(server: &Server) -> BTreeSet<String> {
    channels_like(server, NOTIFY_CHANNELS)
}

pub(crate) fn channels_like(server: &Server, pattern: &str) -> BTreeSet<String> {
    let reply = server.text(&["PUBSUB", "CHANNELS", pattern]);
    let Reply::Array(Some(channels)) = &reply else { panic!("{reply:?}") };
    channels.iter().map(|name| name.as_text().unwrap().to_owned()).collect()
}

pub(crate) fn subscribed(server: &Server) -> usize {
    channels(server).len()
}

/// Waits until there are as many channels as before, but not the same; returns how long that took.
pub(crate) async fn until_subscribed_again(
    server: &Server,
    before: &BTreeSet<String>,
    limit: Duration,
) -> Duration {
    let are_back = || {
        let now = channels(server);
        now.len() >= before.len() && now != *before
    };
    until("they are subscribed again", limit, are_back).await
}

pub(crate) fn scripts(server: &Server) -> u64 {
    server.calls("eval") + server.calls("evalsha")
}

/// The number of commands that clients have sent: scripts and their companions.
pub(crate) fn commands(server: &Server) -> u64 {
    scripts(server) + server.calls("ping") + server.calls("subscribe")
}

/// The keys on the server, without the last fences.
pub(crate) fn left_behind(server: &Server) -> Vec<String> {
    server.keys("*").into_iter().filter(|key| !key.starts_with("leasehold:c{")).collect()
}

pub(crate) fn ttl(ms: u64) -> Ttl {
    Ttl::new(Duration::from_millis(ms)).unwrap()
}
