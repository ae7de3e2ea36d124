//! A server as a member of a quorum: what it promises over restarts, lost data and late requests.

use std::sync::Arc;
use std::task::{Context, Wake as Woken, Waker};
use std::time::{Duration, Instant};

use leasehold_core::{
    AdminStore as _, Attempt, BreakAnswer, Claim, Fault, FaultKind, Fence, GrantAnswer, HoldAnswer,
    InspectStore as _, MemberStore as _, Proposal, RaiseAnswer, Store, Ttl, Wake,
};
use leasehold_redis::RedisStore;
use servers::{Flavor, Reply, Server};

use crate::lent::lent;
use crate::queue::{WAIT, until};
use crate::queue_order::SOON;
use crate::replicas::{pair, patient_and_not};
use crate::settling::{arrives, cut_off, given_up_as_it_arrives};
use crate::world::{
    a_minute_later, as_user, attempt, breaking, claiming, grant, granted, key, lasting, passing, runtime,
    started_with, store, value,
};

/// As short as a quorum's longest ttl may be.
const MAX_TTL: Duration = Fence::LEAST_MAX_TTL;

/// The time for which a member that may have forgotten leases abstains.
const QUARANTINE: Duration = Duration::from_secs(6);

/// An attempt of a quorum, with a fence that its clock gives.
fn proposing(keys: &[&str]) -> Attempt {
    at_fence(&attempt(keys), clock())
}

fn clock() -> u64 {
    u64::try_from(runtime().since_epoch().as_micros()).unwrap()
}

fn at_fence(attempt: &Attempt, fence: u64) -> Attempt {
    let proposal = Proposal { fence: Fence::new(fence).unwrap(), max_ttl: Ttl::new(MAX_TTL).unwrap() };
    attempt.with_ttl(Ttl::new(Duration::from_secs(2)).unwrap()).at_member(attempt.holder, proposal)
}

async fn rejoin(store: &RedisStore, attempt: &Attempt) -> Result<HoldAnswer, Fault> {
    store.rejoin(std::slice::from_ref(attempt)).await.pop().unwrap()
}

/// Asks until the quarantine is over, and says how long that was. Everything else but a release is
/// refused meanwhile, too.
async fn sits_it_out(store: &RedisStore) -> Duration {
    let begun = Instant::now();
    loop {
        let ours = proposing(&["k"]);
        match grant(store, &ours).await {
            Ok(GrantAnswer::Granted { .. }) => {
                store.release(&ours).await.unwrap();
                return begun.elapsed();
            }
            Err(fault) if fault.kind == FaultKind::Quarantined => {
                let why = "s more (first use, or restarted without its state)";
                assert!(fault.reason.contains(why), "{fault}");
                let nearly_over = begun.elapsed() + Duration::from_millis(500) > QUARANTINE;
                for refused in [rejoin(store, &ours).await.err(), store.raise(&ours).await.err()] {
                    let kind = refused.map(|fault| fault.kind);
                    assert!(kind == Some(FaultKind::Quarantined) || nearly_over, "{kind:?}");
                }
                let batch = store.serve_batch(&[&ours], &[]).await.unwrap();
                assert!(batch.granted == [None] || nearly_over, "{batch:?}");
                store.release(&ours).await.unwrap();
            }
            // The connection broke, and the next call opens a new one.
            Err(fault) if fault.kind == FaultKind::Passing => {}
            other => panic!("{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A store at a member that votes, as if its first quarantine had been a minute ago.
async fn voting(server: &Server) -> RedisStore {
    let store = store(&server.url());
    let fault = grant(&store, &proposing(&["k"])).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Quarantined, "{fault}");
    a_minute_later(server);
    assert!(sits_it_out(&store).await < Duration::from_secs(1));
    store
}

/// From the first contact on, and a little longer for the connection to be made.
#[track_caller]
fn was_whole(quarantine: Duration) {
    assert!(quarantine + Duration::from_millis(100) > QUARANTINE, "only {quarantine:?}");
    assert!(quarantine < QUARANTINE + Duration::from_secs(4), "{quarantine:?}");
}

/// Its append-only file lacks the grants of the last second.
#[tokio::test]
async fn a_server_restarted_with_most_of_its_state_abstains_too() {
    let server = Server::setup(Flavor::Redis70).append_only().start();
    let store = voting(&server).await;
    let ours = proposing(&["k"]);
    granted(grant(&store, &ours).await);
    server.restart();
    assert!(value(&server, "leasehold:member").is_some(), "it knows that another run vouched for its leases");
    was_whole(sits_it_out(&store).await);
}

#[tokio::test]
async fn a_server_that_was_flushed_abstains() {
    for flush in ["FLUSHALL", "FLUSHDB"] {
        let server = Server::start(Flavor::Redis62);
        let store = voting(&server).await;
        server.text(&[flush]);
        was_whole(sits_it_out(&store).await);
    }
}

/// It has everything that its master sent, which may be less than what its master answered.
#[tokio::test]
async fn a_replica_that_was_promoted_abstains() {
    let (master, replica) = pair(Flavor::Redis82).await;
    voting(&master).await;
    let has_it = || value(&replica, "leasehold:member").is_some();
    until("the replica has it", Duration::from_secs(10), has_it).await;
    let there = store(&replica.url());
    passing(grant(&there, &proposing(&["k"])).await, &["replica"]);
    replica.text(&["REPLICAOF", "NO", "ONE"]);
    was_whole(sits_it_out(&there).await);
}

/// A replica that is promoted without it would vote as if it had never been said.
#[tokio::test]
async fn whatever_a_member_grants_raises_or_keeps_counts_only_when_its_replica_has_it() {
    for flavor in Flavor::ALL {
        let (master, replica) = pair(flavor).await;
        let [patient, store] = patient_and_not(&master);
        let longest = Ttl::new(MAX_TTL).unwrap();
        let [ours, alone, together] =
            ["k", "alone", "together"].map(|key| proposing(&[key]).with_ttl(longest));
        granted(grant(&patient, &ours).await);
        store.open().await.unwrap();
        replica.stop();
        let words = ["0 of 1 replicas", "does not count"];
        passing(store.raise(&at_fence(&ours, clock()).with_ttl(longest)).await, &words);
        passing(rejoin(&store, &ours).await, &words);
        passing(grant(&store, &alone).await, &words);
        passing(store.serve_batch(&[&together], &[]).await, &words);
        replica.cont();
    }
}

/// Regression: a release that was served together with a grant which no replica confirmed was
/// reported as failed, although a release needs no confirmation and was done.
#[tokio::test]
async fn a_release_in_a_batch_counts_whether_or_not_a_replica_confirms_the_grants() {
    let (master, replica) = pair(Flavor::Redis82).await;
    let [patient, store] = patient_and_not(&master);
    let [ours, next] = ["k", "l"].map(|key| proposing(&[key]));
    granted(grant(&patient, &ours).await);
    store.open().await.unwrap();
    replica.stop();
    let served = store.serve_batch(&[&next], &[&ours]).await.unwrap();
    assert_eq!((served.granted, served.released), (vec![None], vec![true]));
    assert_eq!(value(&master, "k"), None);
    passing(grant(&store, &next).await, &["0 of 1 replicas", "does not count"]);
    replica.cont();
}

#[tokio::test]
async fn a_server_that_writes_everything_down_at_once_needs_no_quarantine() {
    let server = Server::setup(Flavor::Redis82).append_only().arg("appendfsync", "always").start();
    let store = store(&format!("{}?quarantine=no", server.url()));
    assert!(store.warnings().concat().contains("appendfsync always"), "{:?}", store.warnings());
    let ours = proposing(&["k"]);
    let fence = granted(grant(&store, &ours).await);
    server.kill_9();
    server.restart();
    let begun = Instant::now();
    while rejoin(&store, &ours).await != Ok(HoldAnswer::Done) {
        assert!(begun.elapsed() < Duration::from_secs(1), "it holds what it held");
    }
    store.release(&ours).await.unwrap();
    let next = at_fence(&attempt(&["k"]), fence.get() - 1000);
    assert_eq!(granted(grant(&store, &next).await).get(), fence.get() + 1);
    assert_eq!(value(&server, "leasehold:member"), None, "others judge for themselves");
}

/// A break names no proposal. It hands the key over all the same, and its waiter must not get a
/// fence that is below the last one of the key here.
#[tokio::test]
async fn a_break_at_a_member_counts_the_fences_of_the_key() {
    for flavor in Flavor::ALL {
        let (server, store) = started_with(flavor, "quarantine=no");
        store.as_member().unwrap();
        let (ours, next) = (proposing(&["x:a"]), at_fence(&attempt(&["x:a"]), clock()));
        granted(grant(&store, &ours).await);
        store.grant(&next, WAIT).await.unwrap();
        // Ahead of the clock: only counting leads above it.
        let ahead = store.raise(&at_fence(&ours, clock() + 1_900_000)).await.unwrap();
        let RaiseAnswer::Raised { fence } = ahead else { panic!("{flavor}: {ahead:?}") };
        let broken = store.break_lease(&key("x:a"), &breaking(fence)).await.unwrap();
        assert!(matches!(broken, BreakAnswer::Broken { .. }), "{flavor}: {broken:?}");
        let handed = store.inspect(&key("x:a")).await.unwrap().holders;
        assert!(handed[0].fence > Some(fence), "{flavor}: {handed:?} after {fence}");
        let names = server.keys("leasehold:[cf]*");
        assert!(names.len() == 1 && names[0].starts_with("leasehold:f{"), "{flavor}: {names:?}");
    }
}

/// It was sent and cancelled, and its connection dropped: for almost half a second it may still be
/// executed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn giving_up_waits_for_a_rejoin_that_was_cut_off_and_undoes_it() {
    let (server, store) = started_with(Flavor::Redis70, "quarantine=no");
    let ours = proposing(&["k"]);
    granted(grant(&store, &ours).await);
    server.text(&["DEL", "k"]);
    cut_off(&server, &store, rejoin(&store, &ours)).await;
    given_up_as_it_arrives(&server, &store, &ours).await;
}

/// As a release alone does: a request of the attempt was cut off, and may be executed after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_in_a_batch_comes_again_by_itself_after_a_grant_that_was_cut_off() {
    let (server, store) = started_with(Flavor::Redis82, "quarantine=no");
    let ours = proposing(&["k"]);
    granted(grant(&store, &ours).await);
    cut_off(&server, &store, grant(&store, &ours)).await;
    assert_eq!(store.serve_batch(&[], &[&ours]).await.unwrap().released, [true]);
    arrives(&server, &ours);
    until("it is released again", SOON, || value(&server, "k").is_none()).await;
}

/// A task that counts who may wake it.
struct Task;

impl Woken for Task {
    fn wake(self: Arc<Self>) {}
}

/// Until then the process remembers that it waited, and the task that did.
#[tokio::test]
async fn a_lock_that_was_waited_for_is_forgotten_when_a_batch_releases_it() {
    let (_server, store) = started_with(Flavor::Valkey91, "quarantine=no");
    let [first, next] = [(); 2].map(|()| proposing(&["k"]));
    granted(grant(&store, &first).await);
    store.grant(&next, WAIT).await.unwrap();
    store.release(&first).await.unwrap();
    assert!(matches!(store.woken(&next).await, Wake::Granted { .. }));
    assert_eq!(store.renew(std::slice::from_ref(&next)).await, [Ok(HoldAnswer::Done)]);
    let task = Arc::new(Task);
    let waker = Waker::from(task.clone());
    assert!(store.woken(&next).as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    assert_eq!(Arc::strong_count(&task), 2, "it is remembered");
    assert_eq!(store.serve_batch(&[], &[&next]).await.unwrap().released, [true]);
    assert_eq!(Arc::strong_count(&task), 1);
}

#[tokio::test]
async fn a_ttl_that_is_longer_than_the_longest_is_refused_by_the_server_too() {
    let (server, store) = started_with(Flavor::Redis70, "quarantine=no");
    let long = proposing(&["k"]).with_ttl(Ttl::new(2 * MAX_TTL).unwrap());
    let words = ["a ttl of 10s is longer than the longest of this quorum, 5s", "shorten the ttl"];
    lasting(grant(&store, &long).await, &words);
    lasting(rejoin(&store, &long).await, &words);
    lasting(store.renew(std::slice::from_ref(&long)).await.pop().unwrap(), &words);
    assert_eq!(server.text(&["DBSIZE"]), Reply::Integer(0));
}

/// A server with two names counts once.
#[tokio::test]
async fn a_server_tells_who_it_is_however_it_is_named() {
    let (server, other) = (Server::start(Flavor::Valkey91), Server::start(Flavor::Valkey91));
    let urls = [server.url(), format!("redis://localhost:{}/3", server.port()), other.url()];
    let mut known = Vec::new();
    for url in &urls {
        let store = store(url);
        assert_eq!(store.identity(), None, "nobody asked yet");
        grant(&store, &proposing(&["k"])).await.unwrap_err();
        known.push(store.identity().unwrap());
    }
    assert!(known[0] == known[1] && known[0] != known[2], "{known:?}");
    let alone = store(&urls[0]);
    granted(grant(&alone, &attempt(&["k"])).await);
    assert_eq!(alone.identity(), None, "only members are asked");
}

#[tokio::test]
async fn a_server_that_does_not_say_which_run_it_is_and_a_lent_connection_are_no_members() {
    let server = Server::setup(Flavor::Redis70).acl_user("blind", "on >secret ~* &* +@all -info").start();
    let url = as_user(&server, "blind");
    for url in [url.clone(), format!("{url}?quarantine=no")] {
        let store = store(&url);
        lasting(grant(&store, &proposing(&["k"])).await, &["user blind", "+info"]);
        lasting(rejoin(&store, &proposing(&["k"])).await, &["user blind", "+info"]);
        assert_eq!(value(&server, "k"), None, "nothing is granted there");
        granted(grant(&store, &attempt(&["k"])).await);
        server.text(&["DEL", "k"]);
    }
    let lent = lent(&server).await;
    lasting(grant(&lent, &proposing(&["k"])).await, &["lent", "URL"]);
    lasting(rejoin(&lent, &proposing(&["k"])).await, &["lent", "URL"]);
}

/// Regression: a member that has missed an answer is asked to rejoin instead of to renew, and for that
/// the script first wrote the lease. A server whose memory is full refused that, although it renews
/// leases. So a lease was lost once a majority had missed an answer.
#[tokio::test]
async fn a_member_whose_memory_is_full_lets_a_holder_rejoin_that_it_knows() {
    for flavor in Flavor::ALL {
        let (server, store) = started_with(flavor, "quarantine=no");
        store.as_member().unwrap();
        let reads = claiming(Claim::shared([key("k")]).unwrap());
        for ours in [proposing(&["k"]), proposing(&["a", "b"]), at_fence(&reads, clock())] {
            granted(grant(&store, &ours).await);
            server.text(&["CONFIG", "SET", "maxmemory", "1"]);
            assert_eq!(rejoin(&store, &ours).await, Ok(HoldAnswer::Done), "{flavor}: {ours:?}");
            lasting(rejoin(&store, &proposing(&["other"])).await, &["maxmemory"]);
            server.text(&["CONFIG", "SET", "maxmemory", "0"]);
            assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done), "{flavor}");
        }
    }
}
