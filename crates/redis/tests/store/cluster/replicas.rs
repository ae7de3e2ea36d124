//! Leases on a cluster that count only when the owner's replica has them.

use std::slice::from_ref;
use std::time::Duration;

use leasehold_core::{
    Attempt, GrantAnswer, HoldAnswer, Holder, InspectStore as _, Store, Successor, TransferStore as _, Ttl,
    WaitMode, Wake,
};
use leasehold_redis::ClusterStore;
use leasehold_redis::slot::slot_of;
use servers::{Cluster, Flavor, Reply, Server};

use crate::queue::{until, until_answered};
use crate::replicas::linked;
use crate::world::{attempt, cluster_store, granted, passing};

/// The master that owns `k`, and its replica, which are in touch.
pub(super) async fn pair(cluster: &Cluster) -> (&Server, &Server) {
    let owner = cluster.owner(slot_of(b"k"));
    let replica = replica(cluster, owner);
    linked(owner, replica).await;
    (owner, replica)
}

/// Makes the replica of the owner of `k` the master.
pub(super) fn take_over(cluster: &Cluster, replica: &Server) {
    assert_eq!(replica.text(&["CLUSTER", "FAILOVER", "TAKEOVER"]), Reply::Simple("OK".into()));
    cluster.wait_until("all know of it", || cluster.all_know(slot_of(b"k"), replica));
}

pub(super) fn replica<'a>(cluster: &'a Cluster, owner: &Server) -> &'a Server {
    let follows = |server: &&Server| {
        let info = server.text(&["INFO", "replication"]);
        let port = format!("master_port:{}", owner.port());
        info.as_text().is_some_and(|info| info.lines().any(|line| line == port))
    };
    cluster.nodes().iter().find(follows).expect("each master has a replica")
}

fn store(cluster: &Cluster, query: &str) -> ClusterStore {
    cluster_store(&format!("{}?{query}", cluster.url()))
}

/// Regression: a cluster's store accepted `replicas` in the URL and ignored it.
#[tokio::test]
async fn a_lease_counts_when_the_owners_replica_has_it() {
    let cluster = Cluster::start(Flavor::Valkey91, 3, 1);
    pair(&cluster).await;
    let patient = store(&cluster, "replicas=1&call-limit=10s&replicas-limit=2s");
    let ours = attempt(&["k"]);
    granted(patient.grant(&ours, WaitMode::Try).await);
    assert_eq!(patient.renew(from_ref(&ours)).await, [Ok(HoldAnswer::Done)]);
    patient.release(&ours).await.unwrap();

    let too_many = store(&cluster, "replicas=2");
    let words = ["1 of 2 replicas", "within 250ms", "does not count"];
    passing(too_many.grant(&ours, WaitMode::Try).await, &words);
    passing(too_many.renew(from_ref(&ours)).await.remove(0), &words);
    too_many.give_up(&ours).await.unwrap();
    assert!(too_many.inspect(ours.claim.first_key()).await.unwrap().holders.is_empty());
}

/// A hand-over does not wait for replicas.
#[tokio::test]
async fn a_lock_that_is_handed_over_on_a_cluster_is_asked_for_once_more() {
    let cluster = Cluster::start(Flavor::Redis82, 3, 1);
    let (owner, replica) = pair(&cluster).await;
    let (here, there) =
        (store(&cluster, ""), store(&cluster, "replicas=1&call-limit=10s&replicas-limit=500ms"));
    let [holder, next] = [(); 2].map(|()| attempt(&["k"]));
    granted(here.grant(&holder, WaitMode::Try).await);
    let wait = WaitMode::Wait { queue_limit: None };
    let stands = there.grant(&next, wait).await.unwrap();
    assert!(matches!(stands, GrantAnswer::Busy { place: Some(_), .. }), "{stands:?}");
    replica.stop();
    here.release(&holder).await.unwrap();
    assert_eq!(there.woken(&next).await, Wake::AskAgain);
    passing(there.grant(&next, wait).await, &["0 of 1 replicas"]);
    replica.cont();
    linked(owner, replica).await;
    granted(Ok(until_answered(Duration::from_secs(5), || there.grant(&next, wait)).await));
    there.release(&next).await.unwrap();
}

/// Regression: a master that became a replica refuses to confirm a transfer, and that counted as if
/// it had refused the transfer itself. So the new master was asked for the same, where the successor
/// already held the lock, and the answer was that the lock was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_that_was_not_confirmed_before_a_failover_is_unknown_and_not_refused() {
    let cluster = Cluster::start(Flavor::Redis82, 3, 1);
    let (owner, replica) = pair(&cluster).await;
    let ours = attempt(&["k"]);
    // A request may be repeated for a quarter of this.
    let ours = Attempt::new(ours.claim, ours.holder, None, Ttl::new(Duration::from_secs(120)).unwrap());
    granted(store(&cluster, "").grant(&ours, WaitMode::Try).await);
    let transfers = store(&cluster, "replicas=2&call-limit=30s&replicas-limit=20s");
    let successor = Successor { holder: Holder::from_bits(7), label: None };
    let transferred = tokio::spawn({
        let (ours, successor) = (ours.clone(), successor.clone());
        async move { transfers.transfer(&ours, &successor).await }
    });
    until("it waits for replicas", Duration::from_secs(5), || {
        owner.text(&["CLIENT", "LIST"]).as_text().is_some_and(|list| list.contains("cmd=wait"))
    })
    .await;
    assert_eq!(replica.text(&["CLUSTER", "FAILOVER", "TAKEOVER"]), Reply::Simple("OK".into()));
    passing(transferred.await.unwrap(), &["has just become a replica"]);
    let again = ours.by(successor.holder);
    let as_successor = || async { store(&cluster, "").transfer(&again, &successor).await };
    until_answered(Duration::from_secs(5), as_successor).await;
}

/// Nothing else is asked, which would find the new master. The first renewals come before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_renewed_at_the_replica_that_replaced_its_master() {
    let cluster = Cluster::start(Flavor::Redis70, 3, 1);
    let (owner, replica) = pair(&cluster).await;
    let ours = attempt(&["k"]);
    granted(store(&cluster, "replicas=1&call-limit=10s&replicas-limit=2s").grant(&ours, WaitMode::Try).await);
    let keeps = store(&cluster, "");
    assert_eq!(keeps.renew(from_ref(&ours)).await, [Ok(HoldAnswer::Done)]);
    owner.kill_9();
    let others = || cluster.nodes().iter().filter(|node| node.port() != owner.port());
    let asked = || others().map(|node| node.calls("cluster|slots")).sum::<u64>();
    for _ in 0..2 {
        let before = asked();
        passing(keeps.renew(from_ref(&ours)).await.remove(0), &[&owner.port().to_string()]);
        until("the owners are asked for", Duration::from_secs(5), || asked() > before).await;
    }
    take_over(&cluster, replica);
    until_answered(Duration::from_secs(5), || async { keeps.renew(from_ref(&ours)).await.remove(0) }).await;
}
