//! Inspecting locks without acquiring them.

use leasehold::{InspectError, Locks, Misuse, Mode};

#[tokio::test]
async fn a_reader_or_a_writer_locks() {
    let locks = Locks::in_memory();
    let doc = locks.rw_lock("doc");
    let both = locks.rw_lock_all(["other", "doc"]);
    assert!(!doc.is_locked().await.unwrap());
    let reading = doc.read().await.unwrap();
    assert!(doc.is_locked().await.unwrap() && both.is_locked().await.unwrap());
    reading.release().await.unwrap();
    assert!(!both.is_locked().await.unwrap());
    let _writing = doc.write().await.unwrap();
    assert!(doc.is_locked().await.unwrap());
    assert!(matches!(locks.rw_lock("").is_locked().await, Err(InspectError::Misuse(_))));
}

#[tokio::test]
async fn permits_that_nobody_holds_are_available() {
    let locks = Locks::in_memory();
    let gpus = locks.semaphore("gpus", 4);
    assert_eq!(gpus.available().await, Ok(4));
    let one = gpus.acquire().await.unwrap();
    let two = gpus.acquire_many(2).await.unwrap();
    assert_eq!(gpus.available().await, Ok(1));
    assert_eq!(locks.semaphore_all(["cpus", "gpus"], 4).available().await, Ok(1));
    assert_eq!(locks.semaphore_all(["gpus", "tpus"], 4).available().await, Ok(1));
    // Users of another number keep each other out.
    assert_eq!(locks.semaphore("gpus", 8).available().await, Ok(0));
    one.release().await.unwrap();
    two.release().await.unwrap();
    assert_eq!(gpus.available().await, Ok(4));
    let _alone = locks.mutex("gpus").lock().await.unwrap();
    assert_eq!(gpus.available().await, Ok(0));
}

/// Regression: it was said to have as many permits as was claimed.
#[tokio::test]
async fn a_semaphore_that_cannot_be_has_no_permits_available() {
    for of in [0, Mode::MOST_PERMITS + 1] {
        let available = Locks::in_memory().semaphore("gpus", of).available().await;
        assert_eq!(available, Err(InspectError::Misuse(Misuse::PermitsOutOfBounds { of })));
    }
}
