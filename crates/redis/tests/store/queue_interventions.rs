//! The queue while holders, servers and operators intervene.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use leasehold_core::{Answer, Attempt, HoldAnswer, Request, Store, Wait, WaitQueue};
use leasehold_redis::wire::channel_of;
use redis::aio::MultiplexedConnection;
use servers::{Flavor, Reply, Server};

use crate::lent::lent;
use crate::queue::{
    BOTH, WAIT, channels, hand_over, held_and_awaited, left_behind, let_go, lock, subscribe, subscribed, ttl,
    until, wait, wait_in_line,
};
use crate::queue_order::{SOON, is_soon};
use crate::world::{as_user, ask, attempt, connect, grant, granted, started, store, value};

/// The releaser may not publish.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_that_is_lost_costs_time_and_no_more() {
    let server = Server::setup(Flavor::Redis82).acl_user("mute", "on nopass ~* &* +@all -publish").start();
    for protocol in BOTH {
        let url = format!("{}?protocol={protocol}", server.url());
        let store = store(&url);
        let [holder, first] = [(); 2].map(|()| attempt(&["k"]).with_ttl(ttl(60_000)));
        granted(grant(&store, &holder).await);
        let [waiting] = wait_in_line(&server, [(&store, &first)]).await;
        let mut mute = connect(&as_user(&server, "mute")).await;
        let began = Instant::now();
        let released = ask(&mut mute, &Request::Release(holder), WaitQueue::CLAIM_WINDOW).await;
        assert_eq!(released, Answer::Release(HoldAnswer::Done));
        assert!(value(&server, "k").unwrap().contains(&first.holder.digits()), "handed over");
        waiting.await.unwrap();
        let waited = began.elapsed();
        assert!(waited < WaitQueue::RE_ASK + SOON, "{protocol}: {waited:?}");
        assert_eq!(store.release(&first).await, Ok(HoldAnswer::Done));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_an_operator_deletes_is_noticed_within_a_re_ask() {
    let (server, store) = started(Flavor::Valkey91);
    let [holder, first, second] = [(); 3].map(|()| attempt(&["k"]).with_ttl(ttl(60_000)));
    granted(grant(&store, &holder).await);
    let [waiting, behind] = wait_in_line(&server, [(&store, &first), (&store, &second)]).await;
    server.text(&["DEL", "k"]);
    let began = Instant::now();
    waiting.await.unwrap();
    assert!(began.elapsed() < WaitQueue::RE_ASK + SOON, "{:?}", began.elapsed());
    let_go(&store, &first).await;
    behind.await.unwrap();
}

/// Another program that does not know the queue, and acquires and releases without notifying it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_holder_is_waited_for_in_order() {
    let server = Server::start(Flavor::Redis62);
    for protocol in BOTH {
        let store = store(&format!("{}?protocol={protocol}", server.url()));
        server.text(&["SET", "k", "theirs"]);
        let [first, second] = [(); 2].map(|()| attempt(&["k"]));
        let [waiting, behind] = wait_in_line(&server, [(&store, &first), (&store, &second)]).await;
        assert_eq!(value(&server, "k").as_deref(), Some("theirs"), "and is not marked");
        server.text(&["DEL", "k"]);
        let began = Instant::now();
        waiting.await.unwrap();
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        let_go(&store, &first).await;
        behind.await.unwrap();
        let_go(&store, &second).await;
        assert_eq!(left_behind(&server), [""; 0]);
    }
}

/// The lock, the queue and the channels are lost.
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
                    let_go(&store, &ours).await;
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
async fn a_user_without_subscribe_polls_and_reports_why() {
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
            let tasks = wait_in_line(&server, waiters.each_ref().map(|waiter| (&store, waiter))).await;
            let why = store.push_unavailable().unwrap().to_string();
            assert!(why.contains("deaf"), "{flavor} {protocol}: {why}");
            tokio::time::sleep(Duration::from_secs(1)).await;
            let mut last = holder;
            for (waiter, task) in waiters.into_iter().zip(tasks) {
                is_soon(hand_over(&store, &last, task).await, format_args!("{flavor} {protocol}"));
                last = waiter;
            }
            let_go(&store, &last).await;
            assert_eq!(left_behind(&server), [""; 0]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_on_a_lent_connection_polls() {
    let server = Server::start(Flavor::Redis70);
    let (lent, ours) = (lent(&server).await, store(&server.url()));
    let [holder, first, second] = [(); 3].map(|()| attempt(&["k"]));
    granted(grant(&ours, &holder).await);
    let [waiting, behind] = wait_in_line(&server, [(&lent, &first), (&ours, &second)]).await;
    is_soon(hand_over(&ours, &holder, waiting).await, "");
    assert!(!behind.is_finished());
    let_go(&lent, &first).await;
    behind.await.unwrap();
}

/// Too many for one request to clear away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_dead_waiters_are_cleared_away_at_once() {
    let server = Server::start(Flavor::Redis62);
    let (here, there) = (store(&server.url()), store(&server.url()));
    subscribe(&here).await;
    subscribe(&there).await;
    let holder = attempt(&["k"]);
    granted(grant(&here, &holder).await);
    for _ in 0..350 {
        let dead = attempt(&["k"]);
        drop(there.grant(&dead, WAIT).await.unwrap());
    }
    let last = attempt(&["k"]);
    let waiting = wait(&here, &last);
    while crate::queue::line(&server).await.len() < 351 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(there);
    until("their channel is gone", SOON, || subscribed(&server) == 1).await;
    is_soon(hand_over(&here, &holder, waiting).await, "");
    let_go(&here, &last).await;
    assert_eq!(left_behind(&server), [""; 0]);
}

/// A refusal of PING is an answer, too: the server is alive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_ping_can_wait() {
    let server = Server::setup(Flavor::Valkey91).acl_user("quiet", "on nopass ~* &* +@all -ping").start();
    for protocol in BOTH {
        let store = store(&format!("redis://quiet@127.0.0.1:{}?protocol={protocol}", server.port()));
        subscribe(&store).await;
        let ([holder, first], waiting) = held_and_awaited(&server, &store, &store).await;
        let before = channels(&server);
        tokio::time::sleep(Duration::from_millis(1600)).await;
        assert_eq!(channels(&server), before, "{protocol}: the connection was dropped");
        let_go(&store, &holder).await;
        waiting.await.unwrap();
        let_go(&store, &first).await;
    }
}

/// Anybody who knows a channel's name can publish there; messages that are not pushes are ignored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn noise_on_a_channel_is_passed_over() {
    let server = Server::start(Flavor::Valkey91);
    for protocol in BOTH {
        let store = store(&format!("{}?protocol={protocol}", server.url()));
        let ([holder, first], waiting) = held_and_awaited(&server, &store, &store).await;
        until("it hears", SOON, || subscribed(&server) == 1).await;
        let channel = channels(&server).pop_first().unwrap();
        for noise in ["", "g", "hello", "g 0 1 2 k", "\0\r\n", "x 00 k"] {
            server.text(&["PUBLISH", &channel, noise]);
        }
        assert!(!waiting.is_finished());
        let_go(&store, &holder).await;
        waiting.await.unwrap();
        let_go(&store, &first).await;
    }
}

const WINDOW: Duration = Duration::from_secs(60);

/// A holder and two waiters, with their channels.
async fn line_at(connection: &mut MultiplexedConnection, channels: [Option<u128>; 2]) -> [Attempt; 3] {
    let all = [(); 3].map(|()| attempt(&["a"]));
    for (attempt, channel) in all.iter().zip([None].into_iter().chain(channels)) {
        let wait = Some(Wait { channel: channel.map(channel_of), ..Wait::default() });
        let request = Request::Grant { attempt: attempt.clone(), wait, not_after: None };
        ask(connection, &request, WINDOW).await;
    }
    all
}

fn is_held_by(server: &Server, attempt: &Attempt) -> bool {
    value(server, "a").is_some_and(|value| value.contains(&attempt.holder.digits()))
}

#[tokio::test]
async fn a_holder_without_the_right_to_publish_hands_the_lock_over() {
    for flavor in Flavor::ALL {
        let server =
            Server::setup(flavor).acl_user("mute", "on >secret ~* resetchannels +@all -publish").start();
        let mut connection = connect(&as_user(&server, "mute")).await;
        let [first, second, third] = line_at(&mut connection, [None, Some(7)]).await;
        assert_eq!(
            ask(&mut connection, &Request::Release(first), WINDOW).await,
            Answer::Release(HoldAnswer::Done)
        );
        assert!(is_held_by(&server, &second), "{flavor}");
        // Only the notification of the third, that it is now first, is missing.
        ask(&mut connection, &Request::Release(third), WINDOW).await;
        ask(&mut connection, &Request::Release(second), WINDOW).await;
        assert_eq!(server.text(&["DBSIZE"]), Reply::Integer(1), "{flavor}: the fence alone");
    }
}

/// The waiter is asked to ask again, and gets the error as the answer.
#[tokio::test]
async fn a_fence_that_is_no_number_keeps_nobody_from_letting_go() {
    for (flavor, channels) in
        Flavor::ALL.into_iter().flat_map(|flavor| [(flavor, [None, Some(7)]), (flavor, [Some(8); 2])])
    {
        let server = Server::start(flavor);
        let mut listener = redis::Client::open(server.url()).unwrap().get_async_pubsub().await.unwrap();
        listener.subscribe(channel_of(8).as_bytes()).await.unwrap();
        let mut connection = connect(&server.url()).await;
        let [first, ..] = line_at(&mut connection, channels).await;
        server.text(&["SET", "leasehold:c{-}", "no fence"]);
        assert_eq!(
            ask(&mut connection, &Request::Release(first), WINDOW).await,
            Answer::Release(HoldAnswer::Done)
        );
        assert_eq!(value(&server, "a"), None, "{flavor}");
        assert_eq!(server.text(&["DBSIZE"]), Reply::Integer(1), "{flavor}: the fence alone");
    }
}
