//! Whether the nodes can notify waiters.

use std::time::Duration;

use leasehold_core::{AdminStore as _, GrantAnswer, InspectStore as _, Notice, Notices, Store, WaitMode};
use leasehold_redis::slot::slot_of;
use servers::{Cluster, Flavor, Reply};
use tokio::time::timeout;

use super::permissions::{MORE, store};
use super::replicas::replica;
use crate::login::MINIMAL;
use crate::queue::{channels_like, until, until_answered};
use crate::world::{attempt, breaking, cluster_store, grant, granted, key};

async fn next(notices: &mut Box<dyn Notices>) -> Notice {
    timeout(Duration::from_secs(10), notices.next()).await.expect("a notice")
}

/// Regression: the first waiter is refused its subscription before anybody reads notices, and nobody
/// was ever told. And a node that had been reported and then left the cluster, or became a replica,
/// counted as one without push for ever, as in the gauge `leasehold_push_down`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_push_is_reported_and_so_is_that_it_owns_no_slots_any_more() {
    let rules = format!("{MINIMAL} {MORE}").replace(" &leasehold:*", "");
    let cluster = Cluster::start_with(Flavor::Valkey91, 3, 1, |setup| setup.acl_user("app", &rules));
    let store = store(&cluster);
    let (held, waits) = (attempt(&["app:k"]), attempt(&["app:k"]));
    granted(store.grant(&held, WaitMode::Try).await);
    let waiting = store.grant(&waits, WaitMode::Wait { queue_limit: None }).await;
    assert!(matches!(waiting, Ok(GrantAnswer::Busy { place: Some(_), .. })), "{waiting:?}");
    let why = store.push_unavailable().expect("it may not subscribe");
    let mut notices = store.notices().unwrap();
    let told = next(&mut notices).await;
    assert!(matches!(&told, Notice::PushDown { fault } if *fault == why), "{told:?}");

    let slot = slot_of(b"app:k");
    let replica = replica(&cluster, cluster.owner(slot));
    let allowed = replica.text(&["ACL", "SETUSER", "app", "&leasehold:*"]);
    assert_eq!(allowed, Reply::Simple("OK".into()));
    assert_eq!(replica.text(&["CLUSTER", "FAILOVER", "TAKEOVER"]), Reply::Simple("OK".into()));
    cluster.wait_until("all know of it", || cluster.all_know(slot, replica));
    let again = || store.grant(&waits, WaitMode::Wait { queue_limit: None });
    until_answered(Duration::from_secs(10), again).await;
    let told = next(&mut notices).await;
    assert!(matches!(told, Notice::PushBack { .. }), "{told:?}");
    assert_eq!(store.push_unavailable(), None);
}

/// The connections are made after somebody has begun to read notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_reached_later_reports_breaks_too() {
    let cluster = Cluster::start(Flavor::Valkey91, 3, 0);
    let [holder, breaker] = [(); 2].map(|()| cluster_store(&cluster.url()));
    let mut notices = holder.notices().unwrap();
    let ours = attempt(&["k"]);
    let fence = granted(grant(&holder, &ours).await);
    let owner = cluster.owner(slot_of(b"k"));
    let listens = || !channels_like(owner, "leasehold:broken").is_empty();
    until("it listens for breaks", Duration::from_secs(10), listens).await;
    breaker.break_lease(&key("k"), &breaking(fence)).await.unwrap();
    let told = next(&mut notices).await;
    assert!(matches!(told, Notice::Broken { holder } if holder == ours.holder), "{told:?}");
}
