//! Waiters that poll instead of queueing, for keys that other libraries poll.

use std::sync::Arc;
use std::time::Duration;

use conformance::virtual_time::VirtualTime;
use leasehold::{ConnectError, Locks, MemoryStore, Misuse};
use tokio::time::{Instant, sleep};

const INTERVAL: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);

fn processes() -> [Locks; 2] {
    let time = VirtualTime::begin();
    let memory = Arc::new(MemoryStore::new(time.clone()));
    [(); 2]
        .map(|()| Locks::builder().runtime(time.clone()).poll_every(INTERVAL).over(memory.clone()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_polls_does_not_queue_and_has_the_lock_within_an_interval() {
    let [ours, others] = processes();
    let held = others.mutex("k").lock().await.unwrap();
    let waiting = tokio::spawn(ours.mutex("k").lock().into_future());
    sleep(SECOND).await;
    let state = ours.inspect("k").await.unwrap();
    assert!(state.waiters.is_empty(), "{:?}", state.waiters);
    held.release().await.unwrap();
    let released = Instant::now();
    let guard = waiting.await.unwrap().unwrap();
    assert!(released.elapsed() <= INTERVAL, "{:?}", released.elapsed());
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_a_release_the_key_is_free_for_half_an_interval_at_least() {
    let [ours, others] = processes();
    for dropped in [false, true] {
        let guard = ours.mutex("k").lock().await.unwrap();
        if dropped {
            drop(guard);
        } else {
            guard.release().await.unwrap();
        }
        let released = Instant::now();
        let again = tokio::spawn(ours.mutex("k").lock().into_future());
        sleep(INTERVAL * 49 / 100).await;
        let other = others.mutex("k").try_lock().await.unwrap().expect("it is free");
        other.release().await.unwrap();
        let again = again.await.unwrap().unwrap();
        assert!((INTERVAL / 2..=INTERVAL).contains(&released.elapsed()), "{:?}", released.elapsed());
        // Requests for another key are not delayed.
        let before = Instant::now();
        drop(ours.mutex("another").lock().await.unwrap());
        assert_eq!(before.elapsed(), Duration::ZERO);
        again.release().await.unwrap();
        sleep(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_try_and_a_short_wait_come_in_time_after_a_release() {
    let [ours, _] = processes();
    ours.mutex("k").lock().await.unwrap().release().await.unwrap();
    ours.mutex("k").try_lock().await.unwrap().expect("it is free").release().await.unwrap();
    let began = Instant::now();
    let short = INTERVAL / 10;
    ours.mutex("k").lock().within(short).await.unwrap().release().await.unwrap();
    assert!(began.elapsed() <= short / 2);
}

#[tokio::test(start_paused = true)]
async fn an_interval_of_nothing_is_refused() {
    let refused = Locks::builder().poll_every(Duration::ZERO).in_memory();
    assert!(matches!(refused, Err(ConnectError::Misuse(Misuse::Backoff { .. }))), "{refused:?}");
}
