//! What a server refuses, and values of later versions: the same on every server, in both protocols,
//! and through a socket.

use std::collections::BTreeSet;
use std::slice::from_ref;
use std::time::Duration;

use leasehold_core::{GrantAnswer, HoldAnswer, MarkStore as _, Store, Ttl, WaitMode};
use leasehold_redis::RedisStore;
use servers::{Flavor, Server};

use crate::queue::until;
use crate::world::{attempt, grant, granted, key, lasting, passing, store, value};

async fn another_value_than_a_mark_is_named(server: &Server, store: &RedisStore) {
    for strange in [&["SET", "leasehold:m{a}a", "yesterday"][..], &["RPUSH", "leasehold:m{a}a", "1"]] {
        server.text(&["DEL", "leasehold:m{a}a"]);
        server.text(strange);
        lasting(store.marked(&key("a")).await, &["leasehold:m{a}a", "not a mark"]);
    }
    // Regression: it was deleted, and the answer was that there was none.
    server.text(&["DEL", "leasehold:m{a}a"]);
    server.text(&["SET", "leasehold:m{a}a", "yesterday"]);
    lasting(store.forget(&key("a")).await, &["leasehold:m{a}a", "was not a mark", "was deleted"]);
    assert_eq!(store.forget(&key("a")).await, Ok(None));
    server.text(&["FLUSHALL"]);
}

/// A value with flags of a later version is a lease, and is marked without losing them.
async fn reserved_flags_are_ours(server: &Server, store: &RedisStore) {
    let ours = attempt(&["k"]);
    let value_of = |flag, fence| Some(format!("lh1{flag}{}.{fence} web-3", ours.holder.digits()));
    server.text(&["SET", "k", &format!("lh1+{} web-3", ours.holder.digits()), "PX", "60000"]);
    assert!(matches!(grant(store, &attempt(&["k"])).await, Ok(GrantAnswer::Busy { .. })));
    let fence = granted(grant(store, &ours).await);
    assert_eq!(value(server, "k"), value_of('+', fence));
    assert_eq!(store.renew(from_ref(&ours)).await, [Ok(HoldAnswer::Done)]);
    assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
    server.text(&["SET", "k", &format!("lh1?{}", ours.holder.digits()), "PX", "60000"]);
    let fence = granted(grant(store, &ours).await);
    assert_eq!(value(server, "k"), value_of('-', fence));
    store.give_up(&ours).await.unwrap();
}

async fn a_full_server_refuses_grants_and_serves_the_rest(server: &Server, store: &RedisStore) {
    let [ours, other] = [attempt(&["k"]), attempt(&["other"])];
    granted(grant(store, &ours).await);
    server.text(&["CONFIG", "SET", "maxmemory", "1"]);
    lasting(grant(store, &other).await, &["maxmemory"]);
    assert_eq!(store.renew(from_ref(&ours)).await, [Ok(HoldAnswer::Done)]);
    assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
    server.text(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!((value(server, "k"), value(server, "other")), (None, None));
}

/// The ids of all connections but the test's own.
fn connections(server: &Server) -> BTreeSet<String> {
    let list = server.text(&["CLIENT", "LIST", "TYPE", "normal"]);
    let others = list.as_text().unwrap().lines().filter(|line| !line.contains(" cmd=client"));
    others.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

async fn a_replica_refuses_in_passing(server: &Server, store: &RedisStore) {
    let ours = attempt(&["k"]);
    granted(grant(store, &ours).await);
    // The first is requested in a batch, and the second is not.
    for keys in [&["free"][..], &["free", "other"]] {
        let before = connections(server);
        assert!(!before.is_empty(), "nothing could be dropped");
        server.text(&["REPLICAOF", "127.0.0.1", "1"]);
        passing(grant(store, &attempt(keys)).await, &["replica"]);
        let is_dropped = || connections(server).is_disjoint(&before);
        until("the next connection may lead to the master", Duration::from_secs(5), is_dropped).await;
        server.text(&["REPLICAOF", "NO", "ONE"]);
        assert_eq!(store.renew(from_ref(&ours)).await, [Ok(HoldAnswer::Done)]);
    }
    server.text(&["REPLICAOF", "127.0.0.1", "1"]);
    passing(grant(store, &attempt(&["free"])).await, &["replica"]);
    passing(store.renew(&[ours.with_ttl(Ttl::DEFAULT)]).await.remove(0), &["replica"]);
    passing(store.release(&ours).await, &["replica"]);
    server.text(&["REPLICAOF", "NO", "ONE"]);
    store.give_up(&ours).await.unwrap();
}

/// Regression: the remedy was to delete what somebody else had written next to the key.
#[tokio::test]
async fn a_server_on_which_a_command_of_the_scripts_is_renamed_says_so() {
    for flavor in Flavor::DOWNLOADED {
        let server = Server::setup(flavor).arg("rename-command", "ZADD OTHER").start();
        let store = store(&server.url());
        let ours = attempt(&["k"]);
        granted(grant(&store, &ours).await);
        let waits = store.grant(&attempt(&["k"]), WaitMode::Wait { queue_limit: None }).await;
        lasting(waits, &["lacks a command", "renames"]);
        assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done), "{flavor}");
    }
}

#[tokio::test]
async fn every_server_serves_at_each_of_its_addresses() {
    for flavor in Flavor::ALL {
        let server = Server::setup(flavor).unix_socket().start();
        let socket = server.unix_path();
        let urls = [
            server.url(),
            format!("{}/3?protocol=resp2", server.url()),
            format!("{}?protocol=resp3", server.url()),
            format!("redis+unix://{}?protocol=resp2", socket.display()),
            format!("redis+unix://{}", socket.display()),
        ];
        for url in urls {
            let store = store(&url);
            if url.contains("/3?") {
                // Another database, which the test's own connection does not use.
                let ours = attempt(&["k"]);
                granted(grant(&store, &ours).await);
                assert_eq!(value(&server, "k"), None);
                store.give_up(&ours).await.unwrap();
                continue;
            }
            another_value_than_a_mark_is_named(&server, &store).await;
            reserved_flags_are_ours(&server, &store).await;
            a_full_server_refuses_grants_and_serves_the_rest(&server, &store).await;
            a_replica_refuses_in_passing(&server, &store).await;
        }
    }
}
