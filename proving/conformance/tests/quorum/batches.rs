//! Requests that many tasks make at the same time reach each member together.

use std::sync::Arc;
use std::time::Duration;

use conformance::faulty::{CallFate, Faulty, members, quorum_of};
use leasehold::{Guard, Locks, Runtime as _, TokioRuntime};
use leasehold_core::{Key, QuorumAttempt};
use tokio::task::JoinSet;

use crate::world::{MAX_TTL, Process, SECOND, TTL, World, holding, process_of};

/// Of two kinds, so that an answer to the wrong request is mostly one of the wrong kind.
fn keys() -> Vec<String> {
    ["left", "served"].iter().flat_map(|kind| (0..8).map(move |nth| format!("{kind}{nth}"))).collect()
}

async fn lock_all(locks: &Locks) -> Vec<Guard> {
    let requests: JoinSet<_> = keys().into_iter().map(|key| locks.mutex(&*key).lock()).collect();
    requests.join_all().await.into_iter().map(Result::unwrap).collect()
}

async fn release_all(guards: Vec<Guard>) {
    let releases: JoinSet<_> = guards.into_iter().map(Guard::release).collect();
    for released in releases.join_all().await {
        released.unwrap();
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

fn calls(process: &Process) -> Vec<usize> {
    process.way.iter().map(|way| way.calls()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_together_reaches_each_member_in_few_calls() {
    let (world, process) = process_of(3);
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
    process.way.iter().for_each(|way| way.says(|facts| facts.left = Some("left")));
    let guards = lock_all(&process.locks).await;
    assert_eq!(free(&other).await, Vec::<String>::new());
    release_all(guards).await;
    assert_eq!(free(&other).await, keys());
    assert!(world.is_empty());
}

/// In a batch, a key that somebody else holds costs one call more: it is then asked for alone.
#[tokio::test(start_paused = true)]
async fn a_key_that_was_refused_is_in_no_batch_for_a_while() {
    let world = World::of(3);
    let (holder, process) = (world.process(), world.process());
    let guard = holder.locks.mutex("left").lock().await.unwrap();
    let tries = async || {
        let before = calls(&process);
        assert!(process.locks.mutex("left").try_lock().await.unwrap().is_none());
        tokio::time::sleep(SECOND).await;
        calls(&process).iter().zip(before).map(|(after, before)| after - before).collect::<Vec<_>>()
    };
    let first = tries().await;
    let others = tries().await;
    assert_eq!(others, first.iter().map(|calls| calls - 1).collect::<Vec<_>>());
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(tries().await, first, "it may be free again");
    drop(guard);
}

/// Regression: they share no batch, so one after the other waited for its own, for 10 ms each.
#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_a_batch_when_their_key_is_refused_are_made_alone_at_once() {
    let world = World::of(3);
    let (holder, process) = (world.process(), world.process());
    let guard = holder.locks.mutex("k").lock().await.unwrap();
    process.way.iter().for_each(|way| way.set(CallFate::Slow(SECOND / 100)));
    let begun = world.time.now();
    let tries: JoinSet<_> = (0..200).map(|_| process.locks.mutex("k").lock().within(SECOND / 10)).collect();
    for refused in tries.join_all().await {
        let error = refused.unwrap_err();
        assert!(error.is_busy(), "{error}");
    }
    assert_eq!(world.time.now().saturating_since(begun), SECOND / 10);
    drop(guard);
}

/// A batch is in flight until its attempts are decided, not until its slowest member answers.
#[tokio::test(start_paused = true)]
async fn a_member_that_hangs_delays_no_batch() {
    for alone in [None, Some(0), Some(1), Some(2)] {
        for hung in 0..3 {
            let (world, process) = process_of(3);
            alone
                .into_iter()
                .for_each(|member: usize| process.way[member].says(|facts| facts.batches = false));
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

/// Each of two batches is in flight until the queue member has answered; if that is not asked in a batch,
/// until one member has. What is asked meanwhile shares the third.
#[tokio::test(start_paused = true)]
async fn requests_share_a_batch_while_the_members_for_which_they_wait_are_slow() {
    for (alone, slow) in [(0..0, 0..1), (0..2, 0..3)] {
        let (_world, process) = process_of(3);
        alone.clone().for_each(|member| process.way[member].says(|facts| facts.batches = false));
        process.set(slow, &CallFate::Slow(SECOND / 50));
        let mut requests = JoinSet::new();
        for key in keys() {
            requests.spawn(process.locks.mutex(key).lock().into_future());
            tokio::time::sleep(SECOND / 1000).await;
        }
        let guards = requests.join_all().await;
        assert_eq!((calls(&process)[2], guards.len()), (3, 16), "{alone:?} alone");
    }
}

/// A release has the greatest proposal, which members limit to two seconds ahead of their clocks.
#[tokio::test(start_paused = true)]
async fn a_release_in_the_same_batch_does_not_raise_the_fence_of_a_grant() {
    let (_world, process, guard) = holding(3).await;
    let before = guard.fence().get();
    process.set(0..3, &CallFate::Slow(SECOND / 100));
    let mut others = JoinSet::new();
    for key in ["in flight", "too"] {
        others.spawn(process.locks.mutex(key).lock().into_future());
        tokio::time::sleep(SECOND / 1000).await;
    }
    let (released, granted) = tokio::join!(guard.release(), process.locks.mutex("other").lock());
    released.unwrap();
    let ahead = granted.unwrap().fence().get() - before;
    assert!(ahead < 1_000_000, "{ahead} µs");
}

/// All members are asked in one task.
#[tokio::test(start_paused = true)]
async fn a_member_that_panics_affects_no_other() {
    for broken in 0..3 {
        let (world, process) = process_of(3);
        process.way[broken].set(CallFate::Panics);
        let begun = world.time.now();
        let guards = lock_all(&process.locks).await;
        process.way[broken].set(CallFate::Fair);
        release_all(guards).await;
        process.way[broken].set(CallFate::Panics);
        release_all(lock_all(&process.locks).await).await;
        let took = world.time.now().saturating_since(begun);
        assert!(took <= 4 * QuorumAttempt::COURTESY, "{broken} panics: {took:?}");
        let others = world.members.iter().enumerate().filter(|(nth, _)| *nth != broken);
        assert!(others.into_iter().all(|(_, member)| member.dump().locks.is_empty()), "{broken} panics");
    }
}

/// Something else in the batch may have caused it.
#[tokio::test(start_paused = true)]
async fn a_release_whose_batch_panics_at_a_majority_is_made_there_alone() {
    let (_world, process, guard) = holding(3).await;
    process.way[..2].iter().for_each(|member| member.on("batch", CallFate::Panics));
    guard.release().await.unwrap();
}

/// A grant leaves a fence behind, also if it is undone.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_before_its_batch_leaves_reaches_no_member() {
    let (world, process) = process_of(3);
    let ask = |key: &'static str| {
        let locks = process.locks.clone();
        tokio::spawn(async move { locks.mutex(key).lock().within(5 * SECOND).await })
    };
    process.set(0..3, &CallFate::Hung);
    // Two batches are in flight, so the next requests wait.
    let mut tasks = Vec::new();
    for key in ["a", "b", "dropped", "kept"] {
        tasks.push(ask(key));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tasks[2].abort();
    process.set(0..3, &CallFate::Fair);
    drop(tasks.pop().unwrap().await.unwrap().unwrap());
    tokio::time::sleep(5 * SECOND).await;
    for member in &world.members {
        let fences = member.dump().fences;
        let has = |key: &str| fences.contains_key(&Key::new(key).unwrap());
        assert!(has("kept") && !has("dropped"), "{fences:?}");
    }
}

/// A majority has released when the runtime ends, and one member has not answered.
#[test]
fn a_release_in_a_batch_that_ends_with_its_runtime_is_made_again() {
    for tasks_before in 0..16 {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let members = tokio.block_on(async {
            for _ in 0..tasks_before {
                tokio::spawn(async {}).await.unwrap();
            }
            let runtime = Arc::new(TokioRuntime::current().unwrap());
            let members = members(3, &runtime);
            let way: Vec<_> = members.iter().cloned().map(Faulty::over).collect();
            let quorum = Arc::new(quorum_of(&way, MAX_TTL, runtime.clone()));
            let locks = Locks::builder().ttl(TTL).runtime(runtime).over(quorum).unwrap();
            let guard = locks.mutex("k").lock().await.unwrap();
            way[2].set(CallFate::Hung);
            guard.release().await.unwrap();
            way[2].set(CallFate::Fair);
            assert_eq!(members[2].dump().locks.len(), 1);
            members
        });
        drop(tokio);
        let is_free = members.iter().all(|member| member.dump().locks.is_empty());
        assert!(is_free, "after {tasks_before} other tasks");
    }
}
