//! Readers, writers, permits and claims of several keys, at the same time.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::{Duration, Instant},
};

use faults::{
    Crowd, ParsedHistory,
    history::{self, EventKind},
    judge::left_behind,
    soak::violations_without_faults,
    until,
    worker::follow,
};
use leasehold::{Acquire, Locks};
use servers::Flavor;
use tokio::runtime::Builder;

use crate::scene::{Scene, lasts, worker};

/// The delay that a busy machine may add to any bound.
const BUSY: Duration = Duration::from_secs(2);

/// Each of four processes: readers and writers of one lock, and permits of another.
const WISHES: [&str; 8] = [
    "read doc",
    "read doc",
    "read doc",
    "write doc",
    "permits 1/5 gpus",
    "permits 2/5 gpus",
    "permits 1/5 gpus",
    "permits 4/5 gpus",
];

/// Longer than any of them waits: each of the 32 holds for a few milliseconds.
const IN_TURN: Duration = Duration::from_secs(2);

fn for_a_while() -> Duration {
    lasts(Duration::from_millis(2500), Duration::from_secs(30))
}

#[test]
fn readers_writers_and_permits_of_one_process() {
    let scene = Scene::in_memory();
    let plan = scene.plan().wanting(&WISHES.repeat(4));
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let locks = runtime.block_on(async { Locks::builder().ttl(plan.ttl).connect(&plan.url).await }).unwrap();
    let while_it_lasts = async { tokio::time::sleep(for_a_while()).await };
    runtime.block_on(follow(&plan, &locks, while_it_lasts)).unwrap();
    // The locks themselves see what is left: nobody else sees this process's memory.
    until("nobody holds or waits", Duration::from_secs(4) + BUSY, || {
        let states = ["doc", "gpus"].map(|key| runtime.block_on(locks.inspect(key)).unwrap());
        states.iter().all(|state| state.holders.is_empty() && state.waiters.is_empty())
    });
    all_were_served(&scene);
}

#[test]
fn readers_writers_and_permits_of_four_processes_at_a_file() {
    four_processes(&Scene::on_a_file(), [&WISHES; 4], &["doc", "gpus"]);
}

#[test]
fn readers_writers_and_permits_of_four_processes_at_a_redis() {
    for flavor in [Flavor::Redis62, Flavor::Valkey91] {
        four_processes(&Scene::on(flavor), [&WISHES; 4], &["doc", "gpus"]);
    }
}

servers::tests! {
    /// Each acquires its keys in one order, in whatever order they are named.
    fn takers_of_several_keys_at_a_file() = several_keys(&Scene::on_a_file());
    fn takers_of_several_keys_at_a_redis() = several_keys(&Scene::on(Flavor::Redis82));
}

fn several_keys(scene: &Scene) {
    let [ab, ba, a, b] = ["alone a,b", "alone b,a", "alone a", "alone b"].map(|wish| [wish; 2]);
    four_processes(scene, [&ab, &ba, &a, &b], &["a", "b"]);
}

fn four_processes(scene: &Scene, wishes: [&[&str]; 4], keys: &[&str]) {
    let mut crowd = Crowd::new(scene.plan());
    for wishes in wishes {
        crowd.add_with(worker(), 1, &scene.plan().wanting(wishes));
    }
    thread::sleep(for_a_while());
    crowd.dismiss();
    are_forgotten(scene, &crowd, keys);
    all_were_served(scene);
}

/// Waits until nobody holds or waits any more, and only fences that expire are left.
fn are_forgotten(scene: &Scene, crowd: &Crowd, keys: &[&str]) {
    until("nobody holds or waits", Duration::from_secs(4) + BUSY, || {
        keys.iter().all(|key| crowd.is_forgotten(key))
    });
    let Some(server) = &scene.server else { return };
    assert_eq!(left_behind(server), [""; 0]);
    let left = server.keys("*");
    assert!(left.iter().all(|key| key.starts_with("leasehold:c")), "left behind: {left:?}");
}

fn all_were_served(scene: &Scene) {
    let plan = scene.plan();
    let mut history = history::read(&plan.history);
    // A process that ends says so for each task; what that records after it does not count.
    let mut ended = BTreeSet::new();
    history.retain(|entry| {
        let who = (entry.process, entry.task);
        !ended.contains(&who) && (entry.what != EventKind::Cancelled || ended.insert(who))
    });
    let violations = violations_without_faults(&history, plan.ttl, IN_TURN + BUSY);
    assert!(violations.is_empty(), "{}", violations.join("\n"));
    let failed = history.iter().find(|entry| matches!(entry.what, EventKind::Failed(_)));
    assert_eq!(failed, None);

    let (mut longest, mut times) = (0, BTreeMap::new());
    for span in ParsedHistory::of(&history).spans {
        longest = longest.max(span.granted.map_or(span.over, |(at, _)| at) - span.asks);
        *times.entry((span.process, span.task)).or_insert(0) += u32::from(span.granted.is_some());
    }
    let (longest, least) = (Duration::from_nanos(longest), times.values().min().unwrap());
    println!("the longest wait was {longest:?}, the least served had {least}");
    assert!(longest < IN_TURN + BUSY, "somebody waited for {longest:?}");
    assert!(*least >= 3, "somebody was served {least} times");
}

servers::tests! {
    fn a_killed_processs_share_at_a_file_is_back_at_once() =
        the_share_of_a_killed_process_is_back(&Scene::on_a_file(), Duration::from_secs(1));
    fn a_killed_processs_share_at_a_redis_is_back_after_its_ttl() =
        the_share_of_a_killed_process_is_back(&Scene::on(Flavor::Redis70), Duration::from_secs(2));
}

/// One process has four of five permits, and reads; it is killed. Another has one, and reads on.
fn the_share_of_a_killed_process_is_back(scene: &Scene, within: Duration) {
    let mut plan = scene.plan().wanting(&["permits 4/5 gpus", "read doc"]);
    plan.hold = Duration::from_secs(600);
    let mut crowd = Crowd::new(scene.plan());
    crowd.add_with(worker(), 1, &plan);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let locks = runtime.block_on(Locks::builder().own_thread().connect(&scene.url)).unwrap();
    until("it holds both", Duration::from_secs(5) + BUSY, || {
        ["gpus", "doc"].iter().all(|key| crowd.looks_at(key).holders.len() == 1)
    });
    let (gpus, doc) = (locks.semaphore("gpus", 5), locks.rw_lock("doc"));
    let beside = runtime.block_on(gpus.acquire().untyped()).unwrap();
    let reading = runtime.block_on(doc.read().into_future()).unwrap();
    assert!(runtime.block_on(gpus.try_acquire()).unwrap().is_none());
    let killed = Instant::now();
    crowd.kill(crowd.alive()[0]);
    let back =
        |request: Acquire| runtime.block_on(request.within(plan.ttl + within + BUSY).into_future()).unwrap();
    let four = back(gpus.acquire_many(4).untyped());
    assert!(killed.elapsed() < within + BUSY, "the permits came back after {:?}", killed.elapsed());
    runtime.block_on(reading.release()).unwrap();
    let writing = back(doc.write().untyped());
    assert!(killed.elapsed() < within + BUSY, "the lock came back after {:?}", killed.elapsed());
    assert!(beside.is_held());
    for guard in [four, writing, beside] {
        runtime.block_on(guard.release()).unwrap();
    }
    are_forgotten(scene, &crowd, &["gpus", "doc"]);
}
