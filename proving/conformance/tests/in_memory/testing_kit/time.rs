//! Time that is moved by hand.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use leasehold::testing::World;
use leasehold::{EveryOutcome, LockError, Locks, Renewal};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::{SECOND, TTL, in_a_world, while_holding};

#[test]
fn time_stands_still_unless_it_is_moved() {
    in_a_world(async |world| {
        let guard = world.locks_with(Locks::builder().renewal(Renewal::Off)).mutex("k").lock().await.unwrap();
        let others = world.locks();
        let waiting = tokio::spawn(others.mutex("k").lock().within(SECOND).into_future());
        world.until("k", |state| state.waiters.len() == 1).await;
        world.settle().await;
        assert!(!waiting.is_finished());
        assert_eq!(world.passed(), Duration::ZERO);
        let remaining = guard.remaining();
        assert_eq!(guard.held_for(), Duration::ZERO);
        assert!(TTL - remaining < SECOND / 1000, "{remaining:?}");

        world.advance(SECOND - SECOND / 1000).await;
        assert!(!waiting.is_finished());
        world.advance(SECOND / 1000).await;
        assert!(matches!(waiting.await.unwrap(), Err(LockError::TimedOut { .. })));
        assert_eq!((guard.held_for(), guard.remaining()), (SECOND, remaining - SECOND));
    });
}

#[test]
fn a_lease_that_is_not_renewed_ends_on_the_dot() {
    in_a_world(async |world| {
        let locks = world.locks_with(Locks::builder().ttl(10 * SECOND).renewal(Renewal::Off));
        let guard = locks.mutex("k").lock().await.unwrap();
        world.advance(10 * SECOND - SECOND / 1000).await;
        assert!(guard.is_held());
        assert!(world.locks().mutex("k").try_lock().await.unwrap().is_none());
        world.advance(SECOND / 1000).await;
        assert!(!guard.is_held());
        assert!(world.locks().mutex("k").try_lock().await.unwrap().is_some());
    });
}

/// The whole process stalls, and the renewing thread for longer: no time passes while a renewal is due.
#[test]
fn a_machine_that_stalls_loses_nobody_a_lease() {
    const STALL: Duration = Duration::from_millis(700);
    let elsewhere = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let world = World::new();
    let taken = world.clone();
    let guard = elsewhere.block_on(async move { taken.locks().mutex("k").lock().await.unwrap() });
    Builder::new_current_thread().build().unwrap().block_on(async {
        let (stalls, stalled) = std::sync::mpsc::channel();
        elsewhere.spawn(async move {
            stalls.send(()).unwrap();
            thread::sleep(STALL + STALL / 4);
        });
        stalled.recv().unwrap();
        let passing = world.clone();
        tokio::spawn(async move {
            // Until the renewal is due.
            while passing.passed().is_zero() {
                tokio::task::yield_now().await;
            }
            thread::sleep(STALL);
        });
        world.advance(3600 * SECOND).await;
        assert!(guard.is_held());
        assert_eq!(guard.held_for(), 3600 * SECOND);
    });
}

/// After one jump over the whole period, each has run at its own time.
#[test]
fn due_timers_fire_at_their_time_and_in_order() {
    in_a_world(async |world| {
        let locks = world.locks();
        let _guard = locks.mutex("k").lock().await.unwrap();
        let ends = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = JoinSet::new();
        for seconds in [50, 5, 500] {
            let asked = locks.mutex("k").lock().within(seconds * SECOND).into_future();
            let (world, ends) = (world.clone(), ends.clone());
            waiting.spawn(async move {
                let Err(LockError::TimedOut { waited, .. }) = asked.await else { panic!("not busy") };
                assert_eq!(waited, seconds * SECOND);
                ends.lock().unwrap().push((seconds, world.passed() >= waited));
            });
        }
        world.until("k", |state| state.waiters.len() == 3).await;
        world.advance(1000 * SECOND).await;
        waiting.join_all().await;
        assert_eq!(*ends.lock().unwrap(), [(5, true), (50, true), (500, true)]);
    });
}

#[test]
fn settling_releases_what_was_dropped() {
    in_a_world(async |world| {
        let locks = world.locks();
        drop(locks.mutex("k").lock().await.unwrap());
        world.settle().await;
        assert!(world.locks().mutex("k").try_lock().await.unwrap().is_some());
        assert_eq!(world.passed(), Duration::ZERO);
    });
}

#[test]
fn run_takes_as_much_virtual_time_as_the_future_needs_and_no_more() {
    in_a_world(async |world| {
        let locks = world.locks_with(Locks::builder().renewal(Renewal::Off));
        let _dead = locks.mutex("k").lock().await.unwrap();
        let next = world.within(2 * TTL, world.locks().mutex("k").lock().into_future()).await.unwrap();
        assert!(next.is_held());
        let passed = world.passed();
        assert!(passed >= TTL && passed < TTL + SECOND, "{passed:?}");
    });
}

#[test]
#[should_panic(expected = "not done after 60s of the world's time")]
fn run_fails_the_test_if_the_future_needs_more_time() {
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let world = World::new();
        let _guard = world.locks().mutex("k").lock().await.unwrap();
        let _ = world.within(60 * SECOND, world.locks().mutex("k").lock().into_future()).await;
    });
}

/// Tests that poll by hand do that.
#[test]
fn a_request_that_nobody_polls_holds_no_time_up() {
    while_holding(async |world, guard| {
        let mut asked = pin!(world.locks().mutex("k").lock().within(SECOND).into_future());
        let mut context = Context::from_waker(Waker::noop());
        assert!(asked.as_mut().poll(&mut context).is_pending());
        world.advance(10 * TTL).await;
        assert!(guard.is_held());
        assert!(asked.as_mut().poll(&mut context).is_ready());
    });
}

#[test]
fn an_hourly_job_runs_once_in_each_hour() {
    in_a_world(async |world| {
        let locks = [world.locks(), world.locks()];
        let mut ran = 0;
        for _ in 0..6 {
            for one in &locks {
                let done = one.every(3600 * SECOND, "report").run(async |_| Ok::<_, LockError>(())).await;
                ran += u32::from(matches!(done.unwrap(), EveryOutcome::Ran(())));
            }
            world.advance(1800 * SECOND).await;
        }
        assert_eq!(ran, 3);
    });
}

/// Many tasks on many threads are queued: each has its turn, and time does not pass anyone over.
#[test]
fn tasks_that_take_turns_are_given_the_time_to_take_them() {
    in_a_world(async |world| {
        let (inside, turns) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let mut tasks = JoinSet::new();
        for _ in 0..30 {
            let (locks, inside, turns) = (world.locks(), inside.clone(), turns.clone());
            tasks.spawn(async move {
                for _ in 0..10 {
                    let guard = locks.mutex("turn").lock().await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    turns.fetch_add(1, Ordering::SeqCst);
                    drop(guard);
                }
            });
        }
        world.within(TTL, tasks.join_all()).await;
        assert_eq!(turns.load(Ordering::SeqCst), 300);
    });
}

#[test]
fn threads_that_block_have_time_by_hand_as_well() {
    let world = World::new();
    let guard = world.blocking_locks().mutex("k").lock().wait().unwrap();
    let others = world.blocking_locks();
    let waiting = thread::spawn(move || others.mutex("k").lock().within(TTL).wait().map(drop));
    while world.blocking_locks().inspect("k").unwrap().waiters.is_empty() {
        thread::yield_now();
    }
    world.blocking_advance(TTL - SECOND);
    assert!(!waiting.is_finished());
    assert!(guard.is_held());
    world.blocking_advance(SECOND);
    assert!(matches!(waiting.join().unwrap(), Err(LockError::TimedOut { .. })));
    world.blocking_advance(3600 * SECOND);
    assert!(guard.is_held());
    guard.release().unwrap();
}

#[test]
fn code_that_blocks_the_only_thread_of_a_runtime_has_its_locks_renewed() {
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let world = World::new();
        let guard = world.blocking_locks().mutex("k").lock().wait().unwrap();
        world.blocking_advance(3600 * SECOND);
        assert!(guard.is_held());
        guard.release().unwrap();
    });
}
