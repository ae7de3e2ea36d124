//! Servers that stop, die and come back, and networks that lose everything.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold_core::{HoldAnswer, InspectStore as _, Store};
use servers::{Flavor, Server};

use crate::world::{attempt, behind_a_proxy, grant, granted, info, key, passing, started, store};

#[tokio::test]
async fn a_black_hole_is_left_for_a_new_connection() {
    let (_server, proxy) = behind_a_proxy(Flavor::Redis70);
    let store = store(&proxy.url());
    let ours = attempt(&["k"]);
    granted(grant(&store, &ours).await);
    proxy.black_hole();
    passing(store.inspect(&key("k")).await, &["no answer"]);
    passing(store.inspect(&key("k")).await, &["no connection"]);
    proxy.heal();
    assert_eq!(store.inspect(&key("k")).await.unwrap().holders.len(), 1);
    proxy.cut();
    // The cut may or may not be noticed before the call is sent; after one call it has been.
    let _ = store.inspect(&key("k")).await;
    assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
}

/// Regression: one call closed a silent connection, and the others on it reported a broken pipe, as if
/// the server had closed it.
#[tokio::test]
async fn every_call_on_a_silent_connection_says_that_it_was_silent() {
    let (_server, proxy) = behind_a_proxy(Flavor::Redis70);
    let store = store(&format!("{}?call-limit=5s", proxy.url()));
    store.open().await.unwrap();
    proxy.black_hole();
    let impatient = attempt(&["k"]).with_ttl(Duration::from_secs(1).try_into().unwrap());
    let patient = key("k");
    let (first, other) = tokio::join!(grant(&store, &impatient), store.inspect(&patient));
    passing(first, &["no answer within 250ms"]);
    passing(other, &["no answer", "the connection was silent"]);
}

/// Regression: of ten thousand concurrent calls, the last answers came too late. The first call
/// that timed out closed the connection, and all others failed because it was closed.
#[tokio::test]
async fn a_late_answer_closes_no_connection_that_still_answers_others() {
    let (_server, proxy) = behind_a_proxy(Flavor::Valkey91);
    let store = store(&format!("{}?call-limit=10s", proxy.url()));
    store.inspect(&key("k")).await.unwrap();
    let inspects = || {
        let store = store.clone();
        tokio::spawn(async move { store.inspect(&key("k")).await })
    };
    // Each message takes a second in each direction; later ones wait behind it.
    proxy.slow_down(Duration::from_secs(1));
    let before = inspects();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let impatient = attempt(&["k"]).with_ttl(Duration::from_secs(8).try_into().unwrap());
    let gives_up = grant(&store, &impatient);
    let mut behind = None;
    let (given_up, ()) = tokio::join!(gives_up, async {
        before.await.unwrap().unwrap();
        behind = Some(inspects());
    });
    passing(given_up, &["no answer within 2s"]);
    let behind = behind.unwrap();
    assert!(!behind.is_finished());
    behind.await.unwrap().unwrap();
    proxy.heal();
    // The release goes over the connection on which the lock was granted meanwhile.
    store.give_up(&impatient).await.unwrap();
    assert!(store.inspect(&key("k")).await.unwrap().holders.is_empty());
}

#[tokio::test]
async fn a_restart_between_two_calls_goes_unnoticed() {
    let (server, store) = started(Flavor::Valkey91);
    store.open().await.unwrap();
    server.restart();
    tokio::time::sleep(Duration::from_millis(50)).await;
    store.inspect(&key("k")).await.unwrap();
}

#[tokio::test]
async fn a_name_that_nobody_knows_is_passing() {
    passing(store("redis://nobody.invalid").open().await, &["cannot look up nobody.invalid"]);
    passing(store("redis+unix:///nowhere/redis.sock").open().await, &["cannot connect"]);
}

/// redisLocker: many keys by one object.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_tasks_make_one_connection() {
    let server = Server::start(Flavor::Redis82);
    // A thousand calls of scripts that are not loaded yet may take more than half a second on a
    // busy machine.
    let store = store(&format!("{}?call-limit=10s", server.url()));
    let made = || info(&server, "stats", "total_connections_received");
    let before = made();
    let tasks: Vec<_> = (0..1000)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let ours = attempt(&[&format!("k{n}")]);
                granted(grant(&store, &ours).await);
                assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let looking = 1;
    assert_eq!(made() - before - looking, 1);
}

/// A proxy that knows nothing of RESP3, as some do. A server that is full says nothing about that.
#[tokio::test]
async fn a_proxy_without_hello_is_spoken_to_in_resp2_and_that_is_remembered() {
    let unknown = "-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n";
    let full = "-ERR max number of clients reached\r\n";
    for (refusal, speaks_resp2) in [(unknown, true), ("-NOPROTO sorry\r\n", true), (full, false)] {
        let hellos = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&hellos);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while let Some(Ok(line)) = lines.next() {
                    let answer = match &*line {
                        "HELLO" => {
                            counted.fetch_add(1, Ordering::Relaxed);
                            refusal
                        }
                        "TIME" => "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n",
                        "EVALSHA" => "-NOSCRIPT none here\r\n",
                        // The end of the connection, after one answer.
                        "EVAL" => {
                            stream.write_all(b"*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n").unwrap();
                            break;
                        }
                        _ => continue,
                    };
                    stream.write_all(answer.as_bytes()).unwrap();
                }
            }
        });
        let store = store(&format!("redis://127.0.0.1:{port}"));
        for _ in 0..3 {
            assert_eq!(store.open().await.is_ok(), speaks_resp2, "{refusal}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(hellos.load(Ordering::Relaxed), if speaks_resp2 { 1 } else { 3 }, "{refusal}");
    }
}

/// Regression: in RESP2 and from a sentinel, the reason was lost if the server closed the connection right
/// after it, as one that is full does. The error only said that the connection broke.
#[tokio::test]
async fn what_a_server_says_before_it_closes_the_connection_is_reported() {
    for flavor in [Flavor::Redis62, Flavor::Valkey91] {
        let server = Server::start(flavor);
        let others = server.connect().unwrap();
        server.text(&["CONFIG", "SET", "maxclients", "1"]);
        for url in [
            server.url(),
            format!("{}?protocol=resp2", server.url()),
            server.url().replace("redis:", "redis+sentinel:") + "/locks",
        ] {
            for _ in 0..5 {
                passing(store(&url).open().await, &["max number of clients reached"]);
            }
        }
        drop(others);
    }
}
