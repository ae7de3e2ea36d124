//! The order of the queue, and its cost in commands.

use std::time::Duration;

use leasehold_core::{GrantAnswer, HoldAnswer, Owner, Store, WaitMode};
use servers::{Flavor, Server};

use crate::queue::{
    BOTH, commands, give_up, hand_over, left_behind, let_go, line, lock, subscribe, subscribed, until, wait,
    wait_in_line,
};
use crate::world::{attempt, grant, granted, runtime, store};

/// Less than the time after which a waiter asks again, so a waiter that was served by then was
/// notified; and enough for a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(2);

#[track_caller]
pub(crate) fn is_soon(took: Duration, on: impl std::fmt::Display) {
    assert!(took < SOON, "{on}: {took:?}");
}

fn urls(server: &Server) -> [String; 2] {
    BOTH.map(|protocol| format!("{}?protocol={protocol}", server.url()))
}

/// Each of K tasks acquires the lock a few times, holds it for a millisecond and releases it.
async fn cost(url: &str, server: &Server, tasks: usize, processes: usize, rounds: usize) -> f64 {
    let stores: Vec<_> = (0..processes).map(|_| store(url)).collect();
    let contend = |rounds: usize| {
        let tasks = (0..tasks).map(|nth| {
            let store = stores[nth % processes].clone();
            tokio::spawn(async move {
                for _ in 0..rounds {
                    let ours = attempt(&["k"]);
                    let lease = lock(&store, &ours).await;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    let answer = store.release(&ours).await;
                    // Nothing renews here, so the lock is lost if the machine pauses for a claim
                    // window.
                    match answer {
                        Ok(answer) if lease.is_held(runtime().now()) => assert_eq!(answer, HoldAnswer::Done),
                        Ok(_) => {}
                        Err(_) => let_go(&store, &ours).await,
                    }
                }
            })
        });
        tasks.collect::<Vec<_>>()
    };
    // Connections are made, and channels subscribed to.
    for task in contend(1) {
        task.await.unwrap();
    }
    let before = commands(server);
    for task in contend(rounds) {
        task.await.unwrap();
    }
    let sent = commands(server) - before;
    sent as f64 / (tasks * rounds) as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquisition_costs_two_commands_at_any_queue_length() {
    for flavor in [Flavor::Redis62, Flavor::Valkey91] {
        let server = Server::start(flavor);
        for (tasks, processes, rounds) in [(1, 1, 50), (8, 1, 20), (8, 8, 20), (64, 1, 5), (64, 8, 5)] {
            // On a busy machine a PING may become due, or an answer come too late.
            let mut costs = Vec::new();
            while costs.iter().all(|cost| *cost > 2.02) {
                assert!(costs.len() < 4, "{flavor}, {tasks} tasks, {processes} processes: {costs:?} each");
                costs.push(cost(&server.url(), &server, tasks, processes, rounds).await);
            }
            assert!(costs.iter().all(|cost| *cost >= 2.0), "{flavor}: {costs:?}: they were counted");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_waiters_of_a_long_hold_cost_next_to_nothing_and_an_idle_process_nothing() {
    let server = Server::start(Flavor::Redis82);
    for url in urls(&server) {
        let stores: Vec<_> = (0..4).map(|_| store(&url)).collect();
        let holder = attempt(&["k"]);
        granted(grant(&stores[0], &holder).await);
        let waiters: Vec<_> = (0..200).map(|_| attempt(&["k"])).collect();
        let tasks: Vec<_> =
            waiters.iter().enumerate().map(|(nth, one)| wait(&stores[nth % 4], one)).collect();
        while line(&server).await.len() < waiters.len() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(subscribed(&server), 4, "{url}: one for each process");
        let mut counts = Vec::new();
        // On a busy machine a connection may seem dead, and then all waiters ask.
        while counts.iter().all(|sent| *sent > 3 * 6 * 4) {
            assert!(counts.len() < 4, "{url}: {counts:?} commands in 6 s by 4 processes");
            let before = commands(&server);
            for _ in 0..2 {
                tokio::time::sleep(Duration::from_secs(3)).await;
                stores[0].renew(std::slice::from_ref(&holder)).await;
            }
            counts.push(commands(&server) - before);
        }
        assert!(counts.iter().all(|sent| *sent >= 6 * 4), "{counts:?}: nobody looks after the connections");

        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        for (nth, waiter) in waiters.iter().enumerate() {
            give_up(&stores[nth % 4], waiter).await;
        }
        let_go(&stores[0], &holder).await;
        assert_eq!(left_behind(&server), [""; 0]);
        let before = commands(&server);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(commands(&server) - before, 0, "{url}: idle");
        drop(stores);
        until("connections are closed", SOON, || subscribed(&server) == 0).await;
    }
}

#[tokio::test]
async fn a_process_that_never_waits_subscribes_to_nothing() {
    let server = Server::start(Flavor::Valkey91);
    for url in urls(&server) {
        let store = store(&url);
        for _ in 0..3 {
            let ours = attempt(&["k"]);
            lock(&store, &ours).await;
            let_go(&store, &ours).await;
        }
        assert_eq!(subscribed(&server), 0);
        assert_eq!(store.push_unavailable(), None);
    }
}

/// Killed without a release: its connection ends, and so does its subscription.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_dies_in_the_queue_does_not_delay_the_next() {
    let server = Server::start(Flavor::Redis62);
    for url in urls(&server) {
        let (here, there) = (store(&url), store(&url));
        let [holder, dead, next] = [(); 3].map(|()| attempt(&["k"]));
        granted(grant(&here, &holder).await);
        // The first waiter of a process joins before it subscribes; it dies after that.
        subscribe(&here).await;
        subscribe(&there).await;
        let [dying, waiting] = wait_in_line(&server, [(&there, &dead), (&here, &next)]).await;
        dying.abort();
        drop(there);
        until("its channel is gone", SOON, || subscribed(&server) == 1).await;
        is_soon(hand_over(&here, &holder, waiting).await, "");
        let_go(&here, &next).await;
        assert_eq!(left_behind(&server), [""; 0]);
    }
}

/// The key was deleted while it was held, so nobody handed it over; and a try finds it free before
/// the first waiter has asked again.
#[tokio::test]
async fn a_try_that_finds_a_key_free_hands_it_to_the_first_waiter() {
    for flavor in [Flavor::Redis70, Flavor::Valkey91] {
        let server = Server::start(flavor);
        let (here, there) = (store(&server.url()), store(&server.url()));
        let [gone, first, late] = [(); 3].map(|()| attempt(&["k"]));
        granted(grant(&here, &gone).await);
        let [waits] = wait_in_line(&server, [(&there, &first)]).await;
        assert_eq!(server.text(&["DEL", "k"]).as_integer(), Some(1));
        let answer = here.grant(&late, WaitMode::Try).await.unwrap();
        let GrantAnswer::Busy { held_by, place: None } = answer else { panic!("{flavor}: {answer:?}") };
        assert!(matches!(held_by.owner, Owner::Holder { holder, .. } if holder == first.holder), "{held_by}");
        waits.await.unwrap();
        let_go(&there, &first).await;
    }
}
