//! Releases that wake the waiters of another library.

use leasehold_core::{Attempt, HoldAnswer, Signal, Store, WaitMode};
use leasehold_redis::slot::slot_of;
use servers::{Cluster, Flavor, Reply, Server};

use crate::login::MINIMAL;
use crate::world::{as_user, attempt, cluster_store, grant, granted, lasting, store};

const SIGNAL: &str = "lock-signal:a";

/// The line of `docs/wire.md` for such users; a test checks that the page has it.
const TO_WAKE: &str = "~lock:* ~lock-signal:* ~leasehold:*}lock:* +lpush";

fn waking(keys: &[&str]) -> Attempt {
    attempt(keys).with_signal(Some(Signal::PythonRedisLock))
}

fn signals(server: &Server) -> i64 {
    server.text(&["LLEN", SIGNAL]).as_integer().unwrap()
}

/// A release that silently wakes nobody would go unnoticed.
#[tokio::test]
async fn a_user_needs_the_documented_permissions_and_is_refused_without_them() {
    assert!(include_str!("../../../../docs/wire.md").contains(TO_WAKE));
    for flavor in Flavor::ALL {
        let rules = format!("{MINIMAL} {TO_WAKE}");
        let without = rules.replace(" ~lock-signal:*", "");
        let server = Server::setup(flavor).acl_user("may", &rules).acl_user("may-not", &without).start();
        let of = |user: &str| store(&as_user(&server, user));
        let (may, may_not) = (of("may"), of("may-not"));
        let ours = waking(&["lock:a"]);
        granted(grant(&may, &ours).await);
        assert_eq!(may.release(&ours).await, Ok(HoldAnswer::Done));
        assert_eq!(signals(&server), 1, "{flavor}");
        let ours = waking(&["lock:a"]);
        granted(grant(&may_not, &ours).await);
        lasting(may_not.release(&ours).await, &["may-not"]);
        assert_eq!(may.release(&ours).await, Ok(HoldAnswer::Done));
    }
}

/// No script can use two slots, neither ours nor python-redis-lock's.
#[tokio::test]
async fn a_cluster_signals_if_a_hash_tag_keeps_the_signal_in_the_slot_of_the_key() {
    let cluster = Cluster::start(Flavor::Valkey91, 3, 0);
    let url = format!("redis+cluster://127.0.0.1:{}", cluster.nodes()[0].port());
    let store = cluster_store(&url);
    store.open().await.unwrap();
    for (name, woken) in [("{order:7}:stock", 1), ("untagged", 0)] {
        let ours = waking(&[&format!("lock:{name}")]);
        granted(store.grant(&ours, WaitMode::Try).await);
        assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done), "{name}");
        let signal = format!("lock-signal:{name}");
        let owner = cluster.owner(slot_of(signal.as_bytes()));
        assert_eq!(owner.text(&["LLEN", &signal]), Reply::Integer(woken), "{name}");
    }
}
