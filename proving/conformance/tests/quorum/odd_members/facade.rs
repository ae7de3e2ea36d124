//! The reports of a quorum about itself, and its refusals before any member is asked.

use conformance::faulty::{CallFate, lasting, passing};
use leasehold_core::{
    AdminStore as _, Baseline, BaselineStore as _, Claim, Fault, GrantAnswer, HoldAnswer, InspectStore as _,
    ScanPosition, Store as _, WaitMode,
};

use super::world::{MAX_TTL, MILLISECOND, SECOND, TTL, WAIT, World, fence, held_at, key, quorum_of};

#[tokio::test(start_paused = true)]
async fn a_lease_longer_than_the_longest_is_refused_for_good_and_one_that_is_as_long_is_served() {
    let (world, quorum) = quorum_of(3);
    let longest = world.attempt_for("k", MAX_TTL);
    fence(&quorum.grant(&longest, WaitMode::Try).await);
    assert_eq!(quorum.renew(std::slice::from_ref(&longest)).await, [Ok(HoldAnswer::Done)]);

    let longer = world.attempt_for("l", MAX_TTL + MILLISECOND);
    let renewals = world.counts("rejoin");
    let refused = quorum.grant(&longer, WaitMode::Try).await.unwrap_err();
    assert!(refused.is_lasting() && refused.reason.contains("20.001s"), "{refused}");
    // One of a batch is refused: nothing in the batch is renewed.
    assert_eq!(quorum.renew(&[longest, longer]).await, [Err(refused.clone()), Err(refused)]);
    assert_eq!((world.counts("grant"), world.counts("rejoin")), (vec![1; 3], renewals));
}

#[tokio::test(start_paused = true)]
async fn a_quorum_is_called_by_its_members_in_their_order() {
    assert_eq!(World::of(3).quorum().name(), "quorum of memory:a, memory:b, memory:c");
}

#[tokio::test(start_paused = true)]
async fn permits_are_refused_before_a_member_is_asked() {
    let world = World::of(3);
    let mut attempt = world.attempt();
    attempt.claim = Claim::permits([key("k")], 1, 2).unwrap();
    let refused = world.quorum().grant(&attempt, WaitMode::Try).await.unwrap_err();
    assert!(refused.is_lasting() && refused.reason.contains("permits"), "{refused}");
    assert_eq!(world.counts("grant"), [0; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_quorum_reports_the_findings_of_its_members() {
    let world = World::of(3);
    assert!(world.quorum().warnings().is_empty());
    world.members[1].says(|facts| facts.warning = Some("it has no disk"));
    assert_eq!(world.quorum().warnings(), ["it has no disk"]);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_keys_inspected_at_once_is_that_of_the_weakest_member() {
    let world = World::of(3);
    world.members.iter().zip([100, 30, 50]).for_each(|(member, most)| {
        member.says(|facts| facts.at_once = most);
    });
    assert_eq!(world.quorum().inspected_at_once(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_quorum_is_open_as_soon_as_a_majority_is_and_says_who_is_not() {
    let (world, quorum) = quorum_of(3);
    world.members[0].on("open", CallFate::Slow(50 * MILLISECOND));
    world.members[2].on("open", CallFate::Hung);
    quorum.open().await.unwrap();
    assert_eq!(world.passed(), 50 * MILLISECOND, "nobody waits for the third");
    world.members[0].on("open", passing("connection refused"));
    let fault = quorum.open().await.unwrap_err();
    assert_eq!(
        fault.to_string(),
        "quorum of memory:a, memory:b, memory:c: 1 of 3 stores opened, 2 did not answer (memory:a: connection \
         refused, memory:c: timed out); 2 needed"
    );
}

#[tokio::test(start_paused = true)]
async fn a_baseline_request_is_done_when_a_majority_has_done_it() {
    let (world, quorum) = quorum_of(3);
    let attempt = world.attempt();
    let pair = Baseline::pair(key("k"), attempt.holder, attempt.ttl);
    world.members[0].on("bare", CallFate::Slow(5 * MILLISECOND));
    world.members[1].on("bare", CallFate::Slow(7 * MILLISECOND));
    world.members[2].on("bare", CallFate::Slow(SECOND));
    quorum.run_baseline(&pair).await.unwrap();
    assert_eq!(world.passed(), 7 * MILLISECOND);
    world.on([0, 1], "bare", lasting("not allowed"));
    let fault = quorum.run_baseline(&pair).await.unwrap_err();
    assert!(fault.to_string().contains("1 of 3 stores answered, 2 refused"), "{fault}");
}

/// If a member of a scan is silent, the keys that a majority holds are found at the others.
#[tokio::test(start_paused = true)]
async fn a_walk_passes_a_silent_member_over_while_a_majority_answers() {
    let (world, quorum, ..) = held_at(3).await;
    world.members[0].on("scan", passing("connection refused"));
    let first = quorum.scan(b"", ScanPosition::default()).await.unwrap();
    assert_eq!((first.keys.len(), first.next), (0, Some(ScanPosition::to_section(1))));
    let second = quorum.scan(b"", first.next.unwrap()).await.unwrap();
    assert_eq!((second.keys, second.next), (vec![key("k")], Some(ScanPosition::to_section(2))));
    world.on(0..3, "open", passing("connection refused"));
    assert!(quorum.scan(b"", ScanPosition::default()).await.is_err(), "nobody can say what is held");
    let beyond = quorum.scan(b"", ScanPosition::to_section(3)).await.unwrap();
    assert_eq!((beyond.keys.len(), beyond.next), (0, None));
}

/// An attempt is forgotten with the answer after which it will not be used again.
#[tokio::test(start_paused = true)]
async fn only_attempts_that_hold_or_wait_are_under_way() {
    let world = World::of(3);
    let (quorum, other) = (world.quorum(), world.quorum());
    let [holder, tries, waits] = [(); 3].map(|()| world.attempt());
    fence(&quorum.grant(&holder, WaitMode::Try).await);
    assert_eq!(quorum.under_way(), 1);
    assert!(matches!(other.grant(&tries, WaitMode::Try).await, Ok(GrantAnswer::Busy { place: None, .. })));
    assert_eq!(other.under_way(), 0, "who tried is not given up, and so is forgotten");
    assert!(matches!(other.grant(&waits, WAIT).await, Ok(GrantAnswer::Busy { place: Some(_), .. })));
    assert_eq!(other.under_way(), 1);
    other.give_up(&waits).await.unwrap();
    quorum.release(&holder).await.unwrap();
    assert_eq!((quorum.under_way(), other.under_way()), (0, 0));
    tokio::time::sleep(SECOND).await;
    let left = format!("{quorum:?} {other:?}");
    assert!(left.contains("attempts") && !left.contains("SharedAttempt"), "{left}");
}

/// Regression: each release of a transferred lock that failed was remembered.
#[tokio::test(start_paused = true)]
async fn a_release_that_fails_of_an_attempt_of_another_process_is_not_remembered() {
    let (world, quorum) = quorum_of(3);
    world.on([0, 1], "release", passing("it is starting"));
    quorum.release(&world.attempt()).await.unwrap_err();
    assert_eq!(quorum.under_way(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_refused_for_good_is_forgotten_and_one_that_no_majority_answered_is_not() {
    let (world, quorum) = quorum_of(3);
    world.on([0, 1], "grant", lasting("not allowed"));
    let fault: Fault = quorum.grant(&world.attempt(), WAIT).await.unwrap_err();
    assert!(fault.is_lasting());
    assert_eq!(quorum.under_way(), 0);
    world.on([0, 1], "grant", passing("it is starting"));
    let attempt = world.attempt_for("other", TTL);
    let fault = quorum.grant(&attempt, WAIT).await.unwrap_err();
    assert!(!fault.is_lasting());
    assert_eq!(quorum.under_way(), 1, "something of it may yet come to a member");
}
