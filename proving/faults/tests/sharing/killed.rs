//! A killed process's share is soon available to the others.

use std::time::{Duration, Instant};

use leasehold::Acquire;
use servers::{Flavor, Server};

use crate::place::{BUSY, Place, until};

const TTL: Duration = Duration::from_secs(2);

#[test]
fn a_killed_processs_share_at_a_file_is_back_at_once() {
    the_share_of_a_killed_process_is_back(&Place::on_a_file(), Duration::from_secs(1));
}

#[test]
fn a_killed_processs_share_at_a_redis_is_back_after_its_ttl() {
    the_share_of_a_killed_process_is_back(&Place::on(Server::start(Flavor::Redis70)), TTL);
}

/// One process has four of five permits, and reads; another has one permit, and keeps reading. The
/// first is killed.
fn the_share_of_a_killed_process_is_back(place: &Place, within: Duration) {
    let mut plan = place.plan(&["permits 4/5 gpus", "read doc"]);
    (plan.ttl, plan.hold) = (TTL, Duration::from_secs(600));
    let mut dying = Place::start(&plan);
    let locks = place.locks();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let holds = |key| runtime.block_on(locks.inspect(key)).unwrap().holders.len();
    until("it holds both", Duration::from_secs(5) + BUSY, || holds("gpus") == 1 && holds("doc") == 1);
    let (gpus, doc) = (locks.semaphore("gpus", 5), locks.rw_lock("doc"));
    let beside = runtime.block_on(gpus.acquire().untyped()).unwrap();
    let reading = runtime.block_on(doc.read().into_future()).unwrap();
    assert!(runtime.block_on(gpus.try_acquire()).unwrap().is_none());
    dying.kill();
    let killed = Instant::now();
    let back =
        |request: Acquire| runtime.block_on(request.within(TTL + within + BUSY).into_future()).unwrap();
    let four = back(gpus.acquire_many(4).untyped());
    assert!(killed.elapsed() < within + BUSY, "the permits came back after {:?}", killed.elapsed());
    runtime.block_on(reading.release()).unwrap();
    let writing = back(doc.write().untyped());
    assert!(killed.elapsed() < within + BUSY, "the lock came back after {:?}", killed.elapsed());
    assert!(beside.is_held());
    for guard in [four, writing, beside] {
        runtime.block_on(guard.release()).unwrap();
    }
    place.is_forgotten(&locks, &["gpus", "doc"]);
}
