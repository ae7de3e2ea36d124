//! The answer to an attempt, and the requests to the members, if these answer differently.

use std::time::Duration;

use conformance::faulty::{CallFate, Does, lasting, passing};
use leasehold_core::{GrantAnswer, InspectStore as _, Stamp, Store as _, WaitMode};

use super::world::{MILLISECOND, SECOND, TTL, WAIT, World, fence, is_refused, key, quorum_of};

/// The time of a grant, with members that answer after these delays, or never.
async fn grant_with(late: [Option<u32>; 3]) -> Duration {
    let world = World::of(3);
    world.answers_after("grant", late);
    fence(&world.quorum().grant(&world.attempt(), WaitMode::Try).await);
    world.passed()
}

#[tokio::test(start_paused = true)]
async fn a_grant_waits_for_a_majority_and_briefly_for_the_queue_member() {
    assert_eq!(grant_with([Some(0), Some(5), None]).await, 5 * MILLISECOND);
    assert_eq!(grant_with([Some(50), Some(5), Some(5)]).await, 50 * MILLISECOND);
    assert_eq!(grant_with([None, Some(5), Some(5)]).await, 105 * MILLISECOND, "no longer than 100 ms more");
}

#[tokio::test(start_paused = true)]
async fn a_queue_member_that_hung_is_not_waited_for_again_until_it_answers() {
    let (world, quorum) = quorum_of(3);
    world.members[0].on("grant", CallFate::Hung);
    fence(&quorum.grant(&world.attempt(), WaitMode::Try).await);
    assert_eq!(world.passed(), 100 * MILLISECOND);
    fence(&quorum.grant(&world.attempt_for("l", TTL), WaitMode::Try).await);
    assert_eq!(world.passed(), 100 * MILLISECOND);
    world.members[0].on("grant", CallFate::Slow(MILLISECOND));
    quorum.inspect(&key("k")).await.unwrap();
    fence(&quorum.grant(&world.attempt_for("m", TTL), WaitMode::Try).await);
    assert_eq!(world.passed(), 101 * MILLISECOND, "it answers again");
}

/// Regression: its answer was awaited until the lease would have ended.
#[tokio::test(start_paused = true)]
async fn a_grant_waits_for_no_member_that_panics() {
    let (world, quorum) = quorum_of(3);
    world.on([0, 1], "grant", CallFate::Panics);
    let fault = quorum.grant(&world.attempt(), WaitMode::Try).await.unwrap_err().to_string();
    let words = "1 of 3 stores granted, 2 did not answer (memory:a: the call ended without an answer, \
                 memory:b: the call ended without an answer)";
    assert!(fault.contains(words), "{fault}");
    assert_eq!(world.passed(), Duration::ZERO);
}

/// One holder at a majority decides: no other member is waited for, and nothing is kept anywhere.
#[tokio::test(start_paused = true)]
async fn a_try_that_one_holder_refuses_at_a_majority_goes_at_once_and_leaves_nothing() {
    let world = World::of(5);
    world.rival_at([1, 2, 4]).await;
    world.on([0, 3], "grant", CallFate::Slow(30 * MILLISECOND));
    let answer = world.quorum().grant(&world.attempt(), WaitMode::Try).await;
    is_refused(&answer);
    assert_eq!(world.passed(), Duration::ZERO);
    tokio::time::sleep(SECOND).await;
    assert_eq!(world.taken(), [1, 2, 4], "what came late is undone");
}

/// Regression: the holder at the first member was named.
#[tokio::test(start_paused = true)]
async fn a_try_names_the_holder_at_a_majority_and_not_what_a_dead_process_left_at_the_first_member() {
    let (world, quorum) = quorum_of(5);
    world.rival_at([0]).await;
    let holder = world.rival_at([1, 2, 3]).await.holder;
    let answer = quorum.grant(&world.attempt(), WaitMode::Try).await.unwrap();
    let GrantAnswer::Busy { held_by, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(held_by.owner.holder(), Some(holder));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_in_one_queue_and_from_then_on_asks_only_that_member() {
    let (world, quorum) = quorum_of(3);
    let rival = world.rival_at([0, 1]).await;
    let waits = world.attempt();
    let answer = quorum.grant(&waits, WaitMode::Wait { queue_limit: Some(4) }).await;
    assert!(matches!(answer, Ok(GrantAnswer::Busy { place: Some(_), .. })), "{answer:?}");
    tokio::time::sleep(MILLISECOND).await;
    assert_eq!((world.taken(), world.lines()), (vec![0, 1], vec![1, 0, 0]));
    assert_eq!(world.counts("give_up"), [0, 1, 1], "it has nothing anywhere else");
    // A waiter that finds the key held at another member would be in two queues.
    let wait_modes: Vec<_> = world.members.iter().map(|member| member.wait_modes()).collect();
    assert_eq!(wait_modes, [[WaitMode::Wait { queue_limit: Some(4) }], [WaitMode::Try], [WaitMode::Try]]);

    assert!(matches!(quorum.grant(&waits, WAIT).await, Ok(GrantAnswer::Busy { .. })));
    assert_eq!(world.counts("grant"), [2, 1, 1]);
    world.rival_leaves(&rival, [1, 0]).await;
    quorum.woken(&waits).await;
    world.on(0..3, "grant", CallFate::Slow(5 * MILLISECOND));
    let begun = world.passed();
    fence(&quorum.grant(&waits, WAIT).await);
    assert_eq!(world.passed() - begun, 5 * MILLISECOND, "the key was handed over, so all are asked at once");
    assert_eq!((world.counts("grant"), world.taken()), (vec![3, 2, 2], vec![0, 1, 2]));
    assert_eq!(world.members[0].asked("grant")[2].holder, waits.holder);
}

/// The member of its queue reports it as full; another one only reports that the key is held.
#[tokio::test(start_paused = true)]
async fn a_full_queue_at_another_member_does_not_prevent_a_majority() {
    let world = World::of(3);
    world.rival_at([1]).await;
    let held_by = world.members[1].memory.inspect(&key("k")).await.unwrap().holders.remove(0);
    world.members[1].on("grant", Does::Says(GrantAnswer::QueueFull { held_by, length: 3 }));
    fence(&world.quorum().grant(&world.attempt(), WAIT).await);
    assert_eq!(world.taken(), [0, 1, 2]);
}

/// The queue may be gone with its member: it is in none, and all members are asked.
#[tokio::test(start_paused = true)]
async fn a_queued_waiter_starts_over_when_too_few_members_answer() {
    let (world, quorum) = quorum_of(3);
    world.rival_at([0, 1]).await;
    let waits = world.attempt();
    assert!(matches!(quorum.grant(&waits, WAIT).await, Ok(GrantAnswer::Busy { .. })));
    world.on([1, 2], "grant", passing("it is down"));
    world.fall_silent(&quorum, &[1, 2]).await;
    let fault = quorum.grant(&waits, WAIT).await.unwrap_err();
    assert!(fault.to_string().contains("0 of 3 stores granted, 1 refused (memory:a: held by"), "{fault}");
    let ids = world.ids_at(0);
    assert!(ids.len() == 2 && ids[0] == waits.holder && ids[1] != ids[0], "{ids:?}");
    tokio::time::sleep(MILLISECOND).await;
    assert_eq!(world.lines()[0], 0);
}

/// Its rivals, which have one other member each, release when they lose; a dead process does not.
#[tokio::test(start_paused = true)]
async fn a_try_on_a_split_vote_asks_ever_more_rarely_for_a_second_and_then_goes() {
    let world = World::of(3);
    for member in [1, 2] {
        world.rival_at([member]).await;
    }
    let answer = world.quorum().grant(&world.attempt(), WaitMode::Try).await;
    is_refused(&answer);
    let (took, asked) = (world.passed(), world.counts("grant"));
    assert!(took >= SECOND && took <= SECOND + 300 * MILLISECOND, "{took:?}");
    assert!(asked[0] == 1 && asked[1] == asked[2] && (8..25).contains(&asked[1]), "{asked:?}");
    tokio::time::sleep(MILLISECOND).await;
    assert_eq!(world.taken(), [1, 2]);
}

/// Its rivals asked first, and each has found that another process has the queue member's key.
#[tokio::test(start_paused = true)]
async fn the_rival_with_the_first_members_key_continues_when_each_has_some_members() {
    let world = World::of(3);
    world.rival_at([0]).await;
    world.rival_at([1]).await;
    let answer = world.quorum().grant(&world.attempt(), WaitMode::Try).await;
    is_refused(&answer);
    assert_eq!((world.passed(), world.counts("grant")), (Duration::ZERO, vec![1; 3]));
}

#[tokio::test(start_paused = true)]
async fn a_try_on_a_split_vote_is_served_if_one_of_the_others_goes() {
    let world = World::of(3);
    let rivals = [world.rival_at([1]).await, world.rival_at([2]).await];
    let (attempt, quorum) = (world.attempt(), world.quorum());
    let goes = async {
        tokio::time::sleep(MILLISECOND).await;
        world.members[2].memory.release(&rivals[1]).await.unwrap();
    };
    let (answer, ()) = tokio::join!(quorum.grant(&attempt, WaitMode::Try), goes);
    fence(&answer);
    assert_eq!((world.counts("grant"), world.taken()), (vec![1, 2, 2], vec![0, 1, 2]));
}

/// Regression: a refused connection and one holder came first: a try heard that no majority answers.
#[tokio::test(start_paused = true)]
async fn a_try_reports_a_held_lock_even_if_the_queue_member_fails_before_the_others_answer() {
    for (members, down) in [(3, 1), (5, 1), (5, 2)] {
        let world = World::of(members);
        fence(&world.quorum().grant(&world.attempt(), WaitMode::Try).await);
        for member in &world.members[..down] {
            member.on("grant", passing("connection refused"));
        }
        let quorum = world.quorum();
        let answer = quorum.grant(&world.attempt(), WaitMode::Try).await;
        assert!(
            matches!(answer, Ok(GrantAnswer::Busy { place: None, .. })),
            "{down} of {members}: {answer:?}"
        );
        assert_eq!((world.passed(), quorum.under_way()), (Duration::ZERO, 0));
    }
}

/// One of five abstains, and two are held: the error does not call the lock held.
#[tokio::test(start_paused = true)]
async fn failing_members_are_named_if_the_holders_are_too_few_to_refuse_the_lock() {
    let world = World::of(5);
    world.rival_at([2]).await;
    world.on([1, 3], "grant", passing("it is starting"));
    let fault = world.quorum().grant(&world.attempt(), WaitMode::Try).await.unwrap_err();
    assert!(!fault.is_lasting());
    let text = fault.to_string();
    let words = [
        "2 of 5 stores granted, 1 refused (memory:c: held by ",
        "2 did not answer (memory:b: it is starting, ",
    ];
    assert!(words.iter().all(|words| text.contains(words)), "{text}");
    tokio::time::sleep(SECOND).await;
    assert_eq!(world.taken(), [2], "what was granted is given back");
}

#[tokio::test(start_paused = true)]
async fn a_members_refusal_is_the_answer_when_no_majority_can_contradict_it() {
    let not_a_lock = || Does::Says(GrantAnswer::NotALock { key: key("k") });
    let spent = || Does::Says(GrantAnswer::FencesSpent { key: key("k") });
    let world = World::of(3);
    world.members[0].on("grant", not_a_lock());
    fence(&world.quorum().grant(&world.attempt(), WaitMode::Try).await);
    let world = World::of(3);
    world.members[0].on("grant", not_a_lock());
    world.members[2].on("grant", lasting("not allowed"));
    let answer = world.quorum().grant(&world.attempt(), WaitMode::Try).await;
    assert_eq!(answer, Ok(GrantAnswer::NotALock { key: key("k") }));
    world.on([0, 2], "grant", spent());
    let answer = world.quorum().grant(&world.attempt(), WaitMode::Try).await;
    assert_eq!(answer, Ok(GrantAnswer::FencesSpent { key: key("k") }));
    // An answer that may differ next time is an error.
    world.members[2].on("grant", Does::Says(GrantAnswer::TooLate { now: Stamp::from_micros(1) }));
    let fault = world.quorum().grant(&world.attempt(), WaitMode::Try).await.unwrap_err();
    let words = "1 refused (memory:a: the fences of the key are used up), 1 did not answer (memory:c: it was asked too late)";
    assert!(!fault.is_lasting() && fault.to_string().contains(words), "{fault}");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_did_not_finish_is_asked_again_at_once() {
    let world = World::of(3);
    world.members[1].once("grant", Does::Says(GrantAnswer::Unfinished));
    world.members[2].on("grant", CallFate::Hung);
    fence(&world.quorum().grant(&world.attempt(), WaitMode::Try).await);
    assert_eq!((world.counts("grant"), world.passed()), (vec![1, 2, 1], Duration::ZERO));
}

/// The members answered different fences, and are raised to the greatest before anybody may use it.
#[tokio::test(start_paused = true)]
async fn the_fence_of_a_grant_is_the_greatest_that_any_member_answered_and_the_next_is_greater() {
    let (world, quorum) = quorum_of(3);
    let ahead = fence(&quorum.grant(&world.attempt_for("other", TTL), WaitMode::Try).await);
    let high = leasehold_core::Fence::new(ahead.get() + 1_000_000).unwrap();
    world.members[1].once("grant", Does::Says(GrantAnswer::Granted { fence: high }));
    fence(&quorum.grant(&world.attempt(), WaitMode::Try).await);
    let next = fence(&quorum.grant(&world.attempt_for("l", TTL), WaitMode::Try).await);
    assert!(next > high, "{next} after {high} was seen");
}

/// Regression: identities are known after an answer, so the first lock was counted three times.
#[tokio::test(start_paused = true)]
async fn a_majority_of_names_for_one_place_grants_nothing_also_when_that_is_known_only_by_their_answers() {
    let world = World::of(3);
    world.on(0..3, "grant", CallFate::Slow(10 * MILLISECOND));
    let (quorum, attempt) = (world.quorum(), world.attempt());
    let tell = async {
        tokio::time::sleep(5 * MILLISECOND).await;
        world.members[..2].iter().for_each(|member| member.says(|facts| facts.identity = Some("run 7")));
    };
    let (answer, ()) = tokio::join!(quorum.grant(&attempt, WaitMode::Try), tell);
    let fault = answer.unwrap_err();
    assert!(fault.is_lasting() && fault.reason.contains("memory:a and memory:b are one server"), "{fault}");
    tokio::time::sleep(SECOND).await;
    assert_eq!((world.taken(), quorum.under_way()), (vec![], 0));
}

/// A user who has to wait until they vote would learn of a wrong list of members only then.
#[tokio::test(start_paused = true)]
async fn members_that_abstain_also_show_that_they_are_one_server() {
    let world = World::of(3);
    world.on(0..3, "grant", passing("it abstains"));
    world.members[..2].iter().for_each(|member| member.says(|facts| facts.identity = Some("run 7")));
    let fault = world.quorum().grant(&world.attempt(), WaitMode::Try).await.unwrap_err();
    assert!(fault.is_lasting() && fault.reason.contains("memory:a and memory:b are one server"), "{fault}");
}

/// Regression: two members refused, and the healthy third was reported as not having answered.
#[tokio::test(start_paused = true)]
async fn an_error_includes_the_answers_of_the_healthy_members() {
    let world = World::of(3);
    world.on([0, 1], "grant", passing("connection refused"));
    world.members[2].on("grant", CallFate::Slow(50 * MILLISECOND));
    let fault = world.quorum().grant(&world.attempt(), WaitMode::Try).await.unwrap_err();
    assert!(fault.to_string().contains("1 of 3 stores granted, 2 did not answer"), "{fault}");
    assert_eq!(world.passed(), 50 * MILLISECOND);
}
