//! The permissions that a user of a cluster needs.

use std::time::Duration;

use leasehold_core::{
    AdminStore as _, Fault, FaultKind, GrantAnswer, HoldAnswer, Remedy, Severity, Store, StoreRole, Ttl,
    WaitMode,
};
use leasehold_redis::ClusterStore;
use leasehold_redis::slot::slot_of;
use servers::{Cluster, Flavor};

use crate::login::MINIMAL;
use crate::queue::until;
use crate::world::{at_member, attempt, cluster_store, granted, passing};

pub(super) const MORE: &str = "+cluster|slots +asking";

pub(super) fn store(cluster: &Cluster) -> ClusterStore {
    let url = cluster.url().replacen("://", "://app:secret@", 1);
    cluster_store(&url)
}

#[tokio::test]
async fn the_acl_rule_of_the_manual_is_enough_while_a_slot_moves() {
    assert!(include_str!("../../../../../docs/wire.md").contains(MORE), "the manual has another line");
    for flavor in Flavor::ALL {
        let cluster =
            Cluster::start_with(flavor, 3, 0, |setup| setup.acl_user("app", &format!("{MINIMAL} {MORE}")));
        let store = store(&cluster);
        store.open().await.unwrap();
        let (held, waits) = (attempt(&["app:k"]), attempt(&["app:k"]));
        granted(store.grant(&held, WaitMode::Try).await);
        let waiting = store.grant(&waits, WaitMode::Wait { queue_limit: None }).await;
        assert!(matches!(waiting, Ok(GrantAnswer::Busy { place: Some(_), .. })), "{flavor}: {waiting:?}");
        assert_eq!(store.push_unavailable(), None, "{flavor}");
        // All existing keys of the slot have moved, so the old node redirects with `ASK`. Some keys
        // that the script names do not exist at either node, so the new node answers `TRYAGAIN`,
        // but only if the user may send `ASKING`.
        let slot = slot_of(b"app:k");
        let (from, to) = (cluster.owner(slot), cluster.other(slot));
        cluster.begin(slot, from, to);
        while cluster.carry(slot, from, to) > 0 {}
        let put_off = store.renew(std::slice::from_ref(&held)).await;
        passing(put_off.into_iter().next().unwrap(), &["TRYAGAIN"]);
        cluster.end(slot, from, to);
        assert_eq!(store.renew(std::slice::from_ref(&held)).await, [Ok(HoldAnswer::Done)], "{flavor}");
        assert_eq!(store.give_up(&waits).await, Ok(()), "{flavor}");
        assert_eq!(store.release(&held).await, Ok(HoldAnswer::Done), "{flavor}");
    }
}

#[tokio::test]
async fn a_user_without_cluster_slots_learns_what_to_allow() {
    let cluster = Cluster::start_with(Flavor::Redis70, 3, 0, |setup| setup.acl_user("app", MINIMAL));
    let fault = store(&cluster).open().await.unwrap_err();
    assert!(fault.is_lasting() && fault.to_string().contains("+cluster|slots"), "{fault}");
    // Regression: the doctor's remedy was to see that the nodes can be reached.
    let findings = store(&cluster).diagnose(StoreRole::Alone).await.findings;
    let [finding] = &findings[..] else { panic!("{findings:#?}") };
    let Remedy::AtServer(mend) = &finding.remedy else { panic!("{finding:?}") };
    assert!(mend.starts_with("ACL SETUSER app ") && mend.ends_with(" +cluster|slots"), "{mend}");
}

/// Each slot has its own member key, and doctor reports a user that may not use it.
#[tokio::test]
async fn the_user_at_a_member_of_a_quorum_needs_the_keys_of_its_slots() {
    let more = "~leasehold:member{*}";
    let in_the_manual = format!("`{more}` in place of `~leasehold:member`");
    assert!(include_str!("../../../../../docs/wire.md").contains(&in_the_manual), "{in_the_manual}");
    let rules = format!("{MINIMAL} {MORE} +info +config|get");
    let cluster = Cluster::start_with(Flavor::Redis82, 3, 0, |setup| setup.acl_user("app", &rules));
    let store = store(&cluster);
    let max_ttl = Ttl::new(Duration::from_secs(60)).unwrap();
    let vote = async || {
        let ours = at_member(&attempt(&["app:k"]));
        let answer: Result<_, Fault> = store.grant(&ours, WaitMode::Try).await;
        answer.unwrap_err()
    };
    let remedies = async || {
        let findings = store.diagnose(StoreRole::Member { max_ttl }).await.findings;
        let bad = findings.into_iter().filter(|f| f.about == "permissions" && f.severity == Severity::Unsafe);
        bad.map(|finding| finding.remedy).collect::<Vec<_>>()
    };
    assert!(vote().await.is_lasting());
    let mend = format!("ACL SETUSER app {more}");
    assert_eq!(remedies().await, vec![Remedy::AtServer(mend.clone()); 3]);
    for node in cluster.nodes() {
        node.text(&mend.split(' ').collect::<Vec<_>>());
    }
    assert_eq!(remedies().await, []);
    let fault = vote().await;
    assert_eq!(fault.kind, FaultKind::Quarantined, "{fault}");
}

/// A renewal may be the first request after a node was restarted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_meets_an_abstaining_node_starts_the_quarantine_of_all_its_slots() {
    let cluster = Cluster::start(Flavor::Redis82, 3, 0);
    let store = cluster_store(&cluster.url());
    let ours = at_member(&attempt(&["k"]));
    let renewed = store.renew(std::slice::from_ref(&ours)).await.remove(0);
    assert!(matches!(&renewed, Err(fault) if fault.kind == FaultKind::Quarantined), "{renewed:?}");
    let owner = cluster.owner(slot_of(b"k"));
    let has_all = || owner.keys("leasehold:member*").len() > 5_000;
    until("all of its slots abstain", Duration::from_secs(20), has_all).await;
}
