//! Members that lose their data.

use conformance::faulty::CallFate;
use leasehold::LockError;
use tokio::time::sleep;

use super::world::{MAX_TTL, SECOND, TTL, World, holding, process_of};

/// Redlock's flaw (Kleppmann): one of two that hold, restarted empty, forms a majority with the third.
#[tokio::test(start_paused = true)]
async fn a_member_that_was_restarted_empty_helps_nobody_to_a_second_lock() {
    let world = World::of(3);
    let (first, second) = (world.process(), world.process());
    first.set([2], &CallFate::Lost);
    let guard = first.locks.mutex("k").lock().await.unwrap();
    world.members[0].forget();
    let error = second.locks.mutex("k").lock().within(SECOND).await.unwrap_err();
    assert!(!matches!(error, LockError::Unreachable { .. }), "{error}");
    assert!(guard.is_held());
    sleep(TTL / 2).await;
    assert!(guard.is_held() || second.locks.mutex("k").try_lock().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_quarantined_member_is_named_with_the_time_that_is_left() {
    let world = World::of(3);
    let process = world.process_with(|builder| builder.outage_limit(2 * SECOND));
    process.set([2], &CallFate::Lost);
    world.members[1].forget();
    sleep(SECOND / 2).await;
    let error = process.locks.mutex("k").lock().within(4 * SECOND).await.unwrap_err();
    let LockError::NoQuorum { quorum_report, .. } = &error else { panic!("{error}") };
    let text = quorum_report.to_string();
    let words = [
        "1 of 3 stores granted, 1 refused (memory:b: quarantined for ",
        " s more (first use, or restarted without its state)), 1 did not answer (memory:c: timed out); 2 needed",
    ];
    assert!(words.iter().all(|words| text.contains(words)), "{text}");
}

/// Each restarts once the one before votes again: locks stay held, adopted ones too, and fences rise.
#[tokio::test(start_paused = true)]
async fn a_guard_outlives_rolling_restarts_and_fences_rise_across_them() {
    let (world, process) = process_of(3);
    let guard = process.locks.mutex("held").lock().await.unwrap();
    let token = process.locks.mutex("adopted").lock().await.unwrap().transfer(TTL).await.unwrap();
    let next = world.process();
    let adopted = next.locks.adopt(&token).await.unwrap();
    let mut last = None;
    for round in 0..6 {
        for _ in 0..3 {
            let taken = process.locks.mutex("k").lock().await.unwrap();
            assert!(last < Some(taken.fence()), "round {round}: {} after {last:?}", taken.fence());
            last = Some(taken.fence());
            taken.release().await.unwrap();
        }
        world.members[round % 3].forget();
        sleep(MAX_TTL + TTL).await;
        assert!(guard.is_held() && adopted.is_held(), "round {round}");
    }
    drop(adopted);
    sleep(SECOND).await;
    assert_eq!(next.store.under_way(), 0);
    assert!(world.process().locks.mutex("held").try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn when_all_have_forgotten_the_guard_is_lost_and_nobody_is_granted_before_it_would_have_ended() {
    let (world, _process, guard) = holding(3).await;
    sleep(SECOND).await;
    world.members.iter().for_each(|member| member.forget());
    let (next, begun) = (world.process(), world.time.passed());
    let waits = tokio::spawn(next.locks.mutex("k").lock().within(3 * TTL).into_future());
    guard.lost().await;
    assert!(world.time.passed() <= TTL);
    assert!(!waits.is_finished());
    let taken = waits.await.unwrap().expect("it waits until the members vote again");
    assert!(world.time.passed() - begun >= MAX_TTL && taken.fence() > guard.fence());
}

/// Regression: a new quorum's first lock failed at the outage limit, as if its stores had restarted.
#[tokio::test(start_paused = true)]
async fn the_first_lock_of_a_new_quorum_waits_until_its_members_vote_and_a_try_is_refused_at_once() {
    let world = World::of(3);
    world.members.iter().for_each(|member| member.forget());
    let process = world.process_with(|builder| builder.outage_limit(SECOND));
    let error = process.locks.mutex("k").try_lock().await.unwrap_err();
    let words =
        ["0 of 3 stores granted, 3 refused (memory:a: quarantined for 11 s more (first use, or restarted"];
    assert!(words.iter().all(|words| error.to_string().contains(words)), "{error}");
    assert_eq!(world.time.passed(), std::time::Duration::ZERO);
    let guard = process.locks.mutex("k").lock().await.unwrap();
    let waited = world.time.passed();
    assert!(waited >= MAX_TTL && waited <= MAX_TTL + 3 * SECOND, "{waited:?}");
    guard.release().await.unwrap();
    assert_eq!(process.store.under_way(), 0);
}
