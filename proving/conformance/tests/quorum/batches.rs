//! Requests that many tasks make at the same time reach each member together.

use std::time::Duration;

use conformance::faulty::CallFate;
use leasehold::{Guard, Locks, Runtime};
use leasehold_core::QuorumAttempt;

use crate::world::{Process, World};

/// Of two kinds, so that an answer that is given to the wrong request is mostly one for the other
/// kind.
fn keys() -> Vec<String> {
    ["left", "served"].iter().flat_map(|kind| (0..8).map(move |nth| format!("{kind}{nth}"))).collect()
}

async fn lock_all(locks: &Locks) -> Vec<Guard> {
    let tasks: Vec<_> = keys()
        .into_iter()
        .map(|key| {
            let locks = locks.clone();
            tokio::spawn(async move { locks.mutex(&*key).lock().await.unwrap() })
        })
        .collect();
    let mut guards = Vec::new();
    for task in tasks {
        guards.push(task.await.unwrap());
    }
    guards
}

async fn release_all(guards: Vec<Guard>) {
    let tasks: Vec<_> =
        guards.into_iter().map(|guard| tokio::spawn(async move { guard.release().await.unwrap() })).collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// The keys that others may lock.
async fn free(other: &Process) -> Vec<String> {
    let mut free = Vec::new();
    for key in keys() {
        if let Some(guard) = other.locks.mutex(&*key).try_lock().await.unwrap() {
            guard.release().await.unwrap();
            free.push(key);
        }
    }
    free
}

fn calls(process: &Process) -> Vec<u32> {
    process.way.iter().map(|way| way.calls()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_together_reaches_each_member_in_few_calls() {
    let world = World::of(3);
    let process = world.process();
    let guards = lock_all(&process.locks).await;
    // The first request leaves alone, because nothing is in flight before it.
    assert_eq!(calls(&process), [2; 3]);
    release_all(guards).await;
    assert_eq!(calls(&process), [4; 3]);
    assert!(world.is_empty());
}

/// Each attempt gets its own answer, whatever the member left of the same batch.
#[tokio::test(start_paused = true)]
async fn what_a_member_leaves_of_a_batch_is_asked_alone() {
    let world = World::of(3);
    let (process, other) = (world.process(), world.process());
    process.way.iter().for_each(|way| way.leave("left"));
    let guards = lock_all(&process.locks).await;
    assert_eq!(free(&other).await, Vec::<String>::new());
    release_all(guards).await;
    assert_eq!(free(&other).await, keys());
    assert!(world.is_empty());
}

/// A batch counts as in flight until its attempts can be decided, and not until its slowest member
/// has answered.
#[tokio::test(start_paused = true)]
async fn a_member_that_hangs_delays_no_batch() {
    for alone in [None, Some(0), Some(1), Some(2)] {
        for hung in 0..3 {
            let world = World::of(3);
            let process = world.process();
            alone.into_iter().for_each(|member: usize| process.way[member].serve_alone());
            release_all(lock_all(&process.locks).await).await;
            process.way[hung].set(CallFate::Hung);
            let begun = world.time.now();
            for _ in 0..20 {
                release_all(lock_all(&process.locks).await).await;
            }
            // The queue member is waited for once, and then counts as silent.
            let courtesy = if hung == 0 { QuorumAttempt::COURTESY } else { Duration::ZERO };
            let took = world.time.now().saturating_since(begun);
            assert!(took <= courtesy, "{alone:?} alone, {hung} hangs: {took:?}");
        }
    }
}
