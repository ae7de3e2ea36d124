//! Locks and the runtimes that renew them: ended, missing, blocked, or Leasehold's own.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use conformance::faulty::{CallFate, Faulty};
use leasehold::{
    EveryOutcome, Guard, LockError, Locks, Loss, MemoryStore, ReleaseError, Renewal, TokioRuntime,
};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

const TTL: Duration = Duration::from_millis(300);

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

async fn holding() -> (Locks, Guard) {
    let locks = Locks::in_memory();
    let guard = locks.mutex("k").lock().await.unwrap();
    (locks, guard)
}

#[test]
fn when_the_runtime_that_connected_ends_guards_are_lost_and_requests_say_why() {
    let connected = runtime();
    let (locks, guard) = connected.block_on(holding());
    connected.shutdown_timeout(Duration::from_secs(5));
    assert!(!guard.is_held());
    runtime().block_on(async {
        let Loss::Closed { reason } = guard.lost().await else { panic!("closed") };
        assert!(reason.contains("runtime"), "{reason}");
        let error = locks.mutex("other").lock().await.unwrap_err();
        assert!(matches!(error, LockError::Closed { .. }), "{error:?}");
        let error = guard.release().await.unwrap_err();
        assert!(matches!(error, ReleaseError::Closed { .. }), "{error:?}");
    });
}

/// Regression: the first request that had to wait panicked, and all guards were lost.
#[test]
#[should_panic(expected = "timers are disabled. Call `enable_time`")]
fn a_runtime_without_timers_is_refused_before_there_are_locks() {
    Builder::new_current_thread().build().unwrap().block_on(async { drop(Locks::in_memory()) });
}

/// Regression: each of them waited two seconds.
#[test]
fn guards_that_are_dropped_outside_any_runtime_wait_for_a_silent_store_together() {
    let memory = MemoryStore::new(Arc::new(TokioRuntime::on_own_thread().unwrap()));
    let store = Faulty::over(Arc::new(memory));
    let locks = Locks::builder().own_thread().over(store.clone()).unwrap();
    let lock = |name: &str| runtime().block_on(locks.mutex(name).lock().into_future()).unwrap();
    let guards = ["a", "b", "c", "d", "e"].map(lock);
    store.set(CallFate::Hung);
    let began = Instant::now();
    drop(guards);
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(6), "{took:?}");
    while store.count("give_up") < 5 {
        assert!(began.elapsed() < Duration::from_secs(20), "some are not released");
        thread::sleep(Duration::from_millis(10));
    }
}

/// They panicked, because the timers of a runtime that has ended do.
#[test]
fn requests_in_another_runtime_say_that_the_runtime_that_keeps_the_locks_has_ended() {
    let connected = runtime();
    let (locks, guard) = connected.block_on(holding());
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let mut watch = locks.watch("");
        watch.step().await.unwrap();
        let waiting = tokio::spawn(locks.mutex("k").lock().into_future());
        let unlocked = tokio::spawn(locks.mutex("k").unlocked().into_future());
        tokio::time::sleep(Duration::from_millis(20)).await;
        // No task is polled before it has ended.
        thread::spawn(move || drop(connected)).join().unwrap();
        let error = waiting.await.unwrap().unwrap_err();
        assert!(matches!(error, LockError::Closed { .. }), "{error:?}");
        let error = unlocked.await.unwrap().unwrap_err();
        assert!(matches!(error, LockError::Closed { .. }), "{error:?}");
        // The store in memory needs no runtime.
        watch.step().await.unwrap();
    });
    drop(guard);
}

/// Regression: a guard considered itself valid although its runtime ended before the keeper ran.
#[test]
fn a_runtime_that_ends_at_once_takes_its_guards_along() {
    let connected = Builder::new_current_thread().enable_all().build().unwrap();
    // Nothing here waits, so no other task runs.
    let guard = connected.block_on(async { Locks::in_memory().mutex("k").lock().await.unwrap() });
    assert!(guard.is_held());
    drop(connected);
    assert!(!guard.is_held());
    let loss = runtime().block_on(async { timeout(Duration::from_secs(5), guard.lost()).await });
    assert!(matches!(loss, Ok(Loss::Closed { .. })), "{loss:?}");
}

#[test]
fn a_thread_of_their_own_keeps_locks_past_the_runtime_that_connected() {
    let connected = runtime();
    let guard = connected.block_on(async {
        let locks = Locks::builder().own_thread().ttl(TTL).in_memory().unwrap();
        locks.mutex("k").lock().await.unwrap()
    });
    connected.shutdown_timeout(Duration::from_secs(5));
    let begun = Instant::now();
    while begun.elapsed() < 3 * TTL {
        assert!(guard.is_held());
        thread::sleep(TTL / 10);
    }
    runtime().block_on(guard.release()).unwrap();
}

#[test]
fn a_thread_of_their_own_keeps_locks_while_the_runtime_is_blocked() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let locks = Locks::builder().own_thread().ttl(TTL).in_memory().unwrap();
        let guard = locks.mutex("k").lock().await.unwrap();
        thread::sleep(3 * TTL);
        assert!(guard.is_held());
    });
}

#[test]
fn locks_in_memory_can_be_made_and_dropped_without_any_runtime() {
    let locks = Locks::in_memory();
    let (sender, receiver) = mpsc::channel();
    runtime().block_on(async {
        sender.send(locks.mutex("k").renewal(Renewal::Off).lock().await.unwrap()).unwrap();
    });
    let guard = receiver.recv().unwrap();
    assert!(guard.is_held());
    drop(guard);
    // The release runs on the locks' own thread.
    let begun = Instant::now();
    let taken = runtime().block_on(async { locks.mutex("k").lock().within(Duration::from_secs(5)).await });
    assert!(taken.is_ok() && begun.elapsed() < Duration::from_secs(5));
}

/// Regression: tokio's paused clock raced ahead of leases in real time: an hour fired after 58 ms.
#[tokio::test(start_paused = true)]
async fn locks_in_memory_follow_a_clock_that_a_test_has_paused() {
    const HOUR: Duration = Duration::from_secs(3600);
    let (real, begun) = (Instant::now(), tokio::time::Instant::now());
    for locks in [Locks::in_memory(), Locks::connect("memory:").await.unwrap()] {
        let begun = tokio::time::Instant::now();
        let guard = locks.mutex("k").lock().await.unwrap();
        let unkept = locks.mutex("unkept").renewal(Renewal::Off).lock().await.unwrap();
        let waiting = tokio::spawn(timeout(HOUR, locks.mutex("k").lock().into_future()));
        let busy = locks.mutex("k").lock().within(HOUR / 2).await.unwrap_err();
        assert!(matches!(&busy, LockError::TimedOut { waited, .. } if *waited == HOUR / 2), "{busy:?}");
        assert_eq!(begun.elapsed().as_secs(), HOUR.as_secs() / 2);
        assert_eq!(guard.held_for().as_secs(), HOUR.as_secs() / 2);
        assert!(guard.is_held() && !unkept.is_held());
        assert!(matches!(unkept.lost().await, Loss::Expired { .. }));
        guard.release().await.unwrap();
        waiting.await.unwrap().expect("the hour is not over").unwrap().release().await.unwrap();

        let daily = locks.every(Duration::from_secs(86_400), "report");
        for day in 0..3 {
            let ran = daily.run(async |_| Ok::<_, std::io::Error>(day)).await.unwrap();
            assert_eq!(ran, EveryOutcome::Ran(day));
            tokio::time::sleep(Duration::from_secs(86_399)).await;
            assert!(matches!(
                daily.run(async |_| Ok::<_, std::io::Error>(day)).await,
                Ok(EveryOutcome::NotDue(_))
            ));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
    assert!(begun.elapsed() > 7 * 24 * HOUR / 2 && real.elapsed() < Duration::from_secs(60));
}
