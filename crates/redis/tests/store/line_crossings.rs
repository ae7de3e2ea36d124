//! What happens to those who wait when connections, processes, holders and servers do not keep still.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use leasehold_core::{Attempt, HoldAnswer, Line, Manner, Request, Store, Wake};
use leasehold_redis::{RedisStore, script::call_for};
use servers::{Flavor, Proxy, Server};

use crate::line_order::{SOON, wait};
use crate::queue::{ears, left_behind, lock, prick_up, stand_in_line, ttl, until};
use crate::world::{attempt, grant, granted, key, runtime, store, value};

const BOTH: [&str; 2] = ["resp2", "resp3"];

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
        let server = Server::start(flavor);
        let proxy = Proxy::before(&server);
        let (here, there) = (store(&server.url()), through(&proxy, protocol));
        let [holder, first, second] = [(); 3].map(|()| attempt(&["k"]));
        prick_up(&here).await;
        prick_up(&there).await;
        granted(grant(&here, &holder).await);
        Self { server, proxy, here, there, holder, first, second }
    }

    async fn both_wait(&self) -> [tokio::task::JoinHandle<()>; 2] {
        let first = wait(&self.there, &self.first);
        stand_in_line(&self.server, &[&self.first]).await;
        let second = wait(&self.here, &self.second);
        stand_in_line(&self.server, &[&self.first, &self.second]).await;
        [first, second]
    }

    async fn release(&self) -> Instant {
        let began = Instant::now();
        self.here.release(&self.holder).await.unwrap();
        began
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_connection_is_cut_subscribes_anew_and_keeps_its_place() {
    for protocol in BOTH {
        let scene = Scene::new(Flavor::Redis70, protocol).await;
        let [first, second] = scene.both_wait().await;
        for _ in 0..3 {
            let before = scene.server.text(&["PUBSUB", "CHANNELS"]);
            scene.proxy.cut();
            // The same number of channels, but not the same ones.
            let is_back = || ears(&scene.server) == 2 && scene.server.text(&["PUBSUB", "CHANNELS"]) != before;
            let took = until("it hears again", Duration::from_secs(5), is_back).await;
            assert!(took < SOON, "{protocol}: {took:?}");
        }
        // Its re-ask brings the new channel into the line.
        tokio::time::sleep(Duration::from_millis(50)).await;
        stand_in_line(&scene.server, &[&scene.first, &scene.second]).await;
        let released = scene.release().await;
        first.await.unwrap();
        assert!(released.elapsed() < SOON, "{protocol}: {:?}", released.elapsed());
        assert!(!second.is_finished());
        scene.there.release(&scene.first).await.unwrap();
        second.await.unwrap();
    }
}

/// The hand-over falls into the gap: the next in line has it, and then the one that was away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_away_when_its_turn_came_is_next() {
    for protocol in BOTH {
        let scene = Scene::new(Flavor::Redis82, protocol).await;
        let [first, second] = scene.both_wait().await;
        scene.proxy.black_hole();
        scene.proxy.cut();
        until("it is gone", SOON, || ears(&scene.server) == 1).await;
        let released = scene.release().await;
        second.await.unwrap();
        assert!(released.elapsed() < SOON, "{protocol}: {:?}", released.elapsed());
        scene.proxy.heal();
        stand_in_line(&scene.server, &[&scene.first]).await;
        let released = Instant::now();
        scene.here.release(&scene.second).await.unwrap();
        first.await.unwrap();
        assert!(released.elapsed() < SOON, "{protocol}: {:?}", released.elapsed());
    }
}

/// The connection seems to stand, but nothing passes. However many wait behind it, they cost a window once. But it is the next
/// in line who is told to look after that window; where that one is behind the same connection, somebody else's re-ask is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_open_process_costs_the_line_one_window() {
    let window = Line::WINDOW;
    for (protocol, siblings, limit) in [
        ("resp2", 0, window + SOON),
        ("resp3", 0, window + SOON),
        ("resp2", 3, Line::RE_ASK + SOON),
        ("resp3", 3, Line::RE_ASK + SOON),
    ] {
        let scene = Scene::new(Flavor::Valkey91, protocol).await;
        let siblings: Vec<_> = (0..siblings).map(|_| attempt(&["k"])).collect();
        let (mut stuck, mut in_line) = (Vec::new(), Vec::new());
        for one in siblings.iter().chain([&scene.first]) {
            let (there, one_of_them) = (scene.there.clone(), one.clone());
            stuck.push(tokio::spawn(async move {
                lock(&there, &one_of_them).await;
                there.release(&one_of_them).await.unwrap();
            }));
            in_line.push(one);
            stand_in_line(&scene.server, &in_line).await;
        }
        let second = wait(&scene.here, &scene.second);
        in_line.push(&scene.second);
        stand_in_line(&scene.server, &in_line).await;
        scene.proxy.black_hole();
        let released = scene.release().await;
        second.await.unwrap();
        let waited = released.elapsed();
        assert!(waited >= window && waited < limit, "{protocol}, {} siblings: {waited:?}", siblings.len());
        scene.here.release(&scene.second).await.unwrap();
        // Back again, they are all served.
        scene.proxy.heal();
        for task in stuck {
            tokio::time::timeout(Duration::from_secs(5), task).await.unwrap().unwrap();
        }
        until("nothing is left", Duration::from_secs(3), || left_behind(&scene.server).is_empty()).await;
    }
}

/// It has the lock, and its answer does not come back. Nobody else's fault; it asks again on another connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_connection_is_noticed_while_all_wait() {
    for protocol in BOTH {
        let scene = Scene::new(Flavor::Redis62, protocol).await;
        let [first, second] = scene.both_wait().await;
        let before = scene.server.text(&["PUBSUB", "CHANNELS"]);
        scene.proxy.black_hole();
        // A PING falls due, and is not answered; the new connections fall silent as well.
        tokio::time::sleep(Duration::from_secs(3)).await;
        scene.proxy.heal();
        let is_back = || scene.server.text(&["PUBSUB", "CHANNELS"]) != before && ears(&scene.server) >= 2;
        until("it hears on another", Duration::from_secs(9), is_back).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let released = scene.release().await;
        first.await.unwrap();
        assert!(released.elapsed() < SOON, "{protocol}: {:?}", released.elapsed());
        scene.there.release(&scene.first).await.unwrap();
        second.await.unwrap();
    }
}

/// Handed over by somebody who may not publish.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_that_is_lost_costs_time_and_no_more() {
    let server = Server::setup(Flavor::Redis82).acl_user("mute", "on nopass ~* &* +@all -publish").start();
    for protocol in BOTH {
        let url = format!("{}?protocol={protocol}", server.url());
        let store = store(&url);
        let [holder, first] = [(); 2].map(|()| attempt(&["k"]).with_ttl(ttl(60_000)));
        granted(grant(&store, &holder).await);
        let waiting = wait(&store, &first);
        stand_in_line(&server, &[&first]).await;
        let mut mute = server.connect().unwrap();
        mute.text(&["AUTH", "mute", "x"]).unwrap();
        let call = call_for(&Request::Release(holder), Line::WINDOW);
        let (text, count) = (call.script.text().as_bytes(), call.keys.len().to_string());
        let mut words: Vec<&[u8]> = vec![b"EVAL", text, count.as_bytes()];
        words.extend(call.keys.iter().chain(&call.args).map(Vec::as_slice));
        let began = Instant::now();
        mute.command(&words).unwrap();
        assert!(
            value(&server, "k").is_some_and(|value| value.contains(&first.holder.digits())),
            "handed over"
        );
        waiting.await.unwrap();
        let waited = began.elapsed();
        assert!(waited < Line::RE_ASK + SOON, "{protocol}: {waited:?}");
        assert_eq!(store.release(&first).await, Ok(HoldAnswer::Done));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_an_operator_deletes_is_noticed_within_a_re_ask() {
    let server = Server::start(Flavor::Valkey91);
    let store = store(&server.url());
    let [holder, first, second] = [(); 3].map(|()| attempt(&["k"]).with_ttl(ttl(60_000)));
    granted(grant(&store, &holder).await);
    let waiting = wait(&store, &first);
    stand_in_line(&server, &[&first]).await;
    let behind = wait(&store, &second);
    stand_in_line(&server, &[&first, &second]).await;
    server.text(&["DEL", "k"]);
    let began = Instant::now();
    waiting.await.unwrap();
    assert!(began.elapsed() < Line::RE_ASK + SOON, "{:?}", began.elapsed());
    store.release(&first).await.unwrap();
    behind.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_died_is_followed_at_its_end() {
    let server = Server::start(Flavor::Redis70);
    let stores = [store(&server.url()), store(&server.url())];
    let holder = attempt(&["k"]).with_ttl(ttl(1500));
    let waiters = [(); 4].map(|()| attempt(&["k"]));
    let began = Instant::now();
    granted(grant(&stores[0], &holder).await);
    let mut tasks = Vec::new();
    for (nth, waiter) in waiters.iter().enumerate() {
        tasks.push(wait(&stores[nth % 2], waiter));
        stand_in_line(&server, &waiters[..=nth].iter().collect::<Vec<_>>()).await;
    }
    for (nth, task) in tasks.into_iter().enumerate() {
        task.await.unwrap();
        let waited = began.elapsed();
        assert!(
            waited >= Duration::from_millis(1490) && waited < Duration::from_millis(1500) + SOON,
            "{waited:?}"
        );
        stores[nth % 2].release(&waiters[nth]).await.unwrap();
    }
}

/// Somebody who knows nothing of the line, and comes and goes without a word to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_holder_is_waited_for_in_order() {
    let server = Server::start(Flavor::Redis62);
    for protocol in BOTH {
        let store = store(&format!("{}?protocol={protocol}", server.url()));
        server.text(&["SET", "k", "theirs"]);
        let [first, second] = [(); 2].map(|()| attempt(&["k"]));
        let waiting = wait(&store, &first);
        stand_in_line(&server, &[&first]).await;
        let behind = wait(&store, &second);
        stand_in_line(&server, &[&first, &second]).await;
        assert_eq!(value(&server, "k").as_deref(), Some("theirs"), "and is not marked");
        server.text(&["DEL", "k"]);
        let began = Instant::now();
        waiting.await.unwrap();
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        store.release(&first).await.unwrap();
        behind.await.unwrap();
        store.release(&second).await.unwrap();
        assert_eq!(left_behind(&server), [""; 0]);
    }
}

/// Everything is forgotten: the lock, the line, the channels.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_restarts_empty_serves_all_who_waited() {
    for (flavor, protocol) in [(Flavor::Redis62, "resp2"), (Flavor::Valkey91, "resp3")] {
        let server = Server::start(flavor);
        let url = format!("{}?protocol={protocol}", server.url());
        let stores: Vec<_> = (0..3).map(|_| store(&url)).collect();
        let holder = attempt(&["k"]);
        granted(grant(&stores[0], &holder).await);
        let inside = Arc::new(AtomicU32::new(0));
        let tasks: Vec<_> = (0..12)
            .map(|nth| {
                let (store, inside) = (stores[nth % 3].clone(), inside.clone());
                tokio::spawn(async move {
                    let ours = attempt(&["k"]);
                    lock(&store, &ours).await;
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two were inside");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    store.release(&ours).await.unwrap();
                })
            })
            .collect();
        while crate::queue::line(&server).await.len() < 12 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.kill_9();
        tokio::time::sleep(Duration::from_millis(300)).await;
        server.restart();
        let began = Instant::now();
        for task in tasks {
            tokio::time::timeout(Duration::from_secs(10), task).await.unwrap().unwrap();
        }
        assert!(began.elapsed() < Duration::from_secs(8), "{flavor}: {:?}", began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_subscribe_asks_by_itself_and_says_why() {
    let rules = ["on nopass ~* &* +@all -subscribe", "on nopass ~* resetchannels +@all"];
    for (flavor, rules) in
        [(Flavor::Redis62, rules[1]), (Flavor::Redis82, rules[0]), (Flavor::Valkey91, rules[1])]
    {
        let server = Server::setup(flavor).acl_user("deaf", rules).start();
        for protocol in BOTH {
            let url = format!("redis://deaf@127.0.0.1:{}?protocol={protocol}", server.port());
            let store = store(&url);
            let holder = attempt(&["k"]);
            granted(grant(&store, &holder).await);
            let waiters = [(); 3].map(|()| attempt(&["k"]));
            let mut tasks = Vec::new();
            for (nth, waiter) in waiters.iter().enumerate() {
                tasks.push(wait(&store, waiter));
                stand_in_line(&server, &waiters[..=nth].iter().collect::<Vec<_>>()).await;
            }
            let why = store.deaf_because().unwrap().to_string();
            assert!(why.contains("deaf"), "{flavor} {protocol}: {why}");
            tokio::time::sleep(Duration::from_secs(1)).await;
            let mut last = holder;
            for (waiter, task) in waiters.iter().zip(tasks) {
                let began = Instant::now();
                store.release(&last).await.unwrap();
                task.await.unwrap();
                assert!(began.elapsed() < SOON, "{flavor} {protocol}: {:?}", began.elapsed());
                last = waiter.clone();
            }
            store.release(&last).await.unwrap();
            assert_eq!(left_behind(&server), [""; 0]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_lends_a_connection_waits_by_asking() {
    let server = Server::start(Flavor::Redis70);
    let client = redis::Client::open(server.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let (lent, ours) = (RedisStore::from_connection(connection, "lent", runtime()), store(&server.url()));
    let [holder, first, second] = [(); 3].map(|()| attempt(&["k"]));
    granted(grant(&ours, &holder).await);
    let waiting = wait(&lent, &first);
    stand_in_line(&server, &[&first]).await;
    let behind = wait(&ours, &second);
    stand_in_line(&server, &[&first, &second]).await;
    let began = Instant::now();
    ours.release(&holder).await.unwrap();
    waiting.await.unwrap();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert!(!behind.is_finished());
    lent.release(&first).await.unwrap();
    behind.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_an_operator_kills_and_scripts_that_he_flushes_go_unnoticed() {
    for (flavor, protocol) in
        [(Flavor::Redis62, "resp2"), (Flavor::Redis82, "resp3"), (Flavor::Redis82, "resp2")]
    {
        let server = Server::start(flavor);
        let url = format!("{}?protocol={protocol}", server.url());
        let (here, there) = (store(&url), store(&url));
        prick_up(&here).await;
        prick_up(&there).await;
        let [holder, first, second] = [(); 3].map(|()| attempt(&["k"]));
        granted(grant(&here, &holder).await);
        let waiting = wait(&there, &first);
        stand_in_line(&server, &[&first]).await;
        let behind = wait(&here, &second);
        stand_in_line(&server, &[&first, &second]).await;
        let before = server.text(&["PUBSUB", "CHANNELS"]);
        for kind in ["pubsub", "normal"] {
            server.text(&["CLIENT", "KILL", "TYPE", kind]);
        }
        let is_back = || ears(&server) == 2 && server.text(&["PUBSUB", "CHANNELS"]) != before;
        until("both hear again", Duration::from_secs(9), is_back).await;
        stand_in_line(&server, &[&first, &second]).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.text(&["SCRIPT", "FLUSH"]);
        let began = Instant::now();
        let _ = here.release(&holder).await;
        waiting.await.unwrap();
        server.text(&["SCRIPT", "FLUSH"]);
        there.release(&first).await.unwrap();
        behind.await.unwrap();
        assert!(began.elapsed() < SOON, "{flavor} {protocol}: {:?}", began.elapsed());
    }
}

/// Two connections in RESP2: the one that hears dies alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_connection_does_not_die_unnoticed() {
    let server = Server::start(Flavor::Redis70);
    let store = store(&format!("{}?protocol=resp2", server.url()));
    let [holder, first] = [(); 2].map(|()| attempt(&["k"]));
    granted(grant(&store, &holder).await);
    let waiting = wait(&store, &first);
    stand_in_line(&server, &[&first]).await;
    until("it hears", SOON, || ears(&server) == 1).await;
    let before = server.text(&["PUBSUB", "CHANNELS"]);
    server.text(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    let is_back = || ears(&server) == 1 && server.text(&["PUBSUB", "CHANNELS"]) != before;
    until("it hears again", SOON, is_back).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let began = Instant::now();
    store.release(&holder).await.unwrap();
    waiting.await.unwrap();
    assert!(began.elapsed() < SOON);
    assert_eq!(store.inspect(&key("k")).await.unwrap().tenancies.len(), 1);
}

/// The network keeps the push for a while. What is asked meanwhile, PINGs too, says nothing of when the lease began.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_of_a_push_that_was_delayed_began_before_it_was_handed_over() {
    const WAIT: Manner = Manner::Wait { line_limit: None };
    for protocol in BOTH {
        let server = Server::start(Flavor::Redis82);
        let proxy = Proxy::before(&server);
        // A PING every two seconds, which is waited for as long.
        let (here, there) =
            (store(&server.url()), store(&format!("{}?protocol={protocol}&call-limit=2s", proxy.url())));
        prick_up(&there).await;
        let mut pushes = 0;
        for round in 0.. {
            let [holder, first] = [(); 2].map(|()| attempt(&["k"]));
            granted(grant(&here, &holder).await);
            there.grant(&first, WAIT).await.unwrap();
            proxy.black_hole();
            here.release(&holder).await.unwrap();
            let handed_over = runtime().now();
            let asking = tokio::spawn({
                let there = there.clone();
                async move { there.inspect(&key("k")).await }
            });
            tokio::time::sleep(Duration::from_millis(1300)).await;
            proxy.heal();
            // A machine that is busy may take the connection for dead; then there is nothing to be seen here.
            if let Wake::Granted { since, .. } = there.woken(&first).await {
                let late = since.saturating_since(handed_over);
                assert_eq!(late, Duration::ZERO, "{protocol}, round {round}");
                pushes += 1;
            }
            drop(asking.await);
            there.give_up(&first).await.unwrap();
            if pushes == 3 {
                break;
            }
            assert!(round < 12, "{protocol}: {pushes} pushes were heard");
        }
    }
}

/// Too many for one request to clear away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_dead_waiters_are_cleared_away_at_once() {
    let server = Server::start(Flavor::Redis62);
    let (here, there) = (store(&server.url()), store(&server.url()));
    prick_up(&here).await;
    prick_up(&there).await;
    let holder = attempt(&["k"]);
    granted(grant(&here, &holder).await);
    for _ in 0..350 {
        let dead = attempt(&["k"]);
        drop(there.grant(&dead, Manner::Wait { line_limit: None }).await.unwrap());
    }
    let last = attempt(&["k"]);
    let waiting = wait(&here, &last);
    while crate::queue::line(&server).await.len() < 351 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(there);
    until("their channel is gone", SOON, || ears(&server) == 1).await;
    let began = Instant::now();
    here.release(&holder).await.unwrap();
    waiting.await.unwrap();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    here.release(&last).await.unwrap();
    assert_eq!(left_behind(&server), [""; 0]);
}

/// A refusal is an answer: the server is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_ping_waits_all_the_same() {
    let server = Server::setup(Flavor::Valkey91).acl_user("quiet", "on nopass ~* &* +@all -ping").start();
    for protocol in BOTH {
        let store = store(&format!("redis://quiet@127.0.0.1:{}?protocol={protocol}", server.port()));
        prick_up(&store).await;
        let [holder, first] = [(); 2].map(|()| attempt(&["k"]));
        granted(grant(&store, &holder).await);
        let waiting = wait(&store, &first);
        stand_in_line(&server, &[&first]).await;
        let before = server.text(&["PUBSUB", "CHANNELS"]);
        tokio::time::sleep(Duration::from_millis(1600)).await;
        assert_eq!(server.text(&["PUBSUB", "CHANNELS"]), before, "{protocol}: the connection was dropped");
        store.release(&holder).await.unwrap();
        waiting.await.unwrap();
        store.release(&first).await.unwrap();
    }
}

/// A stranger who has learnt a channel's name may say what he likes; what is no push is passed over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn noise_on_a_channel_is_passed_over() {
    let server = Server::start(Flavor::Valkey91);
    for protocol in BOTH {
        let store = store(&format!("{}?protocol={protocol}", server.url()));
        let [holder, first] = [(); 2].map(|()| attempt(&["k"]));
        granted(grant(&store, &holder).await);
        let waiting = wait(&store, &first);
        stand_in_line(&server, &[&first]).await;
        until("it hears", SOON, || ears(&server) == 1).await;
        let servers::Reply::Array(Some(channels)) = server.text(&["PUBSUB", "CHANNELS"]) else { panic!() };
        for noise in ["", "g", "hello", "g 0 1 2 k", "\0\r\n", "x 00 k"] {
            server.text(&["PUBLISH", channels[0].as_text().unwrap(), noise]);
        }
        // Handed to somebody who is not here any more: it is given back.
        let gone = attempt(&["other"]);
        granted(grant(&crate::world::store(&server.url()), &gone).await);
        let handed = format!("g {} 99 2000 other", gone.holder.digits());
        server.text(&["PUBLISH", channels[0].as_text().unwrap(), &handed]);
        until("it is free", SOON, || value(&server, "other").is_none()).await;
        assert!(!waiting.is_finished());
        store.release(&holder).await.unwrap();
        waiting.await.unwrap();
        store.release(&first).await.unwrap();
    }
}
