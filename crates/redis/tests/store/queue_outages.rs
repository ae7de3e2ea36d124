//! The queue while connections break.

use std::time::Duration;

use leasehold_core::{Attempt, HoldAnswer, InspectStore as _, Store, WaitQueue, Wake};
use leasehold_redis::RedisStore;
use servers::{Flavor, Proxy, Reply, Server};
use tokio::task::JoinHandle;

use crate::queue::{
    BOTH, WAIT, channels, give_up, hand_over, held_and_awaited, left_behind, let_go, lock, subscribe,
    subscribed, until, until_answered, until_queued, until_subscribed_again, wait, wait_in_line, waits,
};
use crate::queue_order::{SOON, is_soon};
use crate::world::{
    as_user, attempt, behind_a_proxy, grant, granted, key, lasting, pttl, runtime, started_with, store,
};

fn through(proxy: &Proxy, protocol: &str) -> RedisStore {
    store(&format!("{}?protocol={protocol}", proxy.url()))
}

/// Two waiters: the first behind a proxy, the second not.
struct Scene {
    server: Server,
    proxy: Proxy,
    here: RedisStore,
    there: RedisStore,
    holder: Attempt,
    first: Attempt,
    second: Attempt,
}

impl Scene {
    async fn new(flavor: Flavor, protocol: &str) -> Self {
        let (server, proxy) = behind_a_proxy(flavor);
        let (here, there) = (store(&server.url()), through(&proxy, protocol));
        let [holder, first, second] = [(); 3].map(|()| attempt(&["k"]));
        subscribe(&here).await;
        subscribe(&there).await;
        granted(grant(&here, &holder).await);
        Self { server, proxy, here, there, holder, first, second }
    }

    async fn both_wait(&self) -> [JoinHandle<()>; 2] {
        wait_in_line(&self.server, [(&self.there, &self.first), (&self.here, &self.second)]).await
    }

    async fn hand_over(&self, waiting: JoinHandle<()>) -> Duration {
        hand_over(&self.here, &self.holder, waiting).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_connection_is_cut_subscribes_again_and_keeps_its_place() {
    for protocol in BOTH {
        let scene = Scene::new(Flavor::Redis70, protocol).await;
        let [first, second] = scene.both_wait().await;
        for _ in 0..3 {
            let before = channels(&scene.server);
            scene.proxy.cut();
            is_soon(until_subscribed_again(&scene.server, &before, Duration::from_secs(5)).await, protocol);
        }
        // Its repeated request puts the new channel into the queue.
        tokio::time::sleep(Duration::from_millis(50)).await;
        until_queued(&scene.server, &[&scene.first, &scene.second]).await;
        is_soon(scene.hand_over(first).await, protocol);
        assert!(!second.is_finished());
        let_go(&scene.there, &scene.first).await;
        second.await.unwrap();
    }
}

/// The hand-over happens during the gap: the next waiter gets the lock, then the one that was away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_was_away_when_its_turn_came_is_next() {
    for protocol in BOTH {
        let scene = Scene::new(Flavor::Redis82, protocol).await;
        let [first, second] = scene.both_wait().await;
        scene.proxy.black_hole();
        scene.proxy.cut();
        until("it is gone", SOON, || subscribed(&scene.server) == 1).await;
        is_soon(scene.hand_over(second).await, protocol);
        scene.proxy.heal();
        until_queued(&scene.server, &[&scene.first]).await;
        is_soon(hand_over(&scene.here, &scene.second, first).await, protocol);
    }
}

/// The connection seems to work, but nothing gets through. Any number of waiters behind it cost one
/// claim window. After that window the next waiter asks; if that one is behind the same connection,
/// another process does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_open_process_costs_the_queue_one_claim_window() {
    let window = WaitQueue::CLAIM_WINDOW;
    for (protocol, siblings, limit) in [
        ("resp2", 0, window + SOON),
        ("resp3", 0, window + SOON),
        ("resp2", 3, WaitQueue::RE_ASK + SOON),
        ("resp3", 3, WaitQueue::RE_ASK + SOON),
    ] {
        let scene = Scene::new(Flavor::Valkey91, protocol).await;
        let siblings: Vec<_> = (0..siblings).map(|_| attempt(&["k"])).collect();
        let (mut stuck, mut in_line) = (Vec::new(), Vec::new());
        for one in siblings.iter().chain([&scene.first]) {
            let (there, one_of_them) = (scene.there.clone(), one.clone());
            stuck.push(tokio::spawn(async move {
                lock(&there, &one_of_them).await;
                let_go(&there, &one_of_them).await;
            }));
            in_line.push(one);
            until_queued(&scene.server, &in_line).await;
        }
        let second = wait(&scene.here, &scene.second);
        in_line.push(&scene.second);
        until_queued(&scene.server, &in_line).await;
        scene.proxy.black_hole();
        let waited = scene.hand_over(second).await;
        assert!(waited >= window && waited < limit, "{protocol}, {} siblings: {waited:?}", siblings.len());
        let_go(&scene.here, &scene.second).await;
        // After the connection is back, they are all served.
        scene.proxy.heal();
        for task in stuck {
            tokio::time::timeout(Duration::from_secs(5), task).await.unwrap().unwrap();
        }
        until("nothing is left", Duration::from_secs(3), || left_behind(&scene.server).is_empty()).await;
    }
}

/// It has the lock, but the answer does not arrive; it asks again on another connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_connection_is_noticed_while_all_wait() {
    for protocol in BOTH {
        let scene = Scene::new(Flavor::Redis62, protocol).await;
        let [first, second] = scene.both_wait().await;
        let before = channels(&scene.server);
        scene.proxy.black_hole();
        // A PING becomes due and is not answered; the new connections are silent as well.
        tokio::time::sleep(Duration::from_secs(3)).await;
        scene.proxy.heal();
        until_subscribed_again(&scene.server, &before, Duration::from_secs(9)).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        is_soon(scene.hand_over(first).await, protocol);
        let_go(&scene.there, &scene.first).await;
        second.await.unwrap();
    }
}

/// RESP2 has two connections; only the one with the subscription dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_connection_does_not_die_unnoticed() {
    let (server, store) = started_with(Flavor::Redis70, "protocol=resp2");
    let ([holder, _], waiting) = held_and_awaited(&server, &store, &store).await;
    until("it hears", SOON, || subscribed(&server) == 1).await;
    let before = channels(&server);
    server.text(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    until_subscribed_again(&server, &before, SOON).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    is_soon(hand_over(&store, &holder, waiting).await, "");
    assert_eq!(store.inspect(&key("k")).await.unwrap().holders.len(), 1);
}

/// Regression: the limit of the waiter that subscribed, which was short because its TTL was, was that
/// of all later PINGs. Behind a slow network, the connections were replaced twice a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_with_a_short_ttl_leaves_no_short_limit_behind() {
    let (server, proxy) = behind_a_proxy(Flavor::Redis82);
    let (here, there) = (store(&server.url()), through(&proxy, "resp2"));
    granted(grant(&here, &attempt(&["k"])).await);
    // Its calls may take 100 ms.
    let hasty = attempt(&["k"]).with_ttl(Duration::from_millis(400).try_into().unwrap());
    until_answered(SOON, || there.grant(&hasty, WAIT)).await;
    until("it hears", SOON, || subscribed(&server) == 1).await;
    give_up(&there, &hasty).await;
    proxy.slow_down(Duration::from_millis(100));
    waits(&there, &attempt(&["k"])).await;
    let before = channels(&server);
    let pinged = server.calls("ping");
    until("it is pinged", Duration::from_secs(9), || server.calls("ping") >= pinged + 3).await;
    assert_eq!(channels(&server), before);
}

/// The network delays the push. Answers meanwhile, also to PINGs, do not show when the lease began.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_of_a_push_that_was_delayed_began_before_it_was_handed_over() {
    for protocol in BOTH {
        let (server, proxy) = behind_a_proxy(Flavor::Redis82);
        // A PING every two seconds, with the same time limit.
        let (here, there) =
            (store(&server.url()), store(&format!("{}?protocol={protocol}&call-limit=2s", proxy.url())));
        subscribe(&there).await;
        let mut pushes = 0;
        for round in 0.. {
            let [holder, first] = [(); 2].map(|()| attempt(&["k"]));
            granted(grant(&here, &holder).await);
            there.grant(&first, WAIT).await.unwrap();
            proxy.black_hole();
            let_go(&here, &holder).await;
            let handed_over = runtime().now();
            let asking = tokio::spawn({
                let there = there.clone();
                async move { there.inspect(&key("k")).await }
            });
            tokio::time::sleep(Duration::from_millis(1300)).await;
            proxy.heal();
            // On a busy machine the connection may seem dead; then this test shows nothing.
            if let Wake::Granted { since, .. } = there.woken(&first).await {
                let late = since.saturating_since(handed_over);
                assert_eq!(late, Duration::ZERO, "{protocol}, round {round}");
                pushes += 1;
            }
            drop(asking.await);
            give_up(&there, &first).await;
            if pushes == 3 {
                break;
            }
            assert!(round < 12, "{protocol}: {pushes} pushes were heard");
        }
    }
}

/// It has to renew it within that time, and its first call may fail.
#[tokio::test]
async fn a_lock_that_is_handed_over_is_kept_for_four_calls() {
    let server = Server::start(Flavor::Redis82);
    let (here, there) = (store(&format!("{}?call-limit=2s", server.url())), store(&server.url()));
    let [holder, next] = [(); 2].map(|()| attempt(&["k"]));
    granted(grant(&here, &holder).await);
    waits(&there, &next).await;
    let_go(&here, &holder).await;
    let left = pttl(&server, "k");
    assert!((5000..=8000).contains(&left), "{left} ms");
}

/// When it came says nothing: the lock was handed over between the request and its answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_was_delayed_does_not_show_when_the_lease_of_a_push_began() {
    let (server, proxy) = behind_a_proxy(Flavor::Valkey91);
    let (here, there) = (store(&server.url()), store(&format!("{}?call-limit=2s", proxy.url())));
    subscribe(&there).await;
    let [holder, first] = [(); 2].map(|()| attempt(&["k"]));
    granted(grant(&here, &holder).await);
    proxy.slow_down(Duration::from_millis(300));
    let asking = tokio::spawn({
        let (there, first) = (there.clone(), first.clone());
        async move { there.grant(&first, WAIT).await }
    });
    until_queued(&server, &[&first]).await;
    let_go(&here, &holder).await;
    let handed_over = runtime().now();
    asking.await.unwrap().unwrap();
    let wake = there.woken(&first).await;
    let Wake::Granted { since, .. } = wake else { panic!("{wake:?}") };
    assert_eq!(since.saturating_since(handed_over), Duration::ZERO);
}

/// Regression: its first request had joined the queue, and the one that names its channel was
/// refused. The caller of a refused request gives nothing up, so it was handed the lock in vain.
#[tokio::test]
async fn a_waiter_that_is_refused_while_it_subscribes_is_not_in_the_queue() {
    let (server, proxy) = behind_a_proxy(Flavor::Valkey91);
    let (here, there) = (store(&server.url()), through(&proxy, "resp3"));
    granted(grant(&here, &attempt(&["k"])).await);
    grant(&there, &attempt(&["k"])).await.unwrap();
    proxy.slow_down(Duration::from_millis(100));
    let waiter = attempt(&["k"]);
    let fills_up = async {
        until_queued(&server, &[&waiter]).await;
        server.text(&["CONFIG", "SET", "maxmemory", "1"]);
    };
    let waits = there.grant(&waiter, WAIT);
    let (answer, ()) = tokio::join!(waits, fills_up);
    lasting(answer, &["out of memory"]);
    until_queued(&server, &[]).await;
}

/// Regression: the second connection had the time of one call, in which it was not made over a long
/// distance; then all waiters of the process polled.
#[tokio::test]
async fn the_second_connection_of_resp2_may_take_as_long_as_the_first() {
    let (server, proxy) = behind_a_proxy(Flavor::Redis82);
    let (here, there) =
        (store(&server.url()), store(&format!("{}?protocol=resp2&call-limit=1s", proxy.url())));
    granted(grant(&here, &attempt(&["k"])).await);
    // From now on, the server knows the script.
    waits(&here, &attempt(&["k"])).await;
    there.open().await.unwrap();
    proxy.slow_down(Duration::from_millis(300));
    waits(&there, &attempt(&["k"])).await;
    assert_eq!((there.push_unavailable(), subscribed(&server)), (None, 2));
}

/// Thousands that ask at once would all exceed their limit, ask again, and keep the server too busy to
/// answer any of them in time.
#[tokio::test]
async fn of_many_that_ask_at_once_few_are_in_flight() {
    const IN_FLIGHT: u64 = 256;
    let (server, proxy) = behind_a_proxy(Flavor::Redis82);
    let store = store(&format!("{}?call-limit=7s", proxy.url()));
    let holder = attempt(&["k"]);
    granted(grant(&store, &holder).await);
    waits(&store, &attempt(&["k"])).await;
    let before = server.calls("evalsha");
    proxy.mute();
    let all: Vec<_> = (0..600)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { waits(&store, &attempt(&["k"])).await })
        })
        .collect();
    let asked = || server.calls("evalsha") - before;
    until("as many as may be are in flight", Duration::from_secs(5), || asked() >= IN_FLIGHT).await;
    assert_eq!(asked(), IN_FLIGHT);
    proxy.heal();
    for waiting in all {
        waiting.await.unwrap();
    }
    assert_eq!(asked(), 600, "each asked once");
}

/// The limit of an outage is that of requests, and a waiter in the queue makes none: it would wait for
/// as long as the server is gone. A second outage is like the first.
#[tokio::test]
async fn all_waiters_ask_when_their_server_is_gone() {
    for protocol in BOTH {
        let (server, store) = started_with(Flavor::Valkey91, &format!("protocol={protocol}"));
        let waiters = [(); 2].map(|()| attempt(&["k"]));
        for outage in 0..2 {
            until_answered(Duration::from_secs(10), || store.open()).await;
            granted(grant(&store, &attempt(&["k"])).await);
            for waiter in &waiters {
                waits(&store, waiter).await;
            }
            if outage > 0 {
                // Their monitor finds it again, too.
                let woken = tokio::time::timeout(Duration::from_secs(10), store.woken(&waiters[0])).await;
                assert_eq!(woken, Ok(Wake::AskAgain), "{protocol}");
                waits(&store, &waiters[0]).await;
            }
            server.kill_9();
            for waiter in &waiters {
                let woken = tokio::time::timeout(SOON, store.woken(waiter)).await;
                assert_eq!(woken, Ok(Wake::AskAgain), "{protocol}");
            }
            server.restart();
        }
    }
}

/// It was not reached in time when it was handed over, so others may have been skipped, too.
#[tokio::test]
async fn waiters_ask_when_a_lease_of_their_process_turns_out_to_be_lost() {
    for protocol in BOTH {
        let (_server, store) = started_with(Flavor::Redis70, &format!("protocol={protocol}"));
        let [holder, waiter] = [(); 2].map(|()| attempt(&["k"]));
        granted(grant(&store, &holder).await);
        waits(&store, &waiter).await;
        let lost = store.renew(&[attempt(&["another", "k"])]).await.remove(0);
        assert!(matches!(lost, Ok(HoldAnswer::NotHeld { .. })), "{lost:?}");
        let woken = tokio::time::timeout(SOON, store.woken(&waiter)).await;
        assert_eq!(woken, Ok(Wake::AskAgain), "{protocol}");
    }
}

/// An ACL that forbids to subscribe is seldom changed.
#[tokio::test]
async fn a_server_that_refuses_a_subscription_is_not_asked_again_by_each_waiter() {
    for protocol in BOTH {
        let server =
            Server::setup(Flavor::Valkey91).acl_user("deaf", "on >secret ~* resetchannels +@all").start();
        let store = store(&format!("{}?protocol={protocol}", as_user(&server, "deaf")));
        granted(grant(&store, &attempt(&["k"])).await);
        for _ in 0..5 {
            waits(&store, &attempt(&["k"])).await;
        }
        let refused = server.text(&["ACL", "LOG"]);
        let Reply::Array(Some(refused)) = &refused else { panic!("{refused:?}") };
        let Reply::Array(Some(first)) = &refused[0] else { panic!("{refused:?}") };
        assert_eq!((refused.len(), &first[1]), (1, &Reply::Integer(1)), "{protocol}: {refused:?}");
    }
}
