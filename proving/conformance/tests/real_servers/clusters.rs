//! Locks on a cluster while its slots move and its masters die.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::{AnyStore, Locks};
use leasehold_redis::slot::{slot_of, tag};
use servers::{Cluster, Flavor, Reply, Server};
use tokio::task::{JoinHandle, JoinSet};

const SECOND: Duration = Duration::from_secs(1);

/// With a hash tag and without, and some that look like one.
const NAMES: [&[u8]; 6] = [b"plain", b"{order:7}:stock", b"{}", b"{", b"a}b{c", b"\xff\0{x"];

/// Defines the tests of a scenario: its name on each of these flavors.
macro_rules! on_each {
    ($scenario:ident: $($test:ident on $flavor:ident,)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            $scenario(Flavor::$flavor).await;
        })+
    };
}

async fn locks(cluster: &Cluster) -> Locks {
    Locks::builder().ttl(10 * SECOND).connect(&cluster.url()).await.unwrap()
}

/// For each key, whether somebody holds it, and the greatest fence so far.
#[derive(Default)]
struct Ledger(Mutex<HashMap<Vec<u8>, (bool, u64)>>);

impl Ledger {
    fn enter(&self, name: &[u8], fence: u64) {
        let mut keys = self.0.lock().unwrap();
        let (inside, last) = keys.entry(name.to_vec()).or_default();
        assert!(!*inside, "two were inside of {}", name.escape_ascii());
        assert!(fence > *last, "{}: {fence} after {last}", name.escape_ascii());
        (*inside, *last) = (true, fence);
    }

    fn leave(&self, name: &[u8]) {
        self.0.lock().unwrap().get_mut(name).unwrap().0 = false;
    }
}

/// How often the nodes were sent certain commands, not counting those that scripts call.
fn asked(cluster: &Cluster, commands: &[&str]) -> u64 {
    cluster.nodes().iter().flat_map(|node| commands.iter().map(|command| node.calls(command))).sum()
}

fn texts(reply: &Reply) -> Vec<String> {
    let Reply::Array(Some(items)) = reply else { panic!("{reply:?}") };
    items.iter().filter_map(Reply::as_text).map(ToOwned::to_owned).collect()
}

/// A task that acquires `k`, tells it, and releases it; it joins the queue as this one.
fn joins(cluster: &Cluster, locks: &Locks, nth: i64, tell: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let request = locks.mutex("k").lock().within(8 * SECOND);
    let task = tokio::spawn(async move {
        let guard = request.await.unwrap();
        tell();
        guard.release().await.unwrap();
    });
    let slot = slot_of(b"k");
    let queue = format!("leasehold:l{{{}}}k", tag(slot));
    cluster.wait_until("the waiter is queued", || {
        cluster.owner(slot).text(&["ZCARD", &queue]) == Reply::Integer(nth)
    });
    task
}

/// Key by key with pauses, and all at once: requests meanwhile wait a little, without an error.
async fn slots_move_under_load(flavor: Flavor) {
    let cluster = Arc::new(Cluster::start(flavor, 3, 0));
    let ledger = Arc::new(Ledger::default());
    let over = Arc::new(AtomicBool::new(false));
    let grants = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let locks = locks(&cluster).await;
        for nth in 0..NAMES.len() * 2 {
            let (locks, ledger, over, grants) = (locks.clone(), ledger.clone(), over.clone(), grants.clone());
            tasks.spawn(async move {
                let name = NAMES[nth % NAMES.len()];
                while !over.load(Ordering::SeqCst) {
                    let guard = locks.mutex(name).lock().within(10 * SECOND).await.unwrap();
                    ledger.enter(name, guard.fence().get());
                    grants.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    ledger.leave(name);
                    guard.release().await.unwrap();
                }
            });
        }
    }
    let mover = cluster.clone();
    let moved = tokio::task::spawn_blocking(move || {
        for round in 0..30 {
            let slot = slot_of(NAMES[round % NAMES.len()]);
            let (from, to) = (mover.owner(slot), mover.other(slot));
            mover.begin(slot, from, to);
            while mover.carry(slot, from, to) > 0 {
                if round % 2 == 0 {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            mover.end(slot, from, to);
        }
    });
    moved.await.unwrap();
    let at_the_end = grants.load(Ordering::SeqCst);
    // All continue afterwards.
    tokio::time::sleep(SECOND).await;
    assert!(grants.load(Ordering::SeqCst) > at_the_end + 50, "{flavor}: they stand still");
    assert!(at_the_end > 100, "{flavor}: {at_the_end} grants are no load");
    over.store(true, Ordering::SeqCst);
    tasks.join_all().await;
}

on_each! { slots_move_under_load:
    moving_slots_under_load_cause_no_error_on_5_0 on Redis50,
    moving_slots_under_load_cause_no_error_on_6_2 on Redis62,
    moving_slots_under_load_cause_no_error_on_7_0 on Redis70,
    moving_slots_under_load_cause_no_error_on_9_1 on Valkey91,
}

/// Free or queued, an acquisition costs a grant and a release, and finding the owner nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquisition_takes_two_commands() {
    const EACH: u64 = 100;
    let cluster = Cluster::start(Flavor::Redis70, 3, 0);
    let locks = locks(&cluster).await;
    let cycle = async |name: &'static [u8]| {
        let guard = locks.mutex(name).lock().within(30 * SECOND).await.unwrap();
        guard.release().await.unwrap();
    };
    for name in NAMES {
        cycle(name).await;
    }
    // Its first held lock subscribes a process to breaks at every node: not counted below.
    let guard = locks.mutex("plain").lock().await.unwrap();
    let nodes = cluster.nodes().len() as u64;
    cluster.wait_until("it listens at every node", || asked(&cluster, &["subscribe"]) == nodes);
    guard.release().await.unwrap();
    let ours = ["evalsha", "eval", "ping", "asking", "cluster|slots", "subscribe", "hello"];
    let before = asked(&cluster, &ours);
    for _ in 0..EACH {
        for name in NAMES {
            cycle(name).await;
        }
    }
    let asked_for = asked(&cluster, &ours) - before;
    assert_eq!(asked_for, 2 * EACH * NAMES.len() as u64, "commands while nobody waits");

    let contend = async |each: u64| {
        let mut tasks = JoinSet::new();
        for _ in 0..4 {
            let locks = locks.clone();
            tasks.spawn(async move {
                for _ in 0..each {
                    let guard = locks.mutex("plain").lock().within(30 * SECOND).await.unwrap();
                    guard.release().await.unwrap();
                }
            });
        }
        tasks.join_all().await;
    };
    // The first contention changes how a process asks, and sends the node the scripts for a queue.
    contend(2).await;
    let before = asked(&cluster, &["evalsha", "eval"]);
    contend(EACH).await;
    let asked_for = asked(&cluster, &["evalsha", "eval"]) - before;
    // The first request that must wait asks twice, and a repeated request may fall into this time.
    assert!(asked_for <= 2 * 4 * EACH + 8, "{asked_for} commands for {} acquisitions", 4 * EACH);
}

/// The queue moves with its slot, but nobody is subscribed at the new node.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_found_again_when_the_slot_has_moved() {
    for flavor in [Flavor::Redis62, Flavor::Redis70, Flavor::Valkey91] {
        let cluster = Cluster::start(flavor, 3, 0);
        let (here, there) = (locks(&cluster).await, locks(&cluster).await);
        let guard = here.mutex("k").lock().await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiters = Vec::new();
        for n in 0..3 {
            let order = order.clone();
            waiters.push(joins(&cluster, &there, n + 1, move || order.lock().unwrap().push(n)));
        }
        let slot = slot_of(b"k");
        cluster.hand_over(slot, cluster.other(slot));
        let owner = cluster.owner(slot);
        cluster.wait_until("all who wait listen at the new place", || {
            let listens = texts(&owner.text(&["PUBSUB", "CHANNELS", "leasehold:*"]));
            let stands = texts(&owner.text(&["HVALS", &format!("leasehold:w{{{}}}k", tag(slot))]));
            let heard = |waiter: &&String| listens.iter().any(|channel| waiter.contains(channel));
            stands.iter().filter(heard).count() == 3
        });
        let released = Instant::now();
        guard.release().await.unwrap();
        for waiter in waiters {
            waiter.await.unwrap();
        }
        assert!(released.elapsed() < SECOND, "{flavor}: {:?}", released.elapsed());
        assert_eq!(*order.lock().unwrap(), [0, 1, 2], "{flavor}: in the order in which they came");
    }
}

/// The same when the lock is released before anybody has noticed.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_was_skipped_because_the_slot_moved_gets_its_turn_soon() {
    let cluster = Cluster::start(Flavor::Redis70, 3, 0);
    let (here, there) = (locks(&cluster).await, locks(&cluster).await);
    let guard = here.mutex("k").lock().await.unwrap();
    let waits = joins(&cluster, &there, 1, || ());
    let slot = slot_of(b"k");
    cluster.hand_over(slot, cluster.other(slot));
    let released = Instant::now();
    guard.release().await.unwrap();
    waits.await.unwrap();
    assert!(released.elapsed() < SECOND, "{:?}", released.elapsed());
}

/// During the move neither node has all of a key; requests meanwhile are executed at the new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_released_while_its_slot_moves_is_handed_on_when_it_is_there() {
    for (flavor, waiting) in [
        (Flavor::Redis62, 1),
        (Flavor::Redis70, 1),
        (Flavor::Redis70, 2),
        (Flavor::Redis82, 1),
        (Flavor::Valkey91, 1),
    ] {
        let cluster = Cluster::start(flavor, 3, 0);
        let (here, there) = (locks(&cluster).await, locks(&cluster).await);
        let slot = slot_of(b"k");
        let guard = here.mutex("k").lock().await.unwrap();
        let waiters: Vec<_> = (1..=waiting).map(|n| joins(&cluster, &there, n, || ())).collect();
        let (from, to) = (cluster.owner(slot), cluster.other(slot));
        cluster.begin(slot, from, to);
        let released = tokio::spawn(guard.release());
        while cluster.carry(slot, from, to) > 0 {}
        cluster.end(slot, from, to);
        released.await.unwrap().unwrap_or_else(|error| panic!("{flavor}, {waiting} waiting: {error}"));
        for waiter in waiters {
            waiter.await.unwrap();
        }
    }
}

/// A renewal waits for every node, but for none so long that leases at another end.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stops_costs_no_lease_at_the_others() {
    let configure = |setup: servers::Setup| setup.arg("cluster-require-full-coverage", "no");
    let cluster = Cluster::start_with(Flavor::Redis70, 3, 0, configure);
    let locks = Locks::builder().ttl(2 * SECOND).connect(&cluster.url()).await.unwrap();
    let mut guards = Vec::new();
    for n in 0..12 {
        let name = format!("k{n}");
        let at = cluster.owner(slot_of(name.as_bytes())).port();
        guards.push((at, locks.mutex(name).lock().await.unwrap()));
    }
    let stopped = &cluster.nodes()[1];
    stopped.stop();
    let (there, elsewhere): (Vec<_>, Vec<_>) = guards.into_iter().partition(|(at, _)| *at == stopped.port());
    assert!(there.len() > 1 && elsewhere.len() > 4);
    for (_, guard) in &there {
        guard.lost().await;
    }
    // Two TTLs more.
    let until = Instant::now() + 4 * SECOND;
    while Instant::now() < until {
        for (at, guard) in &elsewhere {
            assert!(guard.is_held(), "lost at {at}: {:?}", guard.remaining());
        }
        tokio::time::sleep(SECOND / 20).await;
    }
    stopped.cont();
    for (_, guard) in elsewhere {
        guard.release().await.unwrap();
    }
}

/// The replica takes over in the cluster's time; the lease is there if it was replicated.
async fn a_master_dies(flavor: Flavor) {
    let cluster = Arc::new(Cluster::start(flavor, 3, 1));
    let (here, there) = (locks(&cluster).await, locks(&cluster).await);
    let slot = slot_of(b"k");
    let ledger = Arc::new(Ledger::default());
    let longest = Arc::new(Mutex::new(Duration::ZERO));
    let over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for n in 0..6 {
        let locks = if n % 2 == 0 { here.clone() } else { there.clone() };
        let (ledger, longest, over) = (ledger.clone(), longest.clone(), over.clone());
        tasks.spawn(async move {
            while !over.load(Ordering::SeqCst) {
                let begun = Instant::now();
                let guard = locks.mutex("k").lock().within(20 * SECOND).await.unwrap();
                let mut longest = longest.lock().unwrap();
                *longest = (*longest).max(begun.elapsed());
                drop(longest);
                // The dead master's last holder may be forgotten; so only the fences are checked.
                ledger.enter(b"k", guard.fence().get());
                ledger.leave(b"k");
                drop(guard);
            }
        });
    }
    let grants = || {
        let ledger = ledger.0.lock().unwrap();
        ledger.get(&b"k"[..]).map_or(0, |(_, last)| *last)
    };
    cluster.wait_until("all are at work", || grants() > 0);
    let dying = cluster.clone();
    tokio::task::spawn_blocking(move || {
        let old = dying.owner(slot).port();
        dying.nodes().iter().find(|node| node.port() == old).unwrap().kill_9();
        dying.wait_until("the replica is promoted", || {
            dying.owner_now(slot).is_some_and(|owner| owner.port() != old)
        });
    })
    .await
    .unwrap();
    let promoted = Instant::now();
    let guard = here.mutex("k").lock().within(20 * SECOND).await.unwrap();
    let waited = promoted.elapsed();
    let last = guard.fence().get();
    guard.release().await.unwrap();
    cluster.wait_until("all are at work again", || grants() > last);
    over.store(true, Ordering::SeqCst);
    tasks.join_all().await;
    eprintln!("{flavor}: {waited:?} after the promotion; the longest wait {:?}", longest.lock().unwrap());
    assert!(waited < 3 * SECOND, "{flavor}: {waited:?} after the promotion");
}

on_each! { a_master_dies:
    a_replica_in_its_masters_place_is_found_on_5_0 on Redis50,
    a_replica_in_its_masters_place_is_found_on_6_2 on Redis62,
    a_replica_in_its_masters_place_is_found_on_7_0 on Redis70,
    a_replica_in_its_masters_place_is_found_on_9_1 on Valkey91,
}

/// Regression: the quorum scanned the cluster's first node again and again, and no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_a_quorum_goes_through_every_node_of_a_cluster_among_its_members() {
    let cluster = Cluster::start(Flavor::Redis70, 3, 0);
    let others = [Flavor::Redis82, Flavor::Valkey91].map(Server::start);
    let urls = [cluster.url(), others[0].url(), others[1].url()];
    let members = urls.map(|url| AnyStore::from_url(&format!("{url}?quarantine=no")).unwrap());
    let locks = Locks::builder().ttl(10 * SECOND).quorum(members, 60 * SECOND).unwrap();
    let mut guards = Vec::new();
    for name in NAMES {
        guards.push(locks.mutex(name).lock().await.unwrap());
    }
    let mut watch = locks.watch("");
    let pass = async {
        while watch.progress().passes == 0 || watch.progress().uninspected > 0 {
            watch.step().await.unwrap();
        }
    };
    tokio::time::timeout(20 * SECOND, pass).await.expect("a pass ends");
    assert_eq!(watch.found().count(), NAMES.len());
    for guard in guards {
        guard.release().await.unwrap();
    }
}
