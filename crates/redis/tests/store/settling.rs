//! A grant has no effect after its attempt was given up, wherever its request was delayed.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use leasehold_core::{Attempt, HoldAnswer, Store};
use leasehold_redis::RedisStore;
use servers::{Flavor, Proxy, Server};

use crate::queue::give_up;
use crate::world::{attempt, grant, granted, passing, store, value};

/// The request is in the stopped server's socket, on a connection that was dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_stuck_in_a_stopped_server_leaves_nothing_once_it_was_given_up() {
    let server = Server::start(Flavor::Redis82);
    let store = store(&server.url());
    store.open().await.unwrap();
    for round in 0..10 {
        let ours = attempt(&["k"]);
        server.stop();
        passing(grant(&store, &ours).await, &["no answer"]);
        // The server continues sometimes before the not-after, sometimes after it.
        let going_on = async {
            tokio::time::sleep(Duration::from_millis(20 * round)).await;
            server.cont();
        };
        tokio::join!(give_up(&store, &ours), going_on);
        assert_eq!(value(&server, "k"), None, "round {round}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(value(&server, "k"), None, "round {round}");
    }
}

/// Here the network delays the request for an arbitrary time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_stuck_in_the_network_leaves_nothing_once_it_was_given_up() {
    let server = Server::start(Flavor::Valkey91);
    let proxy = Proxy::before(&server);
    let store = store(&format!("{}?call-limit=300ms", proxy.url()));
    store.open().await.unwrap();
    for wait in [0, 50, 100, 200, 400] {
        let ours = attempt(&["k"]);
        proxy.black_hole();
        passing(grant(&store, &ours).await, &["no answer"]);
        let healing = async {
            tokio::time::sleep(Duration::from_millis(wait)).await;
            proxy.heal();
        };
        tokio::join!(give_up(&store, &ours), healing);
        assert_eq!(value(&server, "k"), None);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(value(&server, "k"), None);
    }
}

#[tokio::test]
async fn a_grant_that_was_cancelled_is_undone_by_the_release_behind_it() {
    for flavor in [Flavor::Redis62, Flavor::Valkey91] {
        let server = Server::start(flavor);
        let store = store(&server.url());
        store.open().await.unwrap();
        for polls in 0..20 {
            let ours = attempt(&["k"]);
            {
                let mut granting = std::pin::pin!(grant(&store, &ours));
                for _ in 0..polls {
                    let ended =
                        poll_fn(|context| Poll::Ready(granting.as_mut().poll(context).is_ready())).await;
                    if ended {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
            let began = Instant::now();
            store.give_up(&ours).await.unwrap();
            assert!(began.elapsed() < Duration::from_millis(100), "on one connection, order is enough");
            assert_eq!(value(&server, "k"), None, "{flavor}: after {polls} polls");
        }
    }
}

/// Sends a grant, cancels it, and lets another call with a short limit drop the connection. The
/// grant may still be executed within almost half a second.
async fn cut_off(server: &Server, store: &RedisStore, ours: &Attempt) {
    server.stop();
    let sent = tokio::time::timeout(Duration::from_millis(20), grant(store, ours)).await;
    assert!(sent.is_err());
    let short = attempt(&["other"]).with_ttl(Duration::from_millis(100).try_into().unwrap());
    passing(grant(store, &short).await, &["no answer within 50ms"]);
    server.cont();
}

/// Executes the request as if it arrived late, now.
pub(crate) fn arrives(server: &Server, ours: &Attempt) {
    server.text(&["SET", "k", &format!("lh1-{}.7", ours.holder.digits()), "PX", "60000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn giving_up_waits_for_a_grant_that_was_cut_off_and_undoes_it() {
    let server = Server::start(Flavor::Redis70);
    let store = store(&server.url());
    store.open().await.unwrap();
    let ours = attempt(&["k"]);
    cut_off(&server, &store, &ours).await;
    let began = Instant::now();
    let arriving = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(value(&server, "k"), None, "the first release came at once");
        arrives(&server, &ours);
    };
    let (given_up, ()) = tokio::join!(store.give_up(&ours), arriving);
    given_up.unwrap();
    assert!(began.elapsed() < Duration::from_millis(700));
    assert_eq!(value(&server, "k"), None);
    let began = Instant::now();
    store.give_up(&ours).await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(100), "it has settled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_answers_at_once_and_comes_again_by_itself() {
    let server = Server::start(Flavor::Redis82);
    let store = store(&server.url());
    store.open().await.unwrap();
    let ours = attempt(&["k"]);
    cut_off(&server, &store, &ours).await;
    let began = Instant::now();
    store.release(&ours).await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(200));
    arrives(&server, &ours);
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert_eq!(value(&server, "k"), None);
}

#[tokio::test]
async fn a_lease_that_was_answered_is_released_once() {
    let server = Server::start(Flavor::Valkey91);
    let store = store(&server.url());
    let ours = attempt(&["k"]);
    granted(grant(&store, &ours).await);
    assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
    arrives(&server, &ours);
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(value(&server, "k").is_some());
}
