//! Which member said what: the votes in the results and errors of a quorum.

use conformance::faulty::CallFate;
use leasehold::{
    AnyStore, Error, FaultCause, LockError, Locks, Loss, QuorumReport, ReleaseError, Store, TransferError,
};
use leasehold_core::{Attempt, Claim, Holder, WaitMode};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

use super::world::{MAX_TTL, SECOND, TTL, World, holding, process_of};

/// The votes as text.
fn votes(report: Option<&QuorumReport>) -> String {
    report.expect("the error of a quorum has the votes").to_string()
}

/// Ends the lease at these members, which its holder does not notice.
async fn end_at(world: &World, members: &[usize], guard: &leasehold::Guard) {
    let claim = Claim::exclusive(guard.keys().next().unwrap().clone());
    for member in members {
        let ours = Attempt::new(claim.clone(), guard.holder(), None, guard.ttl());
        world.members[*member].release(&ours).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_says_how_many_members_confirmed_it() {
    let (_world, process, guard) = holding(5).await;
    process.set([1], &CallFate::Refused);
    process.set([4], &CallFate::Hung);
    let released = guard.release().await.unwrap().quorum_report.unwrap();
    assert_eq!((released.agreed(), released.needed), (3, 3));
    let text = released.to_string();
    assert!(text.starts_with("3 of 5 stores released, 1 refused (memory:b: "), "{text}");
    assert!(text.contains("memory:e"), "{text}");

    let guard = Locks::in_memory().mutex("k").lock().await.unwrap();
    assert_eq!(guard.release().await.unwrap().quorum_report, None, "one store has no votes");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_comes_too_late_says_which_members_had_the_lease_no_more() {
    let world = World::of(3);
    let guard = world.process().locks.mutex("k").lock().await.unwrap();
    end_at(&world, &[0, 1], &guard).await;
    let error = guard.release().await.unwrap_err();
    assert!(matches!(error, ReleaseError::Expired { .. }), "{error:?}");
    let text = votes(Error::from(error).quorum_report());
    assert!(
        text.contains("2 refused (memory:a: not held there any more, memory:b: not held there"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_says_which_members_lost_it() {
    let (world, process, guard) = holding(3).await;
    end_at(&world, &[0, 2], &guard).await;
    let thief = Claim::exclusive(guard.keys().next().unwrap().clone());
    let stolen = Attempt::new(thief, Holder::from_bits(7), None, guard.ttl());
    for member in [0, 2] {
        world.members[member].grant(&stolen, WaitMode::Try).await.unwrap();
    }
    process.set([1], &CallFate::Hung);
    let loss = guard.lost().await;
    assert!(matches!(loss, Loss::TakenByOther { .. }), "{loss:?}");
    assert!(guard.held_for() <= TTL / 3 + SECOND, "lost after {:?}", guard.held_for());
    let text = votes(Error::from(loss).quorum_report());
    assert!(text.starts_with("0 of 3 stores renewed, 2 refused (memory:a: held by 00000000"), "{text}");
    assert!(text.contains("memory:b"), "{text}");
}

/// The same for a renewal that the program makes itself.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_finds_the_lease_gone_says_at_which_members() {
    let world = World::of(3);
    let guard = world.process().locks.mutex("k").renewal(leasehold::Renewal::Off).lock().await.unwrap();
    end_at(&world, &[0, 1, 2], &guard).await;
    // Where a lease was not broken, a renewal takes it again: so somebody else has it.
    let other = world.process();
    let theirs = other.locks.mutex("k").lock().await.unwrap();
    let text = votes(Error::from(guard.renew(TTL).await.unwrap_err()).quorum_report());
    assert!(text.starts_with("0 of 3 stores renewed, "), "{text}");
    drop(theirs);
}

/// The queue is that of one member, but all were asked before.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_refused_or_waits_in_vain_says_how_the_members_voted() {
    let world = World::of(3);
    let holder = world.process_with(|builder| builder.label("web-3"));
    let _guard = holder.locks.mutex("k").lock().await.unwrap();
    let process = world.process();
    process.set([2], &CallFate::Refused);
    let refused = process.locks.mutex("k").lock().within(Duration::ZERO).await.unwrap_err();
    assert!(matches!(refused, LockError::TimedOut { .. }), "{refused:?}");
    let lock = || process.locks.mutex("k").lock().within(Duration::from_secs(20));
    let (waited, full) = tokio::join!(lock(), async {
        sleep(SECOND).await;
        lock().queue_limit(1).await
    });
    let (waited, full) = (waited.unwrap_err(), full.unwrap_err());
    assert!(matches!(waited, LockError::TimedOut { place: Some(1), .. }), "{waited:?}");
    assert!(matches!(full, LockError::QueueFull { length: 1, .. }), "{full:?}");
    for error in [refused, waited, full] {
        let text = votes(Error::from(error).quorum_report());
        assert!(text.starts_with("0 of 3 stores granted, "), "{text}");
        assert!(text.contains("memory:a: held by web-3") && text.contains("memory:c: "), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_adoption_says_which_members_refused_it() {
    let world = World::of(3);
    let members = world.members.iter().map(|member| AnyStore::from(member.clone() as Arc<dyn Store>));
    let locks = Locks::builder().ttl(TTL).runtime(world.time.clone()).quorum(members, MAX_TTL).unwrap();
    let token = locks.mutex("k").lock().await.unwrap().transfer(TTL).await.unwrap();
    let adopted = locks.adopt(&token).await.unwrap();
    let error = locks.adopt(&token).await.unwrap_err();
    assert!(matches!(error, TransferError::Lost(Loss::TakenByOther { .. })), "{error:?}");
    let text = votes(Error::from(error).quorum_report());
    assert!(text.starts_with("0 of 3 stores transferred, 3 refused (memory:a: held by "), "{text}");
    adopted.release().await.unwrap();
}

/// Its cause was "other", so that a program could not tell it from a refused connection.
#[tokio::test(start_paused = true)]
async fn a_member_that_does_not_answer_has_timed_out() {
    let (_world, process) = process_of(3);
    process.set([0, 1], &CallFate::Hung);
    let error = process.locks.mutex("k").lock().within(TTL).await.unwrap_err();
    assert_eq!(error.fault().map(|fault| fault.cause), Some(FaultCause::TimedOut), "{error:?}");
}

/// Regression: a leader that had waited was reported as new, because its id differs at each member.
#[tokio::test(start_paused = true)]
async fn a_leader_is_reported_once_whichever_members_show_it() {
    let (world, process, guard) = holding(3).await;
    let next = world.process();
    let candidate = next.locks.election("k").candidate("next").stand();
    let waiting = tokio::spawn(candidate.into_future());
    sleep(SECOND).await;
    guard.release().await.unwrap();
    let _leads = waiting.await.unwrap().unwrap();
    let mut leaders = process.locks.election("k").leaders();
    let leader = leaders.next().await.unwrap().unwrap();
    for fate in [CallFate::Hung, CallFate::Fair] {
        process.set([0], &fate);
        let reported = timeout(5 * SECOND, leaders.next()).await;
        assert!(reported.is_err(), "{fate:?}: {leader:?} and then {reported:?}");
    }
}
