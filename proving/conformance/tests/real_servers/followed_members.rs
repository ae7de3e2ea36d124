//! Members of a quorum that are several servers: a cluster, and the master that sentinels name.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::{AnyStore, Guard, LockError, Locks, Misuse};
use leasehold_redis::slot::{SLOTS, member_key_in, slot_of};
use servers::{Cluster, Flavor, Reply, Server, Watched};

const SECOND: Duration = Duration::from_secs(1);

/// The smallest allowed, so that members abstain for at most this and a second.
const MAX_TTL: Duration = Duration::from_secs(5);

/// With a hash tag and without, and some that look like one.
const NAMES: [&[u8]; 6] = [b"plain", b"{order:7}:stock", b"{}", b"{", b"a}b{c", b"\xff\0{x"];

/// A quorum of two servers and a member that is followed wherever it is.
fn quorum(one: &Server, followed: &str, other: &Server) -> Locks {
    let stores = [&one.url(), followed, &other.url()].map(|url| AnyStore::from_url(url).unwrap());
    Locks::builder().ttl(2 * SECOND).outage_limit(SECOND).quorum(stores, MAX_TTL).unwrap()
}

/// Regression: the cluster refused each such request, and only the two servers granted it.
#[tokio::test]
async fn keys_of_different_slots_are_refused_by_a_quorum_with_a_cluster() {
    let urls = ["redis://127.0.0.1:1", "redis+cluster://127.0.0.1:2", "redis://127.0.0.1:3"];
    let members = urls.map(|url| AnyStore::from_url(url).unwrap());
    let locks = Locks::quorum(members, 60 * SECOND).unwrap();
    let refused = locks.mutex_all(["a", "b"]).lock().await.unwrap_err();
    assert!(matches!(refused, LockError::Misuse(Misuse::KeysApart { .. })), "{refused:?}");
}

async fn granted(locks: &Locks, name: &[u8]) -> Guard {
    let end = Instant::now() + 30 * SECOND;
    loop {
        match locks.mutex(name).lock().await {
            Ok(guard) => return guard,
            Err(error) => assert!(Instant::now() < end, "{}: {error}", name.escape_ascii()),
        }
    }
}

/// Checks that a majority cannot be reached for this reason.
#[track_caller]
fn is_kept_back(asked: Result<Option<Guard>, LockError>, why: &str) {
    let error = asked.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }) && error.to_string().contains(why), "{error}");
}

fn has(cluster: &Cluster, name: &[u8]) -> bool {
    cluster.owner(slot_of(name)).command(&[b"EXISTS", name]) == Reply::Integer(1)
}

/// The number of slots that the nodes vouch for, or abstain for.
fn vouched(cluster: &Cluster) -> i64 {
    let of = |server: &Server| match server.text(&["DBSIZE"]) {
        Reply::Integer(keys) => keys,
        other => panic!("{other:?}"),
    };
    cluster.nodes().iter().map(of).sum()
}

async fn votes_once_it_has_abstained(flavor: Flavor) {
    let (one, other) = (Server::start(Flavor::Redis82), Server::start(Flavor::Valkey91));
    let cluster = Cluster::start(flavor, 3, 0);
    let locks = quorum(&one, &cluster.url(), &other);
    is_kept_back(locks.mutex("plain").try_lock().await, "quarantined");
    // One question per node is enough for all of its slots.
    for name in [&b"plain"[..], b"b", b"c", b"d", b"e", b"f"] {
        let _ = locks.mutex(name).try_lock().await;
    }
    cluster.wait_until("every slot is on its way", || vouched(&cluster) >= i64::from(SLOTS));
    drop(granted(&locks, b"plain").await);
    tokio::time::sleep(SECOND).await;

    // From here on, the cluster's vote decides, also for names that nobody asked for before.
    other.stop();
    let mut last = 0;
    for name in NAMES {
        let guard = granted(&locks, name).await;
        assert!(has(&cluster, name), "{flavor}: {} is not in the cluster", name.escape_ascii());
        // For two TTLs, which requires renewals at both.
        if name == b"{}" {
            tokio::time::sleep(5 * SECOND).await;
            assert!(guard.is_held() && has(&cluster, name), "{flavor}: not renewed");
        }
        let fence = guard.fence().get();
        guard.release().await.unwrap();
        let next = locks.mutex(name).lock().await.unwrap();
        assert!(next.fence().get() > fence, "{flavor}: {} after {fence}", next.fence());
        last = next.fence().get().max(last);
        next.release().await.unwrap();
        assert!(!has(&cluster, name), "{flavor}: {} is left", name.escape_ascii());
    }
    // Queued at the first member, and granted by both.
    let guard = locks.mutex("plain").lock().await.unwrap();
    let waiter = locks.clone();
    let waits = tokio::spawn(async move { waiter.mutex("plain").lock().within(20 * SECOND).await });
    cluster.wait_until("the waiter is queued", || one.keys("leasehold:l*plain").len() == 1);
    let fence = guard.fence();
    guard.release().await.unwrap();
    let next = waits.await.unwrap().unwrap();
    assert!(next.fence() > fence && next.fence().get() > last, "{flavor}");
    next.release().await.unwrap();
    other.cont();
    assert!(vouched(&cluster) >= i64::from(SLOTS), "{flavor}: a marker was lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_votes_once_it_has_abstained_for_all_of_its_slots_together_on_6_2() {
    votes_once_it_has_abstained(Flavor::Redis62).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_votes_once_it_has_abstained_for_all_of_its_slots_together_on_7_0() {
    votes_once_it_has_abstained(Flavor::Redis70).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_votes_once_it_has_abstained_for_all_of_its_slots_together_on_9_1() {
    votes_once_it_has_abstained(Flavor::Valkey91).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lost_its_data_abstains_for_what_it_may_have_forgotten() {
    let (one, other) = (Server::start(Flavor::Redis82), Server::start(Flavor::Valkey91));
    let cluster = Cluster::start(Flavor::Redis70, 3, 0);
    let locks = quorum(&one, &cluster.url(), &other);
    let guard = granted(&locks, b"plain").await;
    cluster.wait_until("the cluster has it too", || has(&cluster, b"plain"));
    let fence = guard.fence();
    let node = cluster.owner(slot_of(b"plain"));
    node.text(&["FLUSHALL"]);
    // The two others hold it, so the node that forgot it cannot grant it to anybody.
    other.stop();
    let rival = quorum(&one, &cluster.url(), &other);
    one.text(&["DEL", "plain"]);
    is_kept_back(rival.mutex("plain").try_lock().await, "quarantined");
    other.cont();
    drop(guard);
    other.stop();
    let forgot = Instant::now();
    let next = granted(&rival, b"plain").await;
    assert!(forgot.elapsed() > 3 * SECOND, "it abstained for {:?}", forgot.elapsed());
    assert!(next.fence() > fence);
    next.release().await.unwrap();
    other.cont();
}

/// Data that came from another node counts as forgotten, because it may be incomplete.
#[tokio::test(flavor = "multi_thread")]
async fn moving_slots_lose_no_lock_and_are_vouched_for_again() {
    let (one, other) = (Server::start(Flavor::Redis82), Server::start(Flavor::Valkey91));
    let cluster = Arc::new(Cluster::start(Flavor::Redis70, 3, 0));
    let locks = quorum(&one, &cluster.url(), &other);
    let guard = granted(&locks, b"plain").await;
    cluster.wait_until("the cluster has it too", || has(&cluster, b"plain"));
    let slot = slot_of(b"plain");
    let before = cluster.owner(slot).port();
    let mover = cluster.clone();
    tokio::task::spawn_blocking(move || mover.hand_over(slot, mover.other(slot))).await.unwrap();
    assert_ne!(cluster.owner(slot).port(), before);
    let fence = guard.fence();
    for _ in 0..40 {
        assert!(guard.is_held(), "lost while its slot moved");
        tokio::time::sleep(SECOND / 10).await;
    }
    guard.release().await.unwrap();
    let next = granted(&locks, b"plain").await;
    assert!(next.fence() > fence);
    next.release().await.unwrap();
    // It votes at its new place, too.
    cluster.wait_until("the new owner vouches for it", || {
        let said = cluster.owner(slot).text(&["GET", &member_key_in(slot)]);
        said.as_text().is_some_and(|vouches| !vouches.contains(' ')) || {
            let runtime = tokio::runtime::Handle::current();
            let _ = tokio::task::block_in_place(|| runtime.block_on(locks.mutex("plain").try_lock()));
            false
        }
    });
    other.stop();
    let last = granted(&locks, b"plain").await;
    assert!(has(&cluster, b"plain"));
    last.release().await.unwrap();
    other.cont();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_down_is_one_member_that_is_down() {
    let (one, other) = (Server::start(Flavor::Redis82), Server::start(Flavor::Valkey91));
    let cluster = Cluster::start(Flavor::Redis70, 3, 0);
    let locks = quorum(&one, &cluster.url(), &other);
    granted(&locks, b"plain").await.release().await.unwrap();
    cluster.nodes().iter().for_each(Server::stop);
    for name in NAMES {
        locks.mutex(name).lock().await.unwrap().release().await.unwrap();
    }
    cluster.nodes().iter().for_each(Server::cont);
}

/// Two names look like two members; what their servers say of themselves shows that they are one.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_or_a_cluster_that_is_named_twice_is_refused_before_anything_is_granted() {
    let one = Server::start(Flavor::Redis82);
    let cluster = Cluster::start(Flavor::Redis70, 3, 0);
    let by = |nth: usize| format!("redis+cluster://127.0.0.1:{}", cluster.nodes()[nth].port());
    let again = format!("redis://localhost:{}", one.port());
    for urls in [[one.url(), by(0), by(1)], [one.url(), again, by(0)]] {
        let stores = urls.map(|url| AnyStore::from_url(&url).unwrap());
        let locks = Locks::builder().ttl(2 * SECOND).outage_limit(SECOND).quorum(stores, MAX_TTL).unwrap();
        let end = Instant::now() + 20 * SECOND;
        loop {
            let error = locks.mutex("plain").try_lock().await.unwrap_err();
            if error.to_string().contains("are one server and would be counted twice: name it once") {
                assert!(matches!(error, LockError::Refused { .. }), "{error:?}");
                break;
            }
            assert!(Instant::now() < end, "{error:?}");
        }
    }
}

/// The replica may lack the old master's last grants.
#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_sentinels_promoted_abstains_before_it_votes() {
    let (one, other) = (Server::start(Flavor::Redis82), Server::start(Flavor::Valkey91));
    let watched = Arc::new(Watched::start(Flavor::Redis70));
    let locks = quorum(&one, &watched.url(), &other);
    let guard = granted(&locks, b"plain").await;
    let at_master = |nth: usize| watched.servers[nth].text(&["EXISTS", "plain"]) == Reply::Integer(1);
    let end = Instant::now() + 20 * SECOND;
    while !at_master(0) {
        assert!(Instant::now() < end, "the master never voted");
        tokio::time::sleep(SECOND / 20).await;
    }
    let fence = guard.fence();
    watched.servers[0].kill_9();
    let failing = watched.clone();
    tokio::task::spawn_blocking(move || {
        let end = Instant::now() + 20 * SECOND;
        while !(0..3).all(|sentinel| failing.master_by(sentinel) == 1) {
            assert!(Instant::now() < end, "no failover");
            std::thread::sleep(SECOND / 20);
        }
    })
    .await
    .unwrap();
    assert!(guard.is_held(), "two of three hold it all the while");
    guard.release().await.unwrap();
    other.stop();
    is_kept_back(locks.mutex("plain").try_lock().await, "quarantined");
    let next = granted(&locks, b"plain").await;
    assert!(next.fence() > fence && at_master(1));
    next.release().await.unwrap();
    other.cont();
}
