//! The owners of keys on a cluster, and what happens when they change.

use leasehold_core::{Attempt, Fault, GrantAnswer, HoldAnswer, InspectStore as _, Store, WaitMode};
use leasehold_redis::ClusterStore;
use leasehold_redis::slot::slot_of;
use servers::{Cluster, Flavor};

use crate::world::{attempt, granted, key, runtime};

fn store(url: &str) -> ClusterStore {
    ClusterStore::from_url(url, runtime()).unwrap()
}

async fn grant(store: &ClusterStore, attempt: &Attempt) -> Result<GrantAnswer, Fault> {
    store.grant(attempt, WaitMode::Try).await
}

#[tokio::test]
async fn keys_of_different_slots_are_refused_by_name_before_anything_is_sent() {
    let store = store("redis+cluster://127.0.0.1:1");
    let apart = attempt(&["a", "b", "{a}c"]);
    let misuse = store.admit(&apart.claim).unwrap_err().to_string();
    assert!(misuse.starts_with("a and b lie in different slots") && misuse.contains("{order:7}"), "{misuse}");
    let fault = grant(&store, &apart).await.unwrap_err();
    assert!(fault.is_lasting() && fault.to_string().contains("a and b"), "{fault}");
    assert_eq!(store.admit(&attempt(&["a", "{a}c", "x{a}"]).claim), Ok(()));
}

#[tokio::test]
async fn a_single_server_is_not_taken_for_a_cluster_nor_a_node_for_a_single_server() {
    let server = servers::Server::start(Flavor::Redis70);
    let alone = store(&format!("redis+cluster://127.0.0.1:{}", server.port()));
    let fault = alone.open().await.unwrap_err();
    assert!(fault.is_lasting() && fault.to_string().contains("write redis://"), "{fault}");
    let cluster = Cluster::start(Flavor::Redis70, 3, 0);
    let node = crate::world::store(&cluster.nodes()[0].url());
    let elsewhere = (0..)
        .map(|n| format!("k{n}"))
        .find(|name| cluster.owner(slot_of(name.as_bytes())).port() != cluster.nodes()[0].port());
    let fault = node.grant(&attempt(&[&elsewhere.unwrap()]), WaitMode::Try).await.unwrap_err();
    assert!(fault.is_lasting() && fault.to_string().contains("redis+cluster://"), "{fault}");
}

/// The lease, its fence and its waiters move too, and callers need not know of it.
#[tokio::test]
async fn a_slot_that_moved_is_followed() {
    for flavor in Flavor::ALL {
        let cluster = Cluster::start(flavor, 3, 0);
        let store = store(&cluster.url());
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
