//! Leases that are renewed, and lost.

use conformance::faulty::CallFate;
use leasehold::{Loss, RenewError};
use tokio::time::{sleep, timeout};

use super::world::{SECOND, TTL, holding, process_of};

#[tokio::test(start_paused = true)]
async fn a_guard_is_kept_by_any_majority_and_comes_back_where_it_was_missing() {
    let (world, process) = process_of(5);
    process.set([3, 4], &CallFate::Lost);
    let guard = process.locks.mutex("k").lock().await.unwrap();
    assert_eq!(world.taken(), 3);
    process.set([3, 4], &CallFate::Fair);
    sleep(TTL / 2).await;
    assert_eq!(world.taken(), 5, "the renewal took it where nobody else has it");
    process.set([0, 1], &CallFate::Hung);
    sleep(5 * TTL).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_renewal_confirmed_by_a_minority_extends_nothing_and_releases_nothing() {
    let (world, process, guard) = holding(3).await;
    process.set([0, 2], &CallFate::Lost);
    assert!(matches!(guard.renew(TTL).await, Err(RenewError::Unreachable(_))));
    assert_eq!(world.taken(), 3);
    let loss = guard.lost().await;
    let Loss::Expired { fault: Some(fault) } = &loss else { panic!("{loss:?}") };
    assert!(fault.to_string().contains("1 of 3 stores renewed, 2 did not answer"), "{fault}");
    assert_eq!(guard.held_for(), TTL, "not before its end and not after");
}

/// Regression: only the next renewal of an adopted guard found out.
#[tokio::test(start_paused = true)]
async fn an_adopted_guard_is_told_at_once_that_its_lease_was_broken() {
    let (world, process, guard) = holding(3).await;
    let token = guard.transfer(TTL).await.unwrap();
    let adopted = world.process().locks.adopt(&token).await.unwrap();
    process.locks.break_lease("k", adopted.fence()).await.unwrap();
    let loss = adopted.lost().await;
    assert!(matches!(loss, Loss::Broken { .. }), "{loss:?}");
    assert!(adopted.held_for() < SECOND, "{:?}", adopted.held_for());
    sleep(TTL).await;
    assert!(world.is_empty(), "no renewal took it again");
}

#[tokio::test(start_paused = true)]
async fn a_loss_that_only_the_release_finds_is_told_to_whoever_waits_for_it() {
    let (world, _process, guard) = holding(3).await;
    let held = guard.held();
    let lost = tokio::spawn(async move { held.lost().await });
    sleep(SECOND).await;
    world.members.iter().for_each(|member| member.forget());
    guard.release().await.unwrap_err();
    let loss = timeout(SECOND, lost).await.expect("told at once").unwrap();
    assert!(matches!(loss, Loss::Gone { .. }), "{loss:?}");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_delayed_past_the_release_brings_nothing_back() {
    let (world, process, guard) = holding(3).await;
    process.set([0, 1], &CallFate::Late(2 * SECOND));
    sleep(TTL / 3 + SECOND / 10).await;
    process.set([0, 1], &CallFate::Fair);
    guard.release().await.unwrap();
    assert!(world.is_empty());
    sleep(2 * SECOND).await;
    assert!(world.is_empty());
}

#[tokio::test(start_paused = true)]
async fn thousands_of_guards_are_renewed_in_batches_at_each_member() {
    let (_world, process) = process_of(3);
    let mut guards = Vec::new();
    for n in 0..1_000 {
        guards.push(process.locks.mutex(format!("k{n}")).lock().await.unwrap());
    }
    let before = process.calls();
    sleep(TTL / 2).await;
    assert!(guards.iter().all(leasehold::Guard::is_held));
    assert_eq!(process.calls() - before, 3 * 5);
}
