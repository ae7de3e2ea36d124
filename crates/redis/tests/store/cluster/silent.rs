//! Nodes of a cluster that hang, die or leave.

use std::slice::from_ref;
use std::time::{Duration, Instant};

use leasehold_core::{HoldAnswer, InspectStore as _, Store, WaitMode};
use leasehold_redis::slot::slot_of;
use servers::{Cluster, Flavor, Reply, Server};

use super::replicas::{pair, replica, take_over};
use super::slots::not_at;
use crate::queue::{until, until_answered};
use crate::world::{attempt, cluster_store, grant, granted, passing};

/// Regression: each caller asked all nodes anew, after the caller before it had asked them in vain,
/// for six seconds each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_reach_no_node_do_not_wait_for_each_other() {
    let cluster = Cluster::start(Flavor::Valkey91, 3, 0);
    let store = cluster_store(&cluster.url());
    cluster.nodes().iter().for_each(Server::stop);
    let began = Instant::now();
    let callers: Vec<_> = (0..6)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let answer = store.grant(&attempt(&[&format!("k{n}")]), WaitMode::Try).await;
                passing(answer, &["no node of the cluster answers", "no connection within 2s"]);
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let took = began.elapsed();
    cluster.nodes().iter().for_each(Server::cont);
    assert!(took < Duration::from_secs(8), "{took:?}");
    // Later callers ask again.
    until_answered(Duration::from_secs(20), || store.open()).await;
}

/// Regression: the masters were opened one after the other, and each that hung cost two seconds.
#[tokio::test]
async fn masters_that_hang_do_not_delay_the_opening() {
    let cluster = Cluster::start(Flavor::Redis82, 3, 0);
    let mut nodes: Vec<_> = cluster.nodes().iter().collect();
    nodes.sort_by_key(|node| node.port());
    nodes[..2].iter().for_each(|node| node.stop());
    let began = Instant::now();
    let opened = cluster_store(&cluster.url()).open().await;
    let took = began.elapsed();
    nodes[..2].iter().for_each(|node| node.cont());
    opened.unwrap();
    assert!(took < Duration::from_secs(3), "{took:?}");
}

/// Regression: the masters were listed one after the other, and each that hung cost two seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masters_that_hang_delay_a_list_once() {
    let cluster = Cluster::start(Flavor::Valkey91, 4, 0);
    for node in cluster.nodes() {
        // The last one serves also while it cannot reach the others.
        node.text(&["CONFIG", "SET", "cluster-node-timeout", "60000"]);
    }
    let (hanging, [last]) = cluster.nodes().split_at(3) else { panic!("there are four") };
    let is_there = |name: &String| cluster.owner(slot_of(name.as_bytes())).port() == last.port();
    let name = (0..).map(|n| format!("k{n}")).find(is_there).unwrap();
    granted(grant(&cluster_store(&cluster.url()), &attempt(&[&name])).await);
    hanging.iter().for_each(Server::stop);
    let began = Instant::now();
    let listed = cluster_store(&cluster.url()).list_reachable(b"").await;
    let took = began.elapsed();
    hanging.iter().for_each(Server::cont);
    let (listed, faults) = listed.unwrap();
    assert_eq!((listed.len(), faults.len()), (1, 3), "{faults:?}");
    assert!(took < Duration::from_secs(4), "{took:?}");
}

/// Regression: it cost two seconds.
#[tokio::test]
async fn a_node_that_hangs_does_not_delay_requests_to_others() {
    let cluster = Cluster::start(Flavor::Redis82, 3, 0);
    let store = cluster_store(&cluster.url());
    let named_first = &cluster.nodes()[0];
    named_first.stop();
    // The last slots are at the last node.
    let name = (0..).map(|n| format!("k{n}")).find(|name| slot_of(name.as_bytes()) > 12_000).unwrap();
    let began = Instant::now();
    granted(store.grant(&attempt(&[&name]), WaitMode::Try).await);
    let took = began.elapsed();
    named_first.cont();
    assert!(took < Duration::from_secs(1), "{took:?}");
}

/// Regression: the leases were renewed one after the other, each half a second after the one before.
/// And the limit in the error was `499.998137ms`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_that_find_no_owner_fail_within_one_call() {
    let cluster = Cluster::start(Flavor::Redis70, 3, 0);
    let store = cluster_store(&cluster.url());
    cluster.nodes().iter().for_each(Server::stop);
    let leases: Vec<_> = (0..6).map(|n| attempt(&[&format!("k{n}")])).collect();
    let began = Instant::now();
    let renewed = store.renew(&leases).await;
    let took = began.elapsed();
    cluster.nodes().iter().for_each(Server::cont);
    for answer in renewed {
        passing(answer, &["no answer within 500ms"]);
    }
    assert!(took < Duration::from_secs(1), "{took:?}");
}

/// Regression: the limit for all nodes ended before that of the call to one node, which begins after
/// the request has been made, and then a connection without answers was not dropped. With many leases
/// this was so at each renewal: behind a connection that had broken unnoticed, leases were lost
/// although their node could be reached.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_on_which_renewals_have_no_answer_is_dropped() {
    let cluster = Cluster::start(Flavor::Valkey91, 3, 0);
    let store = cluster_store(&cluster.url());
    let leases: Vec<_> = (0..3_000).map(|n| attempt(&[&format!("{{k}}{n}")])).collect();
    granted(store.grant(&leases[0], WaitMode::Try).await);
    let owner = cluster.owner(slot_of(b"k"));
    let ours = || {
        let clients = owner.text(&["CLIENT", "LIST"]);
        // The nodes' own connections use RESP2.
        let ours = |line: &&str| line.contains(" resp=3 ");
        clients
            .as_text()
            .expect("a list of clients")
            .lines()
            .find(ours)
            .map(|line| line.split(' ').next().map(str::to_owned))
    };
    let before = ours();
    owner.stop();
    let unanswered = store.renew(&leases).await;
    owner.cont();
    assert!(unanswered.iter().all(Result::is_err));
    assert_eq!(store.renew(&leases[..1]).await, [Ok(HoldAnswer::Done)]);
    until("it uses another one", Duration::from_secs(5), || ours() != before).await;
}

/// Regression: a node that had left the cluster, and is still in the URL, said that no slot has an
/// owner.
#[tokio::test]
async fn a_node_that_has_left_the_cluster_is_passed_over() {
    for flavor in [Flavor::Redis62, Flavor::Valkey91] {
        let cluster = Cluster::start(flavor, 3, 0);
        let left = Server::setup(flavor).arg("cluster-enabled", "yes").start();
        let alone = format!("redis+cluster://127.0.0.1:{}", left.port());
        let url = cluster.url().replace("://", &format!("://127.0.0.1:{},", left.port()));
        cluster_store(&url).open().await.unwrap();
        let store = cluster_store(&url);
        granted(store.grant(&attempt(&["k"]), WaitMode::Try).await);
        let answer = cluster_store(&alone).open().await;
        passing(answer, &["no slots", "give the cluster's slots to nodes"]);
    }
}

/// Regression: when the node died to which a process was connected, the next one of the cluster and those
/// of the URL were asked in turn. One that had joined another cluster named its own nodes, and a lock
/// that was held here was granted there, too.
#[tokio::test]
async fn a_node_that_has_joined_another_cluster_is_not_asked_before_those_of_this_one() {
    let (cluster, other) = (Cluster::start(Flavor::Valkey91, 3, 0), Cluster::start(Flavor::Valkey91, 1, 0));
    // Opening a store connects to the first node, by its address.
    let first = cluster.nodes().iter().min_by_key(|node| node.port().to_string()).unwrap();
    let is_there = |name: &String| cluster.owner(slot_of(name.as_bytes())).port() == first.port();
    let name = (0..).map(|n| format!("k{n}")).find(is_there).unwrap();
    let ports = [first.port(), other.nodes()[0].port()];
    let url = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
    let store = cluster_store(&format!("redis+cluster://{url}"));
    let ours = attempt(&[&name]);
    granted(store.grant(&ours, WaitMode::Try).await);
    // Then it would be the turn of the last of the four.
    for _ in 0..2 {
        store.open().await.unwrap();
    }
    first.kill_9();
    for _ in 0..3 {
        let answer = store.grant(&attempt(&[&name]), WaitMode::Try).await;
        assert!(answer.is_err(), "{answer:?}");
    }
}

/// Regression: the node with the only connection was asked first which node owns a slot. If it was cut
/// off from the other nodes, but not from here, it named itself each time, and refused each request: no
/// new process found the node that had replaced it, and a holder lost its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_cut_off_from_the_others_does_not_hide_the_one_that_replaced_it() {
    // Later versions tell each other to forget a node, too.
    for flavor in [Flavor::Redis62, Flavor::Redis70] {
        let cluster = Cluster::start(flavor, 3, 1);
        let (owner, replica) = pair(&cluster).await;
        let others: Vec<_> = cluster.nodes().iter().filter(|node| node.port() != owner.port()).collect();
        let urls = others.iter().map(|node| format!("127.0.0.1:{}", node.port()));
        let url =
            format!("redis+cluster://127.0.0.1:{},{}", owner.port(), urls.collect::<Vec<_>>().join(","));
        let elsewhere = not_at(&cluster, owner);
        let ours = attempt(&["k"]);
        // The replica has it, too.
        let patient = cluster_store(&format!("{url}?replicas=1&call-limit=10s&replicas-limit=5s"));
        granted(patient.grant(&ours, WaitMode::Try).await);
        let holds = cluster_store(&url);
        assert_eq!(holds.renew(from_ref(&ours)).await, [Ok(HoldAnswer::Done)]);
        // It knows none of the others any more, and ignores what they say.
        for other in &others {
            let id = other.text(&["CLUSTER", "MYID"]);
            owner.text(&["CLUSTER", "FORGET", id.as_text().unwrap()]);
        }
        assert_eq!(replica.text(&["CLUSTER", "FAILOVER", "TAKEOVER"]), Reply::Simple("OK".into()));
        let info = || owner.text(&["CLUSTER", "INFO"]);
        let is_down = || info().as_text().is_some_and(|info| info.contains("cluster_state:fail"));
        cluster.wait_until("it refuses requests", is_down);
        let limit = Duration::from_secs(3);
        let renewed = || async { holds.renew(from_ref(&ours)).await.remove(0) };
        assert_eq!(until_answered(limit, renewed).await, HoldAnswer::Done, "{flavor}");
        // One is of its former slots, and the other is of a slot whose owner it does not know.
        for name in ["{k}other", &*elsewhere] {
            let (store, attempt) = (cluster_store(&url), attempt(&[name]));
            granted(Ok(until_answered(limit, || store.grant(&attempt, WaitMode::Try)).await));
        }
    }
}

/// Regression: the first request after a failover failed, however long ago that was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_request_after_a_failover_is_made_at_the_new_master() {
    let cluster = Cluster::start(Flavor::Redis70, 3, 1);
    let store = cluster_store(&cluster.url());
    let first = attempt(&["k"]);
    granted(store.grant(&first, WaitMode::Try).await);
    store.release(&first).await.unwrap();
    let owner = cluster.owner(slot_of(b"k"));
    let replica = replica(&cluster, owner);
    owner.kill_9();
    take_over(&cluster, replica);
    let mut answer = store.grant(&attempt(&["k"]), WaitMode::Try).await;
    // On a busy machine, the task that reads from the connection may learn only now that it is closed.
    // A request on a connection that breaks is not sent again by the store.
    if answer.as_ref().is_err_and(|fault| fault.reason.contains("the connection broke")) {
        answer = store.grant(&attempt(&["k"]), WaitMode::Try).await;
    }
    granted(answer);
}

/// It may be a replica from now on, or leave.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connection_to_a_node_that_owns_no_slots_any_more_is_closed() {
    let cluster = Cluster::start(Flavor::Valkey91, 3, 1);
    let store = cluster_store(&cluster.url());
    granted(store.grant(&attempt(&["k"]), WaitMode::Try).await);
    let owner = cluster.owner(slot_of(b"k"));
    // The nodes' own connections use RESP2.
    let is_connected = || {
        let clients = owner.text(&["CLIENT", "LIST"]);
        clients.as_text().expect("a list of clients").contains(" resp=3 ")
    };
    assert!(is_connected());
    take_over(&cluster, replica(&cluster, owner));
    granted(store.grant(&attempt(&["{k}other"]), WaitMode::Try).await);
    until("it is closed", Duration::from_secs(5), || !is_connected()).await;
}

/// Regression: a request that waited for a connection to the old master did so for two seconds,
/// whoever had replaced it meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_replaces_a_master_that_hangs_is_found_within_a_second() {
    let cluster = Cluster::start(Flavor::Valkey91, 3, 1);
    for node in cluster.nodes() {
        // The replica takes over when it is told to, and not before.
        node.text(&["CONFIG", "SET", "cluster-node-timeout", "60000"]);
    }
    let store = cluster_store(&cluster.url());
    let ours = attempt(&["k"]);
    granted(store.grant(&ours, WaitMode::Try).await);
    store.release(&ours).await.unwrap();
    let owner = cluster.owner(slot_of(b"k"));
    let replica = replica(&cluster, owner);
    owner.stop();
    passing(store.grant(&ours, WaitMode::Try).await, &["no answer within 500ms"]);
    let asks = tokio::spawn(async move { store.grant(&ours, WaitMode::Try).await });
    // It waits for a connection now.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let began = Instant::now();
    assert_eq!(replica.text(&["CLUSTER", "FAILOVER", "TAKEOVER"]), Reply::Simple("OK".into()));
    let answer = asks.await.unwrap();
    let took = began.elapsed();
    owner.cont();
    granted(answer);
    assert!(took < Duration::from_secs(1), "{took:?}");
}
