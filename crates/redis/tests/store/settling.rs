//! A grant has no effect after its attempt was given up, wherever its request was delayed.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold_core::{Attempt, Claim, HoldAnswer, Store, Successor, TransferStore as _, Ttl, WaitMode};
use leasehold_redis::RedisStore;
use leasehold_redis::slot::slot_of;
use servers::{Cluster, Flavor, Postgres, Reply, Server};

use crate::queue::{give_up, scripts, ttl, until};
use crate::world::{attempt, behind_a_proxy, cluster_store, grant, granted, passing, started, store, value};

/// Asks while the server is silent, and gives up while it falls silent no more after so many ms: nothing
/// of the attempt may come there then or later.
async fn leaves_nothing(
    server: &Server,
    store: &RedisStore,
    silence: impl Fn(),
    after: u64,
    end_silence: impl Fn(),
) {
    let ours = attempt(&["k"]);
    silence();
    passing(grant(store, &ours).await, &["no answer"]);
    let ending = async {
        tokio::time::sleep(Duration::from_millis(after)).await;
        end_silence();
    };
    tokio::join!(give_up(store, &ours), ending);
    assert_eq!(value(server, "k"), None, "after {after} ms");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(value(server, "k"), None, "after {after} ms");
}

/// The request is in the stopped server's socket, on a connection that was dropped. The server
/// continues sometimes before the not-after, sometimes after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_stuck_in_a_stopped_server_leaves_nothing_once_it_was_given_up() {
    let (server, store) = started(Flavor::Redis82);
    store.open().await.unwrap();
    for round in 0..10 {
        leaves_nothing(&server, &store, || server.stop(), 20 * round, || server.cont()).await;
    }
}

/// Here the network delays the request for an arbitrary time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_stuck_in_the_network_leaves_nothing_once_it_was_given_up() {
    let (server, proxy) = behind_a_proxy(Flavor::Valkey91);
    let store = store(&format!("{}?call-limit=300ms", proxy.url()));
    store.open().await.unwrap();
    for wait in [0, 50, 100, 200, 400] {
        leaves_nothing(&server, &store, || proxy.black_hole(), wait, || proxy.heal()).await;
    }
}

#[tokio::test]
async fn a_grant_that_was_cancelled_is_undone_by_the_release_behind_it() {
    for flavor in [Flavor::Redis62, Flavor::Valkey91] {
        let (server, store) = started(flavor);
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

/// Sends a request that may create a holder, cancels it, and lets another call with a short limit drop
/// the connection. The request may still be executed within almost half a second.
pub(crate) async fn cut_off<T>(server: &Server, store: &impl Store, request: impl Future<Output = T>) {
    server.stop();
    assert!(tokio::time::timeout(Duration::from_millis(20), request).await.is_err());
    let short = attempt(&["{k}other"]).with_ttl(ttl(100));
    passing(store.grant(&short, WaitMode::Try).await, &["no answer within 50ms"]);
    server.cont();
}

/// Executes the request as if it arrived late, now.
pub(crate) fn arrives(server: &Server, ours: &Attempt) {
    server.text(&["SET", "k", &format!("lh1-{}.7", ours.holder.digits()), "PX", "60000"]);
}

/// Gives up an attempt whose request arrives meanwhile.
pub(crate) async fn given_up_as_it_arrives(server: &Server, store: &impl Store, ours: &Attempt) {
    let arriving = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(value(server, "k"), None, "the first release came at once");
        arrives(server, ours);
    };
    let before = server.calls("evalsha");
    let (given_up, ()) = tokio::join!(store.give_up(ours), arriving);
    given_up.unwrap();
    assert!(server.calls("evalsha") - before < 10, "it waits, and does not release again and again");
    assert_eq!(value(server, "k"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn giving_up_waits_for_a_grant_that_was_cut_off_and_undoes_it() {
    let (server, store) = started(Flavor::Redis70);
    store.open().await.unwrap();
    let ours = attempt(&["k"]);
    cut_off(&server, &store, grant(&store, &ours)).await;
    let began = Instant::now();
    given_up_as_it_arrives(&server, &store, &ours).await;
    assert!(began.elapsed() < Duration::from_millis(700));
    let began = Instant::now();
    store.give_up(&ours).await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(100), "it has settled");
}

/// Regression: it was not known to be under way, so the adopter held the lock to the end of its TTL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn giving_up_waits_for_a_transfer_that_was_cut_off_and_undoes_it() {
    let (server, store) = started(Flavor::Redis70);
    let [ours, next] = [(); 2].map(|()| attempt(&["k"]));
    granted(grant(&store, &ours).await);
    let successor = Successor { holder: next.holder, label: None };
    // The server does not know the script before the first one.
    let nobodys = store.transfer(&attempt(&["{k}other"]), &successor).await;
    assert!(matches!(nobodys, Ok(HoldAnswer::NotHeld { .. })), "{nobodys:?}");
    cut_off(&server, &store, store.transfer(&ours, &successor)).await;
    given_up_as_it_arrives(&server, &store, &next).await;
}

/// Regression: the answer to a transfer that came too late names the reader whose share ends first. If
/// that was another one, the reader's lock counted as lost, although it held it.
#[tokio::test]
async fn a_reader_whose_transfer_came_too_late_still_holds_its_lock() {
    let library = Postgres::fake_clock().expect("libfaketime: there is none; run `cargo xtask servers`");
    // The library does not work with the allocator of Redis 7.0.
    for flavor in [Flavor::Redis62, Flavor::Redis82, Flavor::Valkey91] {
        let directory = tempfile::tempdir().unwrap();
        let clock = directory.path().join("clock");
        std::fs::write(&clock, "+0\n").unwrap();
        let faked = Server::setup(flavor).env("LD_PRELOAD", &library).env("FAKETIME_TIMESTAMP_FILE", &clock);
        let server = faked.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1").start();
        let store = store(&server.url());
        let [ours, other, next] = [30, 20, 30].map(|seconds| {
            let Attempt { claim, holder, label, .. } = attempt(&["k"]);
            let claim = Claim::shared(claim.keys().cloned()).unwrap();
            Attempt::new(claim, holder, label, Ttl::new(Duration::from_secs(seconds)).unwrap())
        });
        granted(grant(&store, &ours).await);
        granted(grant(&store, &other).await);
        std::fs::write(&clock, "+5\n").unwrap();
        let successor = Successor { holder: next.holder, label: None };
        // Servers read it once for all the commands that have arrived.
        let shows = || {
            let Reply::Array(Some(words)) = server.text(&["TIME"]) else { panic!("no time") };
            words[0].as_text().unwrap().parse::<u64>().unwrap()
        };
        let real = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        until("its clock is set", Duration::from_secs(4), || shows() > real() + 2).await;
        passing(store.transfer(&ours, &successor).await, &["the server's clock was set"]);
        assert_eq!(store.transfer(&ours, &successor).await, Ok(HoldAnswer::Done), "{flavor}");
        let gone = store.transfer(&ours, &successor).await;
        assert!(matches!(gone, Ok(HoldAnswer::NotHeld { .. })), "{flavor}: {gone:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_answers_at_once_comes_again_by_itself_and_once_more_if_that_fails() {
    let (server, store) = started(Flavor::Redis82);
    store.open().await.unwrap();
    let ours = attempt(&["k"]);
    cut_off(&server, &store, grant(&store, &ours)).await;
    let began = Instant::now();
    store.release(&ours).await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(200));
    server.text(&["ACL", "SETUSER", "default", "-evalsha", "-eval"]);
    arrives(&server, &ours);
    let is_refused = || server.text(&["INFO", "errorstats"]).as_text().unwrap().contains("errorstat_NOPERM");
    until("it is refused", Duration::from_secs(4), is_refused).await;
    assert!(value(&server, "k").is_some());
    server.text(&["ACL", "SETUSER", "default", "+evalsha", "+eval"]);
    until("it is released", Duration::from_secs(4), || value(&server, "k").is_none()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_was_cut_off_in_a_cluster_is_undone_too() {
    let cluster = Cluster::start(Flavor::Valkey91, 3, 0);
    let server = cluster.owner(slot_of(b"k"));
    let store = cluster_store(&cluster.url());
    let [given_up, released] = [(); 2].map(|()| attempt(&["k"]));
    // After a while without requests, the next one reads the server's clock before it is sent.
    let reads_the_clock = async || {
        let other = attempt(&["{k}other"]);
        granted(store.grant(&other, WaitMode::Try).await);
        store.release(&other).await.unwrap();
    };

    reads_the_clock().await;
    cut_off(server, &store, store.grant(&given_up, WaitMode::Try)).await;
    given_up_as_it_arrives(server, &store, &given_up).await;

    reads_the_clock().await;
    cut_off(server, &store, store.grant(&released, WaitMode::Try)).await;
    store.release(&released).await.unwrap();
    arrives(server, &released);
    until("it is released again", Duration::from_secs(4), || value(server, "k").is_none()).await;
}

#[tokio::test]
async fn a_lease_that_was_answered_is_released_once() {
    let (server, store) = started(Flavor::Valkey91);
    let ours = attempt(&["k"]);
    granted(grant(&store, &ours).await);
    assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
    arrives(&server, &ours);
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(value(&server, "k").is_some());
}

/// They are answered by several scripts of one batch. The release is on another connection, so it
/// would come again if a grant still counted as unanswered.
#[tokio::test]
async fn leases_of_several_slots_that_were_answered_together_are_released_once() {
    let cluster = Cluster::start(Flavor::Valkey91, 3, 0);
    let server = cluster.owner(slot_of(b"k"));
    let store = cluster_store(&format!("{}?call-limit=200ms", cluster.url()));
    let is_there = |name: &String| cluster.owner(slot_of(name.as_bytes())).port() == server.port();
    let names: Vec<_> = (0..).map(|nth| format!("k{nth}")).filter(is_there).take(9).collect();
    let ours: Vec<_> = names.iter().map(|name| attempt(&[name])).collect();
    store.open().await.unwrap();
    let before = scripts(server);
    for answer in join_all(ours.iter().map(|ours| store.grant(ours, WaitMode::Try))).await {
        granted(answer);
    }
    server.text(&["CLIENT", "KILL", "TYPE", "normal"]);
    while store.grant(&attempt(&["{k}other"]), WaitMode::Try).await.is_err() {}
    for answer in join_all(ours.iter().map(|ours| store.release(ours))).await {
        assert_eq!(answer, Ok(HoldAnswer::Done));
    }
    let released = scripts(server);
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(scripts(server), released, "after {} scripts", released - before);
}
