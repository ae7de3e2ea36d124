//! Checks: handing a lock over to another process.

use std::sync::Arc;

use leasehold::{Locks, Loss, TokioRuntime, TransferError, TransferToken};
use tokio::task::JoinSet;

use super::{LONG, SHORT, attempt, holders, refused, take_within};
use crate::target::Target;

fn process(target: &Target, label: &str) -> Locks {
    let runtime = Arc::new(TokioRuntime::current().unwrap());
    Locks::builder().ttl(LONG).label(label).runtime(runtime).over(target.store()).unwrap()
}

/// A token, as another process reads it.
fn sent(token: &TransferToken) -> TransferToken {
    token.to_string().parse().unwrap()
}

/// The process that transfers the lock may end before the other begins. Nobody gets in between.
pub async fn a_lock_goes_over_to_one_process_and_to_no_second(target: &Target) {
    let (here, there) = (process(target, "giver"), process(target, "adopter"));
    let guard = here.mutex_all(["{k}a", "{k}b"]).lock().await.unwrap();
    let (held, fence) = (guard.held(), guard.fence());
    let token = sent(&guard.transfer(LONG).await.unwrap());
    assert!(!held.is_held());
    assert_eq!(held.loss(), Some(Loss::Transferred));
    here.close(LONG).await.unwrap();
    drop(here);
    refused(&*target.store(), &attempt(&["{k}b"], LONG)).await;

    let guard = there.adopt(&token).await.unwrap();
    assert!(guard.is_held());
    assert_eq!((guard.fence(), guard.held().label()), (fence, Some("adopter")));
    assert_eq!(guard.keys().len(), 2);
    let second = process(target, "late").adopt(&token).await.unwrap_err();
    let TransferError::Lost(Loss::TakenByOther { held_by, .. }) = &second else { panic!("{second:?}") };
    assert!(held_by.to_string().contains("adopter"), "{held_by}");
    assert!(guard.renew(LONG).await.unwrap() > LONG / 2);
    guard.release().await.unwrap();
    let late = there.adopt(&token).await.unwrap_err();
    assert!(matches!(late, TransferError::Lost(Loss::Gone { .. })), "{late:?}");
    take_within(&*target.store(), &attempt(&["{k}a"], SHORT), SHORT).await;
}

/// In a quorum, each of them may reach another member first, and then none of them has it.
pub async fn at_most_one_of_many_adopters_gets_the_lock(target: &Target) {
    let here = process(target, "giver");
    let token = here.mutex("k").lock().await.unwrap().transfer(LONG).await.unwrap();
    let mut adopting = JoinSet::new();
    for n in 0..8 {
        let (there, token) = (process(target, &n.to_string()), sent(&token));
        adopting.spawn(async move { there.adopt(&token).await });
    }
    let guards: Vec<_> = adopting.join_all().await.into_iter().flatten().collect();
    assert!(guards.len() <= 1, "{guards:?}");
    assert!(!target.hands_over() || guards.len() == 1, "nobody has it");
}

/// This holds also if the guard itself had a long lease: only that lasts longer.
pub async fn a_lock_that_nobody_adopts_is_free_after_its_time(target: &Target) {
    let here = process(target, "giver");
    let guard = here.mutex("k").ttl(SHORT).lock().await.unwrap();
    let token = guard.transfer(SHORT).await.unwrap();
    let next = target.store();
    take_within(&*next, &attempt(&["k"], LONG), 4 * SHORT).await;
    let late = process(target, "late").adopt(&token).await.unwrap_err();
    assert!(matches!(late, TransferError::Lost(Loss::TakenByOther { .. })), "{late:?}");
}

/// Any process can do both, even if nobody relies on the lock.
pub async fn a_token_keeps_and_releases_a_lock(target: &Target) {
    let (here, there) = (process(target, "giver"), process(target, "clerk"));
    let token = here.mutex("k").ttl(SHORT).lock().await.unwrap().transfer(SHORT).await.unwrap();
    there.renew_transfer(&token, LONG).await.unwrap();
    here.renew_transfer(&token, SHORT).await.unwrap();
    let left = holders(&*target.store(), "k").await[0].remaining.unwrap();
    assert!(left > LONG / 2, "{left:?} left");
    let there = process(target, "clerk");
    there.release_transfer(&token).await.unwrap();
    assert_eq!(holders(&*target.store(), "k").await, []);
    for done in [there.renew_transfer(&token, LONG).await, there.release_transfer(&token).await] {
        assert!(matches!(done, Err(TransferError::Lost(Loss::Gone { .. }))), "{done:?}");
    }
}

/// As a reader, which keeps writers out.
pub async fn a_reader_goes_over_and_the_others_read_on(target: &Target) {
    let (here, there) = (process(target, "giver"), process(target, "adopter"));
    let stays = here.rw_lock("k").read().await.unwrap();
    let goes = here.rw_lock("k").read().await.unwrap();
    let token = leasehold::Guard::from(goes).transfer(LONG).await.unwrap();
    assert_eq!(holders(&*target.store(), "k").await.len(), 2);
    let went = there.adopt(&sent(&token)).await.unwrap();
    stays.release().await.unwrap();
    assert!(here.rw_lock("k").try_write().await.unwrap().is_none());
    assert!(here.rw_lock("k").try_read().await.unwrap().is_some());
    went.release().await.unwrap();
    take_within(&*target.store(), &attempt(&["k"], SHORT), SHORT).await;
}
