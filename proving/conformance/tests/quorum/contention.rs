//! Several processes that want the same lock.

use std::time::Duration;

use conformance::faulty::CallFate;
use leasehold::Guard;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::world::{Process, SECOND, TTL, World};

const TRIP: Duration = Duration::from_millis(5);

async fn lock(process: &Process) -> Guard {
    process.locks.mutex("k").lock().within(6 * TTL).await.unwrap()
}

/// Two processes that each reach their own half of the members first.
fn split(members: u8) -> (World, Process, Process) {
    let world = World::of(members);
    let (one, other) = (world.process(), world.process());
    let (members, half) = (usize::from(members), usize::from(members / 2));
    one.set(half..members, &CallFate::Late(TRIP));
    other.set(0..half, &CallFate::Late(TRIP));
    (world, one, other)
}

/// redlock 5 waits for a majority for or against; here there never is one, and both calls hung.
#[tokio::test(start_paused = true)]
async fn an_even_split_settles_within_three_rounds_and_the_other_is_served_next() {
    for members in [2, 4] {
        let (world, one, other) = split(members);
        let hold = async |process: Process| {
            let guard = lock(&process).await;
            let at = world.time.passed();
            sleep(SECOND).await;
            let (fence, asks) = (guard.fence(), guard.attempts());
            guard.release().await.unwrap();
            (at, fence, asks)
        };
        let (a, b) = tokio::join!(hold(one), hold(other));
        let (first, second) = if a.0 < b.0 { (a, b) } else { (b, a) };
        assert!(first.0 <= 6 * TRIP && first.2 <= 3, "{members} members: {first:?}");
        assert!(
            second.0 >= first.0 + SECOND && second.0 <= first.0 + SECOND + 10 * TRIP,
            "{first:?} {second:?}"
        );
        assert!(second.1 > first.1);
        sleep(SECOND).await;
        assert!(world.is_empty());
    }
}

/// Both get an answer at once although neither waits; and one of them has the lock.
#[tokio::test(start_paused = true)]
async fn an_even_split_of_tries_gives_one_the_lock() {
    for members in [2, 4] {
        let (world, one, other) = split(members);
        let (a, b) = (one.locks.mutex("k"), other.locks.mutex("k"));
        let (a, b) = tokio::join!(a.try_lock(), b.try_lock());
        assert!(a.unwrap().is_some() != b.unwrap().is_some(), "{members} members");
        assert!(world.time.passed() <= 10 * TRIP + Duration::from_millis(30));
    }
}

/// Nobody polls while nothing fails, however long the wait.
#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_and_does_not_poll() {
    let world = World::of(3);
    let (holder, waiter) = (world.process(), world.process());
    let guard = lock(&holder).await;
    let locks = waiter.locks.clone();
    let waits = tokio::spawn(locks.mutex("k").lock().into_future());
    sleep(SECOND).await;
    let calls = waiter.calls();
    sleep(60 * SECOND).await;
    // One process asks for all its waiters every few seconds, at one member.
    assert!(waiter.calls() - calls <= 60 / 2, "{} calls", waiter.calls() - calls);
    let begun = world.time.passed();
    guard.release().await.unwrap();
    let guard = timeout(SECOND, waits).await.unwrap().unwrap().unwrap();
    assert_eq!(world.time.passed(), begun, "at once");
    assert_eq!(world.taken(), 3);
    drop(guard);
}

/// Each process calls another member the first. node-redlock makes all retry at random.
#[tokio::test(start_paused = true)]
async fn rivals_in_different_queues_are_all_served() {
    let world = World::of(3);
    let processes: Vec<_> = (0..3).map(|_| world.process()).collect();
    processes[1].set([0], &CallFate::Hung);
    processes[2].set([1], &CallFate::Hung);
    let mut tasks = JoinSet::new();
    for process in processes {
        tasks.spawn(async move {
            let mut last = None;
            for _ in 0..10 {
                let guard = lock(&process).await;
                assert!(last < Some(guard.fence()));
                last = Some(guard.fence());
                sleep(TRIP).await;
                guard.release().await.unwrap();
            }
        });
    }
    timeout(6 * TTL, tasks.join_all()).await.expect("nobody starves");
}

/// Regression: two readers raised to the same number: 14 of 1,468 fences were shared.
#[tokio::test(start_paused = true)]
async fn readers_that_ask_at_once_have_fences_of_their_own() {
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};
    let mut fences = std::collections::HashSet::new();
    let mut shared = Vec::new();
    for seed in 0..30 {
        let mut dice = StdRng::seed_from_u64(seed);
        let world = World::of(3);
        let mut tasks = JoinSet::new();
        for _ in 0..6 {
            let process = world.process();
            for member in 0..3 {
                let trip = Duration::from_micros(dice.random_range(200..3_000));
                process.set([member], &CallFate::Late(trip));
            }
            tasks.spawn(async move {
                let mut had = Vec::new();
                for _ in 0..5 {
                    let guard = process.locks.rw_lock("k").read().await.unwrap();
                    had.push(guard.fence());
                    sleep(TRIP).await;
                    guard.release().await.unwrap();
                }
                had
            });
        }
        fences.clear();
        let all = timeout(6 * TTL, tasks.join_all()).await.expect("nobody goes on raising for ever");
        for had in all {
            assert!(had.is_sorted(), "{had:?}");
            shared.extend(had.into_iter().filter(|fence| !fences.insert(*fence)));
        }
    }
    assert!(shared.is_empty(), "{shared:?}");
}
