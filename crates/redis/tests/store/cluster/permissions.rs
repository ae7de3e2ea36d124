//! What a user of a cluster must be allowed.

use leasehold_core::{GrantAnswer, HoldAnswer, Manner, Store};
use leasehold_redis::ClusterStore;
use leasehold_redis::slot::slot_of;
use servers::{Cluster, Flavor};

use crate::world::{attempt, granted, runtime};

/// What the manual says, for keys that begin with `app:`.
const USER: &str = "on >secret resetkeys ~app:* ~leasehold:*}app:* resetchannels &leasehold:* -@all +ping +eval +evalsha +get +set +del \
    +exists +pexpire +pexpireat +pttl +time +zadd +zcard +zrange +zrank +zrem +zscore +hdel +hget +hmget +hset +pubsub +publish \
    +subscribe +unsubscribe";
const MORE: &str = "+cluster|slots +asking";

fn store(cluster: &Cluster) -> ClusterStore {
    let url = cluster.url().replacen("://", "://app:secret@", 1);
    ClusterStore::from_url(&url, runtime()).unwrap()
}

#[tokio::test]
async fn the_line_of_the_manual_is_enough_while_a_slot_moves() {
    assert!(include_str!("../../../../../docs/wire.md").contains(MORE), "the manual has another line");
    for flavor in Flavor::ALL {
        let cluster =
            Cluster::start_with(flavor, 3, 0, |setup| setup.acl_user("app", &format!("{USER} {MORE}")));
        let store = store(&cluster);
        store.open().await.unwrap();
        let (held, waits) = (attempt(&["app:k"]), attempt(&["app:k"]));
        granted(store.grant(&held, Manner::Try).await);
        let waiting = store.grant(&waits, Manner::Wait { line_limit: None }).await;
        assert!(matches!(waiting, Ok(GrantAnswer::Busy { place: Some(_), .. })), "{flavor}: {waiting:?}");
        assert_eq!(store.deaf_because(), None, "{flavor}");
        // All that there is has been carried over, and whoever asks is sent to the new place. Some of what it names is at neither, so
        // it is put off there, which it is only if it may say that it asks.
        let slot = slot_of(b"app:k");
        let (from, to) = (cluster.owner(slot), cluster.other(slot));
        cluster.begin(slot, from, to);
        while cluster.carry(slot, from, to) > 0 {}
        let put_off = store.renew(std::slice::from_ref(&held)).await;
        assert!(
            matches!(&put_off[..], [Err(fault)] if fault.to_string().contains("TRYAGAIN")),
            "{flavor}: {put_off:?}"
        );
        cluster.end(slot, from, to);
        assert_eq!(store.renew(std::slice::from_ref(&held)).await, [Ok(HoldAnswer::Done)], "{flavor}");
        assert_eq!(store.give_up(&waits).await, Ok(()), "{flavor}");
        assert_eq!(store.release(&held).await, Ok(HoldAnswer::Done), "{flavor}");
    }
}

#[tokio::test]
async fn who_may_not_ask_for_the_slots_is_told_what_to_allow() {
    let cluster = Cluster::start_with(Flavor::Redis70, 3, 0, |setup| setup.acl_user("app", USER));
    let fault = store(&cluster).open().await.unwrap_err();
    assert!(fault.is_lasting() && fault.to_string().contains("+cluster|slots"), "{fault}");
}
