//! The owners of keys on a cluster, and what happens when they change.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    AdminStore as _, Attempt, Fault, FaultCause, GrantAnswer, HoldAnswer, InspectStore as _, MarkStore as _,
    Store, WaitMode,
};
use leasehold_redis::ClusterStore;
use leasehold_redis::slot::{Side, side_key, slot_of};
use servers::{Cluster, Flavor, Server};

use crate::world::{attempt, breaking, cluster_store, grant, granted, key, mark_of, passing};

/// On a busy machine, a slot takes longer to move than one call may last; then one asks again.
async fn at_last(store: &ClusterStore, attempt: &Attempt) -> Result<GrantAnswer, Fault> {
    for _ in 0..20 {
        match grant(store, attempt).await {
            Err(fault) if !fault.is_lasting() => {}
            answer => return answer,
        }
    }
    grant(store, attempt).await
}

/// A key that this node does not own.
pub(super) fn not_at(cluster: &Cluster, node: &Server) -> String {
    let is_elsewhere = |name: &String| cluster.owner(slot_of(name.as_bytes())).port() != node.port();
    (0..).map(|n| format!("k{n}")).find(is_elsewhere).unwrap()
}

#[tokio::test]
async fn keys_of_different_slots_are_refused_by_name_before_anything_is_sent() {
    let store = cluster_store("redis+cluster://127.0.0.1:1");
    let apart = attempt(&["a", "b", "{a}c"]);
    let misuse = store.admit(&apart.claim).unwrap_err().to_string();
    assert!(misuse.starts_with("a and b lie in different slots") && misuse.contains("{order:7}"), "{misuse}");
    let fault = grant(&store, &apart).await.unwrap_err();
    assert!(fault.is_lasting() && fault.to_string().contains("a and b"), "{fault}");
    assert_eq!(store.admit(&attempt(&["a", "{a}c", "x{a}"]).claim), Ok(()));
}

#[tokio::test]
async fn a_single_server_is_not_taken_for_a_cluster_nor_a_node_for_a_single_server() {
    let server = Server::start(Flavor::Redis70);
    let alone = cluster_store(&format!("redis+cluster://127.0.0.1:{}", server.port()));
    let fault = alone.open().await.unwrap_err();
    assert!(fault.is_lasting() && fault.to_string().contains("write redis://"), "{fault}");
    // A node that is down may be one of a cluster.
    let one_down = cluster_store(&format!("redis+cluster://127.0.0.1:{},127.0.0.1:1", server.port()));
    passing(one_down.open().await, &["no node of the cluster answers", "write redis://", "cannot connect"]);
    let cluster = Cluster::start(Flavor::Redis70, 3, 0);
    let node = crate::world::store(&cluster.nodes()[0].url());
    let fault =
        node.grant(&attempt(&[&not_at(&cluster, &cluster.nodes()[0])]), WaitMode::Try).await.unwrap_err();
    assert!(fault.is_lasting() && fault.to_string().contains("redis+cluster://"), "{fault}");
}

/// Regression: the cluster had answered, but the advice was to see that it runs and can be reached.
#[tokio::test]
async fn a_slot_without_an_owner_is_not_served_rather_than_out_of_reach() {
    let cluster =
        Cluster::start_with(Flavor::Valkey91, 1, 0, |setup| setup.arg("cluster-require-full-coverage", "no"));
    cluster.nodes()[0].text(&["CLUSTER", "DELSLOTS", &slot_of(b"k").to_string()]);
    let fault = grant(&cluster_store(&cluster.url()), &attempt(&["k"])).await.unwrap_err();
    assert!(fault.cause == FaultCause::NotServing && fault.is_unserved(), "{fault:?}");
}

/// Regression: scripts run there until their first write, whose refusal was taken for foreign data next to
/// the key. So a waiter gave its place up, and an operator was told to delete something.
#[tokio::test]
async fn a_cluster_that_serves_only_reads_while_it_is_down_is_not_served() {
    for flavor in [Flavor::Redis62, Flavor::Valkey91] {
        let cluster =
            Cluster::start_with(flavor, 2, 0, |setup| setup.arg("cluster-allow-reads-when-down", "yes"));
        let store = cluster_store(&cluster.url());
        let [node, other] = cluster.nodes() else { panic!("there are two") };
        let name = not_at(&cluster, other);
        granted(grant(&store, &attempt(&[&name])).await);
        other.kill_9();
        let info = || node.text(&["CLUSTER", "INFO"]);
        let is_down = || info().as_text().is_some_and(|info| info.contains("cluster_state:fail"));
        cluster.wait_until("it is down", is_down);
        for names in [&[&*name][..], &[&format!("{{{name}}}a"), &format!("{{{name}}}b")]] {
            let fault = grant(&store, &attempt(names)).await.unwrap_err();
            assert!(fault.cause == FaultCause::NotServing && !fault.is_lasting(), "{flavor}: {fault:?}");
        }
    }
}

/// Regression: nodes that are told to announce host names, and have none, were said to own no slots.
#[tokio::test]
async fn nodes_without_the_host_names_that_they_announce_say_so() {
    let cluster = Cluster::start_with(Flavor::Valkey91, 1, 0, |setup| {
        setup.arg("cluster-preferred-endpoint-type", "hostname")
    });
    passing(cluster_store(&cluster.url()).open().await, &["cluster-announce-hostname"]);
}

/// The lease, its fence and its waiters move too, and callers need not know of it.
#[tokio::test]
async fn a_slot_that_moved_is_followed() {
    for flavor in Flavor::ALL {
        let cluster = Cluster::start(flavor, 3, 0);
        let store = cluster_store(&cluster.url());
        let held = attempt(&["k"]);
        let first = granted(grant(&store, &held).await);
        let slot = slot_of(b"k");
        let to = cluster.other(slot);
        cluster.hand_over(slot, to);
        assert_eq!(store.renew(std::slice::from_ref(&held)).await, [Ok(HoldAnswer::Done)], "{flavor}");
        assert!(matches!(grant(&store, &attempt(&["k"])).await, Ok(GrantAnswer::Busy { .. })));
        cluster.hand_over(slot, cluster.other(slot));
        assert_eq!(store.release(&held).await, Ok(HoldAnswer::Done), "{flavor}");
        cluster.hand_over(slot, cluster.other(slot));
        assert!(granted(grant(&store, &attempt(&["k"])).await) > first, "{flavor}");
        cluster.hand_over(slot, cluster.other(slot));
        assert_eq!(store.inspect(&key("k")).await.unwrap().holders.len(), 1, "{flavor}");
    }
}

/// Those of one key are renewed together, and the one of two keys is not. One lease has not moved. The
/// nodes may name each other by a port alone.
#[tokio::test]
async fn every_lease_of_a_slot_that_moved_is_renewed_by_one_call() {
    let cluster = Cluster::start(Flavor::Valkey91, 3, 0);
    for node in cluster.nodes() {
        node.text(&["CONFIG", "SET", "cluster-preferred-endpoint-type", "unknown-endpoint"]);
    }
    let store = cluster_store(&cluster.url());
    let slot = slot_of(b"k");
    let elsewhere = not_at(&cluster, cluster.owner(slot));
    let leases = [&[&*elsewhere][..], &["{k}1"], &["{k}2"], &["{k}3", "{k}4"]].map(attempt);
    for lease in &leases {
        granted(grant(&store, lease).await);
    }
    cluster.hand_over(slot, cluster.other(slot));
    assert_eq!(store.renew(&leases).await, [(); 4].map(|()| Ok(HoldAnswer::Done)));
}

/// While the keys of a slot are at two nodes, requests wait; then everything works as before.
#[tokio::test]
async fn a_slot_that_is_on_its_way_is_waited_for() {
    for flavor in Flavor::ALL {
        let cluster = Arc::new(Cluster::start(flavor, 3, 0));
        let store = cluster_store(&cluster.url());
        let held = attempt(&["k"]);
        let first = granted(grant(&store, &held).await);
        let slot = slot_of(b"k");
        let (from, to) = (cluster.owner(slot), cluster.other(slot));
        cluster.begin(slot, from, to);
        assert_eq!(cluster.carry(slot, from, to), 1);
        let (from, to) = (from.port(), to.port());
        let moving = cluster.clone();
        let carried = tokio::task::spawn_blocking(move || {
            std::thread::sleep(Duration::from_millis(100));
            let at = |port| moving.nodes().iter().find(|node| node.port() == port).unwrap();
            while moving.carry(slot, at(from), at(to)) > 0 {}
            moving.end(slot, at(from), at(to));
        });
        assert!(matches!(at_last(&store, &attempt(&["k"])).await, Ok(GrantAnswer::Busy { .. })), "{flavor}");
        carried.await.unwrap();
        assert_eq!(store.release(&held).await, Ok(HoldAnswer::Done), "{flavor}");
        assert!(granted(grant(&store, &attempt(&["k"])).await) > first, "{flavor}");
    }
}

/// Their new owner has them, and redirects everybody to the old one, which redirects to the new one.
#[tokio::test]
async fn marks_and_breaks_of_a_slot_that_is_on_its_way_are_listed() {
    for flavor in [Flavor::Redis70, Flavor::Valkey91] {
        let cluster = Cluster::start(flavor, 3, 0);
        let store = cluster_store(&cluster.url());
        let held = attempt(&["k"]);
        let fence = granted(grant(&store, &held).await);
        let mark = mark_of(fence);
        store.mark(&held, &mark, Duration::from_secs(60)).await.unwrap();
        store.break_lease(&key("k"), &breaking(fence)).await.unwrap();
        granted(grant(&store, &attempt(&["k"])).await);
        let slot = slot_of(b"k");
        let (from, to) = (cluster.owner(slot), cluster.other(slot));
        cluster.begin(slot, from, to);
        while cluster.carry(slot, from, to) > 0 {}
        let marks = store.list_marks(b"").await.unwrap();
        assert!(marks.len() == 1 && marks[0].1.mark.as_ref() == Some(&mark), "{flavor}: {marks:?}");
        let breaks = store.list_breaks(b"").await.unwrap();
        assert!(breaks.len() == 1 && breaks[0].fence == fence, "{flavor}: {breaks:?}");
        // To look at a lock takes a script with several keys, which no node runs meanwhile.
        passing(store.list(b"").await, &["the cluster is moving the key"]);
        cluster.end(slot, from, to);
        assert_eq!(store.list(b"").await.unwrap().len(), 1, "{flavor}");
    }
}

/// Each key that the script names is there, so the new owner runs it after `ASKING`.
#[tokio::test]
async fn a_lock_whose_keys_have_all_arrived_is_listed_before_the_slot_has() {
    let cluster = Cluster::start(Flavor::Redis70, 3, 0);
    let store = cluster_store(&cluster.url());
    let (held, waits) = (attempt(&["k"]), attempt(&["k"]));
    granted(grant(&store, &held).await);
    let waiting = store.grant(&waits, WaitMode::Wait { queue_limit: None }).await;
    assert!(matches!(waiting, Ok(GrantAnswer::Busy { place: Some(_), .. })), "{waiting:?}");
    let slot = slot_of(b"k");
    let (from, to) = (cluster.owner(slot), cluster.other(slot));
    // Left from readers.
    let [holders, shares] = [Side::Holders, Side::Shares].map(|side| side_key(side, &key("k")));
    from.command(&[b"ZADD", &holders, b"1", b"x"]);
    from.command(&[b"HSET", &shares, b"x", b"1 - -"]);
    cluster.begin(slot, from, to);
    while cluster.carry(slot, from, to) > 0 {}
    let listed = store.list(b"").await.unwrap();
    let [state] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((state.holders.len(), state.waiters.len()), (1, 1), "{state:?}");
    cluster.end(slot, from, to);
}

/// Regression: the fault of the damaged key was that of all. So a watch of a cluster inspected that key
/// again and again, and never those behind it.
#[tokio::test]
async fn keys_are_inspected_together_although_one_is_damaged() {
    for flavor in [Flavor::Redis62, Flavor::Valkey91] {
        let cluster = Cluster::start(flavor, 3, 0);
        let store = cluster_store(&cluster.url());
        let keys = ["a", "b", "c"].map(key);
        for name in ["a", "b", "c"] {
            granted(grant(&store, &attempt(&[name])).await);
        }
        cluster.owner(slot_of(b"a")).text(&["RPUSH", "leasehold:l{a}a", "x"]);
        let states = store.inspect_all(&keys).await.unwrap();
        let wrong = "leasehold:l{a}a has another type than ours: find out who wrote there, and delete it";
        let damage = states[0].damage.as_ref();
        assert!(damage.is_some_and(|damage| damage.ends_with(wrong)), "{flavor}: {states:?}");
        let seen: Vec<_> = states.iter().map(|state| (state.holders.len(), state.damage.is_some())).collect();
        assert_eq!(seen, [(0, true), (1, false), (1, false)], "{flavor}");
        assert!(store.inspect(&keys[0]).await.is_err(), "{flavor}");
    }
}
