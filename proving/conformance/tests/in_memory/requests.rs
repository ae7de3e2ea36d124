//! Requests are futures that own what they need.

use std::time::Duration;

use leasehold::{LockError, Locks};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_request_is_spawned_as_it_is() {
    let locks = Locks::in_memory();
    let guard = tokio::spawn(locks.mutex("k").lock()).await.unwrap().unwrap();
    let free = tokio::spawn(locks.mutex("k").unlocked());
    let next = tokio::spawn(locks.mutex("k").lock().within(60 * SECOND));
    let reader = tokio::spawn(locks.rw_lock("doc").read());
    let permit = tokio::spawn(locks.semaphore("gpus", 2).acquire_many(2));
    guard.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    free.await.unwrap().unwrap();
    drop((reader.await.unwrap().unwrap(), permit.await.unwrap().unwrap()));
}

#[tokio::test]
async fn a_request_may_be_polled_by_reference_and_goes_on_where_it_was() {
    let locks = Locks::in_memory();
    let guard = locks.mutex("k").lock().await.unwrap();
    let mut next = locks.mutex("k").lock();
    assert!(tokio::time::timeout(SECOND / 100, &mut next).await.is_err());
    let waiting = locks.inspect("k").await.unwrap().waiters;
    assert_eq!(waiting.len(), 1);
    guard.release().await.unwrap();
    let guard = next.await.unwrap();
    assert_eq!(guard.attempts(), 1);
}

#[tokio::test]
async fn a_request_that_makes_no_sense_says_so_when_it_is_polled() {
    let locks = Locks::in_memory();
    let refused = tokio::spawn(locks.mutex("").lock().within(SECOND)).await.unwrap();
    assert!(matches!(refused, Err(LockError::Misuse(_))));
    assert!(matches!(tokio::spawn(locks.mutex("").unlocked()).await.unwrap(), Err(LockError::Misuse(_))));
}

/// There may be very many waiters, each with its request.
#[test]
fn a_request_is_two_words() {
    assert_eq!(size_of::<leasehold::Acquire>(), 2 * size_of::<usize>());
}
