//! Leases that count only when replicas have them.

use std::slice::from_ref;
use std::time::{Duration, Instant};

use leasehold_core::{
    AdminStore as _, Attempt, Claim, Fault, Fence, HoldAnswer, Holder, MarkStore as _, Store, StoreRole,
    Successor, TransferStore as _,
};
use leasehold_redis::RedisStore;
use servers::{Flavor, Server};

use crate::login::MINIMAL;
use crate::queue::{left_behind, let_go, lock, ttl, until, until_answered, wait_in_line};
use crate::world::{
    as_user, attempt, claiming, grant, granted, key, lasting, mark_of, passing, store, value,
};

/// A master, and its replica, which are in touch.
pub(crate) async fn pair(flavor: Flavor) -> (Server, Server) {
    let setup = || Server::setup(flavor).arg("repl-diskless-sync-delay", "0");
    let master = setup().start();
    let replica = setup().arg("replicaof", &format!("127.0.0.1 {}", master.port())).start();
    linked(&master, &replica).await;
    (master, replica)
}

pub(crate) async fn linked(master: &Server, replica: &Server) {
    let says = |server: &Server, words| {
        server.text(&["INFO", "replication"]).as_text().is_some_and(|info| info.contains(words))
    };
    // The master counts a replica only after its first report.
    let is_up = || says(replica, "master_link_status:up") && says(master, "state=online");
    until("the replica is in touch", Duration::from_secs(10), is_up).await;
}

fn confirmed(master: &Server, query: &str) -> RedisStore {
    store(&format!("{}?replicas=1{query}", master.url()))
}

/// A store that waits for the replica for long, and one that does not. No quorum makes them abstain.
pub(crate) fn patient_and_not(master: &Server) -> [RedisStore; 2] {
    let query = "&quarantine=no&call-limit=10s";
    ["5s", "300ms"].map(|limit| confirmed(master, &format!("{query}&replicas-limit={limit}")))
}

#[tokio::test]
async fn a_grant_counts_when_the_replica_has_it() {
    for flavor in Flavor::ALL {
        let (master, replica) = pair(flavor).await;
        for protocol in ["resp2", "resp3"] {
            // On a busy machine the replica may get no processor time for the default limit.
            let patient = format!("&protocol={protocol}&call-limit=10s&replicas-limit=5s");
            let store = confirmed(&master, &patient);
            let ours = attempt(&["k"]);
            granted(grant(&store, &ours).await);
            assert!(value(&replica, "k").is_some(), "{flavor}: answered, and so it is there");
            assert_eq!(store.renew(from_ref(&ours)).await, [Ok(HoldAnswer::Done)]);
            store.release(&ours).await.unwrap();
        }
    }
}

/// It remains on the server: a repeated request may find it confirmed, and giving up removes it.
#[tokio::test]
async fn a_grant_that_no_replica_confirms_does_not_count_and_can_be_given_up() {
    for flavor in Flavor::ALL {
        let (master, replica) = pair(flavor).await;
        let store = confirmed(&master, "");
        store.open().await.unwrap();
        replica.stop();
        let ours = attempt(&["k"]);
        let words = ["0 of 1 replicas", "within 250ms", "does not count"];
        passing(grant(&store, &ours).await, &words);
        passing(store.renew(from_ref(&ours)).await.remove(0), &words);
        replica.cont();
        granted(Ok(until_answered(Duration::from_secs(5), || grant(&store, &ours)).await));
        assert_eq!(store.renew(from_ref(&ours)).await, [Ok(HoldAnswer::Done)]);
        replica.stop();
        passing(grant(&store, &ours).await, &words);
        store.give_up(&ours).await.unwrap();
        assert_eq!(value(&master, "k"), None);
        replica.cont();
    }
}

/// Regression: a renewal for less time than the lease had left wrote nothing, and `WAIT` on a new
/// connection, which has written nothing, confirmed it at once. No replica had a lease of that length:
/// the renewal that had made it was not confirmed.
#[tokio::test]
async fn a_renewal_for_less_than_is_left_counts_only_when_the_replica_has_it() {
    for flavor in Flavor::ALL {
        let (master, replica) = pair(flavor).await;
        let [patient, store] = patient_and_not(&master);
        let renewed =
            async |ours: &Attempt, ms| store.renew(from_ref(&ours.with_ttl(ttl(ms)))).await.remove(0);
        // The first is renewed in a batch, and the others are not.
        let held = [attempt(&["a"]), attempt(&["b", "c"]), claiming(Claim::shared([key("d")]).unwrap())];
        for ours in &held {
            granted(grant(&patient, ours).await);
        }
        replica.stop();
        for ours in &held {
            passing(renewed(ours, 3_600_000).await, &["0 of 1 replicas"]);
        }
        for ours in &held {
            master.text(&["CLIENT", "KILL", "TYPE", "normal"]);
            // The first one may find out that the connection is gone.
            let first = renewed(ours, 1_800_000).await;
            let second = renewed(ours, 1_800_000).await;
            assert!(first.is_err(), "{flavor}: {first:?}");
            passing(second, &["0 of 1 replicas", "does not count"]);
        }
        replica.cont();
    }
}

/// A replica that is promoted without it would let a second successor have the lock.
#[tokio::test]
async fn a_transfer_counts_only_when_the_replica_has_it() {
    for flavor in Flavor::ALL {
        let (master, replica) = pair(flavor).await;
        let [patient, store] = patient_and_not(&master);
        let ours = attempt(&["k"]);
        granted(grant(&patient, &ours).await);
        let successor = Successor { holder: Holder::from_bits(7), label: None };
        replica.stop();
        let words = ["0 of 1 replicas", "does not count"];
        passing(store.transfer(&ours, &successor).await, &words);
        // A retry cannot know whether the successor has the lock, so it also asks in its name.
        let again = ours.by(successor.holder);
        passing(store.transfer(&again, &successor).await, &words);
        master.text(&["CLIENT", "KILL", "TYPE", "normal"]);
        // The first one may find out that the connection is gone.
        let first = store.transfer(&again, &successor).await;
        assert!(first.is_err(), "{flavor}: {first:?}");
        passing(store.transfer(&again, &successor).await, &words);
        replica.cont();
        assert_eq!(patient.transfer(&again, &successor).await, Ok(HoldAnswer::Done), "{flavor}");
    }
}

/// Regression: a mark counted although no replica had it, so the job was done again after a failover
/// that lost no lease. And `forget` was answered although no replica had forgotten the mark, so after a
/// failover the job counted as done again and was not run. The same went for a second process that
/// repeated it: `WAIT` on a connection that has written nothing confirms at once.
#[tokio::test]
async fn a_mark_counts_only_when_the_replica_has_it_and_is_gone_only_when_it_is_gone_there() {
    for flavor in Flavor::ALL {
        let (master, replica) = pair(flavor).await;
        let [patient, store] = patient_and_not(&master);
        let ours = attempt(&["k"]);
        granted(grant(&patient, &ours).await);
        let (mark, keep) = (mark_of(Fence::MAX), Duration::from_secs(60));
        replica.stop();
        passing(store.mark(&ours, &mark, keep).await, &["0 of 1 replicas", "does not count"]);
        replica.cont();
        assert_eq!(patient.mark(&ours, &mark, keep).await, Ok(HoldAnswer::Done), "{flavor}");
        assert_eq!(replica.keys("leasehold:m*").len(), 1, "{flavor}: answered, and so it is there");
        replica.stop();
        for forgets in [&store, &store, &confirmed(&master, "")] {
            passing(forgets.forget(&key("k")).await, &["0 of 1 replicas", "does not count"]);
        }
        replica.cont();
        assert_eq!(patient.forget(&key("k")).await, Ok(None), "{flavor}: by the first try");
        assert_eq!(replica.keys("leasehold:m*"), [""; 0], "{flavor}: answered, and so it is gone");
    }
}

/// The grant of a hand-over was written on another connection, for which ours cannot ask.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_handed_over_counts_only_when_it_is_confirmed_too() {
    let (master, replica) = pair(Flavor::Redis82).await;
    let (here, there) = (store(&master.url()), confirmed(&master, ""));
    let [holder, first] = [(); 2].map(|()| attempt(&["k"]));
    lock(&here, &holder).await;
    let [waiter] = wait_in_line(&master, [(&there, &first)]).await;
    replica.stop();
    let_go(&here, &holder).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(!waiter.is_finished(), "it is its turn, but no replica knows");
    replica.cont();
    let began = Instant::now();
    waiter.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    there.release(&first).await.unwrap();
}

/// The server blocks the whole connection during a `WAIT`, so concurrent callers must share one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_grants_at_once_wait_for_the_replicas_together() {
    let (master, replica) = pair(Flavor::Valkey91).await;
    let store = confirmed(&master, "&call-limit=10s&replicas-limit=300ms");
    store.open().await.unwrap();
    replica.stop();
    let began = Instant::now();
    let tasks: Vec<_> = (0..100)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { grant(&store, &attempt(&[&format!("k{n}")])).await })
        })
        .collect();
    for task in tasks {
        passing(task.await.unwrap(), &["0 of 1 replicas"]);
    }
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    replica.cont();
}

#[tokio::test]
async fn a_lease_may_have_to_be_on_disk() {
    for flavor in [Flavor::Redis82, Flavor::Valkey91] {
        let server = Server::setup(flavor).append_only().arg("appendfsync", "always").start();
        let on_disk = store(&format!("{}?fsync=yes", server.url()));
        let ours = attempt(&["k"]);
        granted(grant(&on_disk, &ours).await);
        assert_eq!(on_disk.renew(from_ref(&ours)).await, [Ok(HoldAnswer::Done)]);
        let no_file = Server::start(flavor);
        let answer = grant(&store(&format!("{}?fsync=yes", no_file.url())), &attempt(&["k"])).await;
        lasting(answer, &["appendonly"]);
    }
}

/// Regression: the advice was to undo a renaming of commands, or to name sentinels.
#[tokio::test]
async fn a_server_that_is_too_old_to_say_what_is_on_disk_is_named_as_such() {
    let old = Server::start(Flavor::Redis70);
    let store = store(&format!("{}?fsync=yes", old.url()));
    lasting(grant(&store, &attempt(&["k"])).await, &["WAITAOF", "fsync=yes needs", "Redis 7.2"]);
    let findings = store.diagnose(StoreRole::Alone).await.findings;
    let lacks = findings.into_iter().find(|finding| finding.about == "commands").expect("a finding");
    assert!(format!("{:?}", lacks.remedy).contains("Redis 7.2"), "{lacks:?}");
}

/// Regression: the caller of a refused request gives nothing up, so the grant, which the server had
/// executed before it refused to confirm it, kept everybody out for its TTL.
#[tokio::test]
async fn a_grant_that_can_never_be_confirmed_leaves_nothing() {
    let server = Server::setup(Flavor::Valkey91).acl_user("app", &format!("{MINIMAL} ~*")).start();
    let urls = [format!("{}?fsync=yes", server.url()), format!("{}?replicas=1", as_user(&server, "app"))];
    for url in urls {
        // The first is requested in a batch, and the second is not.
        for keys in [&["k"][..], &["k", "other"]] {
            let answer = grant(&store(&url), &attempt(keys)).await;
            assert!(answer.as_ref().is_err_and(Fault::is_lasting), "{url}: {answer:?}");
            assert_eq!(left_behind(&server), [""; 0], "{url}");
        }
    }
}

/// The server's own rule: with fewer replicas it accepts no writes.
#[tokio::test]
async fn too_few_replicas_for_the_server_are_a_refusal_that_leaves_nothing() {
    for flavor in Flavor::ALL {
        let server = Server::setup(flavor).arg("min-replicas-to-write", "1").start();
        let store = store(&server.url());
        let ours = attempt(&["k"]);
        passing(grant(&store, &ours).await, &["too few replicas", "NOREPLICAS"]);
        assert_eq!(value(&server, "k"), None);
        server.text(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
        granted(grant(&store, &ours).await);
    }
}
