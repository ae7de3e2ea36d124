//! Jobs of `once` and `every` while the store does not answer.

use std::time::Duration;

use conformance::faulty::{CallFate, World};
use leasehold::{Locks, NotDue};
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

/// A process whose lease ends before it hears whether the job was done, and another that does the job.
fn silent_after_the_grant() -> (World, Locks) {
    let world = World::begin(2 * SECOND);
    world.store.once("marked", CallFate::Fair);
    (0..4).for_each(|_| world.store.once("marked", CallFate::Lost));
    world.store.on("renew", CallFate::Lost);
    let others = world.others();
    (world, others)
}

/// Regression: a job was begun under the lost lock, while the next holder did it.
#[tokio::test(start_paused = true)]
async fn a_job_is_not_begun_under_a_lock_that_was_lost_while_the_store_was_silent() {
    let (world, others) = silent_after_the_grant();
    let locks = world.locks.clone();
    let beginning = tokio::spawn(async move { locks.once("migrate").begin().await });
    sleep(3 * SECOND).await;
    let theirs = others.once("migrate").begin().await.unwrap().unwrap();
    sleep(5 * SECOND).await;
    assert!(!beginning.is_finished(), "it waits for the other process");
    let fence = theirs.guard().fence();
    theirs.done().await.unwrap();
    assert_eq!(beginning.await.unwrap().unwrap().unwrap_err().fence, fence);
}

/// Regression: as for a job that is done once.
#[tokio::test(start_paused = true)]
async fn a_job_that_others_do_since_the_lock_was_lost_is_under_way() {
    let (world, others) = silent_after_the_grant();
    let locks = world.locks.clone();
    let beginning = tokio::spawn(async move { locks.every(60 * SECOND, "report").begin().await });
    sleep(3 * SECOND).await;
    let theirs = others.every(60 * SECOND, "report").begin().await.unwrap().unwrap();
    let not_due = beginning.await.unwrap().unwrap().unwrap_err();
    assert!(matches!(not_due, NotDue::Underway { .. }), "{not_due:?}");
    assert!(theirs.guard().is_held());
}

/// Regression: the lock was lost after the mark, and the caller was told that the job is not marked.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_marked_stays_so_when_its_lock_is_lost() {
    let world = World::begin(2 * SECOND);
    let job = world.locks.once("migrate").begin().await.unwrap().unwrap();
    let mark = job.mark().await.unwrap();
    world.store.set(CallFate::Lost);
    sleep(3 * SECOND).await;
    assert!(!job.guard().is_held());
    assert_eq!(job.mark().await, Ok(mark.clone()));
    assert_eq!(job.done().await, Ok(()));
    assert_eq!(world.others().once("migrate").mark().await.unwrap(), Some(mark));
}
