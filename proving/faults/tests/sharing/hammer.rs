//! Thirty-two tasks that acquire and release as fast as they can.

use std::{thread, time::Duration};

use faults::sharing::work;
use leasehold::Locks;
use servers::{Flavor, Process, Server};

use crate::place::{BUSY, Place, lasts};

/// The wishes of each of four processes with eight tasks: readers and writers of one lock, and
/// permits of another.
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
    let place = Place::in_memory();
    let plan = place.plan(&WISHES.repeat(4));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let locks = runtime.block_on(async { Locks::builder().ttl(plan.ttl).connect(&place.url).await }).unwrap();
    // The locks themselves see what is left: nobody else sees this process's memory.
    let while_it_lasts = async { tokio::time::sleep(for_a_while()).await };
    runtime.block_on(work(&plan, &locks, while_it_lasts)).unwrap();
    place.is_forgotten(&locks, &["doc", "gpus"]);
    all_were_served(&place);
}

#[test]
fn readers_writers_and_permits_of_four_processes_at_a_file() {
    let place = Place::on_a_file();
    four_processes(&place, [&WISHES; 4], &["doc", "gpus"]);
    all_were_served(&place);
}

#[test]
fn readers_writers_and_permits_of_four_processes_at_a_redis() {
    for flavor in [Flavor::Redis62, Flavor::Valkey91] {
        let place = Place::on(Server::start(flavor));
        four_processes(&place, [&WISHES; 4], &["doc", "gpus"]);
        all_were_served(&place);
    }
}

/// Each acquires its keys in one order, in whatever order they are named.
#[test]
fn takers_of_several_keys_at_a_file() {
    several_keys(&Place::on_a_file());
}

#[test]
fn takers_of_several_keys_at_a_redis() {
    several_keys(&Place::on(Server::start(Flavor::Redis82)));
}

fn several_keys(place: &Place) {
    let [ab, ba, a, b] = ["alone a,b", "alone b,a", "alone a", "alone b"].map(|wish| [wish; 2]);
    four_processes(place, [&ab, &ba, &a, &b], &["a", "b"]);
    all_were_served(place);
}

fn four_processes(place: &Place, wishes: [&[&str]; 4], keys: &[&str]) {
    let mut processes: Vec<_> = wishes.iter().map(|wishes| Place::start(&place.plan(wishes))).collect();
    thread::sleep(for_a_while());
    processes.iter_mut().for_each(Process::end);
    place.is_forgotten(&place.locks(), keys);
}

fn all_were_served(place: &Place) {
    let judge = place.is_sound();
    let (longest, least) = judge.longest_wait();
    println!("{} holds; the longest wait was {longest:?}, the least served had {least}", judge.holds().len());
    assert!(longest < IN_TURN + BUSY, "somebody waited for {longest:?}");
    assert!(least >= 3, "somebody was served {least} times");
}
