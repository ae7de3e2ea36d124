//! Members that are slow, silent or gone.

use std::time::Duration;

use conformance::faulty::{CallFate, passing};
use leasehold::{LockError, MemberVote, TransferError};
use tokio::time::sleep;

use super::world::{MAX_TTL, SECOND, TTL, World, process_of};

const TRIP: Duration = Duration::from_millis(3);

/// The time of an acquisition, after one that finds out which members are silent.
async fn second_acquisition_with(silent: &[usize], fate: &CallFate) -> Duration {
    let (world, process) = process_of(5);
    process.set(0..5, &CallFate::Slow(TRIP));
    process.set(silent.iter().copied(), fate);
    drop(process.locks.mutex("first").lock().await.unwrap());
    sleep(SECOND).await;
    let begun = world.time.passed();
    let guard = process.locks.mutex("k").lock().await.unwrap();
    let took = world.time.passed() - begun;
    guard.release().await.unwrap();
    assert_eq!(world.time.passed() - begun, took + TRIP, "the release waits for nobody either");
    took
}

/// redlock 4 and 5 and redis-dlm wait for all servers: with one stopped, acquiring never returned.
#[tokio::test(start_paused = true)]
async fn a_hung_member_slows_nobody_whichever_it_is() {
    assert_eq!(second_acquisition_with(&[], &CallFate::Fair).await, TRIP);
    for silent in 0..5 {
        assert_eq!(second_acquisition_with(&[silent], &CallFate::Hung).await, TRIP, "member {silent}");
    }
    assert_eq!(second_acquisition_with(&[0, 3], &CallFate::Hung).await, TRIP);
}

#[tokio::test(start_paused = true)]
async fn with_a_majority_killed_the_error_names_each_member_and_comes_in_time() {
    for fate in [CallFate::Lost, CallFate::Hung] {
        let world = World::of(5);
        let process = world.process_with(|builder| builder.outage_limit(4 * SECOND));
        process.set([1, 2, 4], &fate);
        let LockError::NoQuorum { quorum_report, waited, attempts, .. } =
            process.locks.mutex("k").lock().await.unwrap_err()
        else {
            panic!("no majority answers")
        };
        assert!(waited <= 4 * SECOND && attempts > 1, "{waited:?}, {attempts} attempts");
        assert_eq!(quorum_report.needed, 3);
        assert_eq!(
            quorum_report.to_string(),
            "2 of 5 stores granted, 3 did not answer (memory:b: timed out, memory:c: timed out, \
             memory:e: timed out); 3 needed"
        );
        sleep(2 * SECOND).await;
        assert_eq!(world.taken(), 0, "nothing is left at those that answer");
    }
}

/// Regression: with most members hung, a close without guards waited a second time.
#[tokio::test(start_paused = true)]
async fn a_close_without_guards_takes_no_longer_than_it_may_while_a_majority_is_hung() {
    let world = World::of(5);
    let process = world.process_with(|builder| builder.outage_limit(SECOND));
    process.set([0, 2, 3], &CallFate::Hung);
    let error = process.locks.mutex("k").lock().await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    let begun = world.time.passed();
    process.locks.close(2 * SECOND).await.unwrap_err();
    let took = world.time.passed() - begun;
    assert!(took <= 2 * SECOND, "{took:?}");
    sleep(SECOND).await;
    assert_eq!(world.taken(), 0, "nothing is left at those that answer");
}

/// Regression: a refused process ended before its releases were sent, and its grants lasted a TTL.
#[tokio::test(start_paused = true)]
async fn a_close_waits_for_what_a_refused_request_left_at_a_minority() {
    let late = Duration::from_millis(50);
    for fate in [CallFate::Fair, CallFate::Slow(late), CallFate::Late(late)] {
        let world = World::of(3);
        let (holder, loser) = (world.process(), world.process());
        holder.set([2], &CallFate::Lost);
        let guard = holder.locks.mutex("k").lock().await.unwrap();
        loser.set([2], &fate);
        assert!(loser.locks.mutex("k").try_lock().await.unwrap().is_none());
        loser.locks.close(SECOND).await.unwrap();
        assert_eq!(world.taken(), 2, "{fate:?}");
        assert!(guard.is_held());
    }
}

/// The release overtakes a slow grant, and is answered after it.
#[tokio::test(start_paused = true)]
async fn a_close_waits_for_what_a_release_left_at_a_slow_member() {
    let (world, process) = process_of(3);
    let slow = |trips| CallFate::Late(trips * TRIP);
    process.way[2].says(|facts| facts.batches = false);
    process.way[2].on("grant", slow(1));
    process.way[2].on("release", CallFate::Slow(2 * TRIP));
    process.way[2].on("give_up", slow(1));
    process.locks.mutex("k").lock().await.unwrap().release().await.unwrap();
    process.locks.close(SECOND).await.unwrap();
    assert_eq!(world.taken(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_refuses_for_good_differs_from_a_silent_one() {
    let (world, process) = process_of(3);
    process.set([0, 1], &CallFate::Refused);
    let LockError::Refused { fault, .. } = process.locks.mutex("k").lock().await.unwrap_err() else {
        panic!("it would be refused again")
    };
    let quorum_report = fault.quorum_report.unwrap();
    assert!(
        matches!(&quorum_report.members[0].1, MemberVote::Refused(fault) if &*fault.reason == "not allowed")
    );
    assert_eq!(world.time.passed(), Duration::ZERO, "at once");
    sleep(SECOND).await;
    assert!(world.is_empty());
    assert_eq!(process.store.under_way(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_loser_releases_also_at_members_that_were_silent() {
    let world = World::of(3);
    let (holder, loser) = (world.process(), world.process());
    holder.set([2], &CallFate::Lost);
    let guard = holder.locks.mutex("k").lock().await.unwrap();
    loser.set([2], &CallFate::AnswerLost);
    assert!(loser.locks.mutex("k").try_lock().await.unwrap().is_none());
    sleep(3 * SECOND).await;
    loser.set([2], &CallFate::Fair);
    sleep(3 * SECOND).await;
    let left = world.members[2].dump();
    assert!(left.locks.is_empty() || guard.is_held() && world.taken() == 3, "{left:?}");
    holder.set([2], &CallFate::Fair);
    guard.release().await.unwrap();
    sleep(SECOND).await;
    assert!(world.is_empty());
}

/// A release that goes only where a grant is known leaves the lock where the answer was lost.
#[tokio::test(start_paused = true)]
async fn a_guard_is_released_also_at_a_member_whose_answer_was_lost() {
    let (world, process) = process_of(3);
    process.set([2], &CallFate::AnswerLost);
    let guard = process.locks.mutex("k").lock().await.unwrap();
    process.set([2], &CallFate::Fair);
    sleep(SECOND).await;
    assert_eq!(world.taken(), 3);
    guard.release().await.unwrap();
    sleep(SECOND).await;
    assert!(world.is_empty());
}

/// Regression: a waiter tried to leave stopped members only for as long as a lease could last there.
#[tokio::test(start_paused = true)]
async fn a_place_in_the_queue_is_given_up_even_after_its_member_was_silent_beyond_the_longest_ttl() {
    let world = World::of(3);
    let process = world.process_with(|builder| builder.ttl(SECOND));
    let guard = world.process().locks.mutex("k").lock().await.unwrap();
    let waits = tokio::spawn(process.locks.mutex("k").lock().into_future());
    sleep(SECOND).await;
    process.set([0], &CallFate::Lost);
    waits.abort();
    sleep(MAX_TTL + 2 * SECOND).await;
    let is_left = || world.members[0].dump().queues.values().any(|line| !line.is_empty());
    assert!(is_left());
    process.set([0], &CallFate::Fair);
    // The next request finds that the member answers again.
    drop(process.locks.mutex("other").lock().await.unwrap());
    sleep(SECOND / 2).await;
    assert!(!is_left());
    drop(guard);
}

/// A slow member has not answered the grant when it is asked to release. Unless it says that it
/// released something, the grant is undone when it ends.
#[tokio::test(start_paused = true)]
async fn a_member_that_is_only_slow_is_asked_to_grant_once_and_to_release_once() {
    let slow = Duration::from_millis(50);
    for fate in [CallFate::Slow(slow), CallFate::Late(slow)] {
        let (world, process) = process_of(5);
        process.set([3, 4], &fate);
        for serial in 0..3 {
            let before = process.calls();
            process.locks.mutex("k").lock().await.unwrap().release().await.unwrap();
            sleep(5 * SECOND).await;
            assert!(world.is_empty(), "{fate:?}");
            if serial > 0 {
                assert_eq!(process.calls() - before, 5 + 5, "{fate:?}");
            }
        }
    }
}

/// Regression: after a wait, the lock has other ids at members, but was released by the first.
#[tokio::test(start_paused = true)]
async fn a_member_that_missed_a_transfer_releases_the_lock_when_it_is_back() {
    let world = World::of(3);
    let (first, next) = (world.process(), world.process());
    let guard = first.locks.mutex("k").lock().await.unwrap();
    let waiting = tokio::spawn(next.locks.mutex("k").lock().into_future());
    sleep(SECOND).await;
    guard.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(world.taken(), 3);
    next.way[2].once("transfer", CallFate::Lost);
    let token = guard.transfer(TTL).await.unwrap();
    sleep(SECOND).await;
    assert_eq!(world.taken(), 2, "the third has nothing for whoever adopts it");
    next.locks.adopt(&token).await.unwrap().release().await.unwrap();
    sleep(SECOND).await;
    assert!(world.is_empty());
    assert_eq!(next.store.under_way(), 0);
}

/// Regression: a member that had been away named a greater fence than the agreed one, so a repeated
/// release took the adopter for a later holder, and returned as if it had released the lock.
#[tokio::test(start_paused = true)]
async fn a_transferred_lock_that_was_adopted_is_not_said_to_be_released_whatever_fence_a_member_has() {
    let (world, giver) = process_of(3);
    let [next, other] = [(); 2].map(|()| world.process());
    giver.set([0], &CallFate::Refused);
    let guard = giver.locks.mutex("k").lock().await.unwrap();
    giver.set([0], &CallFate::Fair);
    sleep(Duration::from_millis(5)).await;
    assert!(next.locks.mutex("k").try_lock().await.unwrap().is_none());
    sleep(Duration::from_millis(5)).await;
    guard.renew(TTL).await.unwrap();
    let token = guard.transfer(TTL).await.unwrap();
    other.set(0..3, &passing("connection refused"));
    let releasing = other.locks.release_transfer(&token);
    let adopting = async {
        sleep(Duration::from_millis(20)).await;
        let adopted = next.locks.adopt(&token).await.unwrap();
        other.set(0..2, &CallFate::Fair);
        adopted
    };
    let (released, adopted) = tokio::join!(releasing, adopting);
    assert!(adopted.is_held() && matches!(released, Err(TransferError::Lost(_))), "{released:?}");
}

/// The lock may have been adopted and released elsewhere; a later holder has a greater fence.
#[tokio::test(start_paused = true)]
async fn a_member_that_missed_a_transfer_confirms_no_adoption() {
    let world = World::of(3);
    let (giver, adopter) = (world.process(), world.process());
    giver.way[2].once("transfer", CallFate::Lost);
    let token = giver.locks.mutex("k").lock().await.unwrap().transfer(TTL).await.unwrap();
    sleep(SECOND).await;
    adopter.set([1], &CallFate::Hung);
    let adopted = adopter.locks.adopt(&token).await;
    assert!(matches!(adopted, Err(TransferError::Unconfirmed(_))), "{adopted:?}");
    adopter.set([1], &CallFate::Fair);
    sleep(SECOND).await;
    let token = giver.locks.mutex("k").lock().within(2 * TTL).await.unwrap().transfer(TTL).await.unwrap();
    adopter.locks.adopt(&token).await.unwrap().release().await.unwrap();
}

/// Regression: a member that missed an adoption kept the lock for the token. When another one failed,
/// the adopter lost its lease, although two of three members answered.
#[tokio::test(start_paused = true)]
async fn a_member_that_missed_an_adoption_keeps_nothing_for_the_token() {
    let world = World::of(3);
    let (giver, adopter) = (world.process(), world.process());
    adopter.way[2].once("transfer", CallFate::Lost);
    let token = giver.locks.mutex("k").lock().await.unwrap().transfer(TTL).await.unwrap();
    adopter.locks.adopt(&token).await.unwrap().release().await.unwrap();
    sleep(SECOND).await;
    assert!(world.is_empty());

    let token = giver.locks.mutex("k").lock().await.unwrap().transfer(TTL).await.unwrap();
    let short = world.process_with(|builder| builder.ttl(2 * SECOND));
    short.way[2].once("transfer", CallFate::Lost);
    let adopted = short.locks.adopt(&token).await.unwrap();
    sleep(2 * SECOND).await;
    short.set([1], &CallFate::Hung);
    sleep(TTL).await;
    assert!(adopted.is_held(), "the third member has taken the lease");
}
