//! Undoing what an attempt left, or may have left, at members that do not answer.

use std::sync::Arc;

use conformance::faulty::{self, CallFate, Faulty, lasting, passing};
use leasehold::TokioRuntime;
use leasehold_core::{GrantAnswer, InspectStore as _, Notice, Store as _, WaitMode, WaitQueue};

use super::world::{MAX_TTL, MILLISECOND, SECOND, TTL, World, fence, held_at, quorum_of};

#[tokio::test(start_paused = true)]
async fn giving_up_is_retried_ever_more_rarely_for_as_long_as_the_grant_could_last() {
    let (world, quorum, attempt, _) = held_at(3).await;
    let away = &world.members[2];
    away.on("give_up", passing("connection refused"));
    let lasts = MAX_TTL.max(attempt.lingers()).max(WaitQueue::KEPT_FOR);
    quorum.give_up(&attempt).await.unwrap();
    let mut tries = vec![];
    while world.passed() < lasts - 2 * MILLISECOND {
        tries.push(away.count("give_up"));
        tokio::time::sleep(5 * MILLISECOND.min(lasts - MILLISECOND - world.passed())).await;
    }
    assert_eq!(tries[1], 1, "not again at once");
    let in_all = away.count("give_up");
    let half = tries[tries.len() / 2];
    assert!((5..20).contains(&in_all) && half > in_all - half, "{half} of {in_all} in the first half");
    tokio::time::sleep(2 * MILLISECOND).await;
    assert_eq!(away.count("give_up"), in_all + 1, "once more at the end");
    tokio::time::sleep(10 * MAX_TTL).await;
    assert_eq!(away.count("give_up"), in_all + 1, "and never again");
    assert_eq!(world.counts("give_up")[..2], [1, 1], "where it was done it is done");
}

#[tokio::test(start_paused = true)]
async fn giving_up_at_a_member_that_hangs_is_retried() {
    let (world, quorum, attempt, _) = held_at(3).await;
    world.members[1].once("give_up", CallFate::Hung);
    quorum.give_up(&attempt).await.unwrap();
    assert_eq!((world.passed(), world.taken()), (600 * MILLISECOND, vec![1]));
    tokio::time::sleep(SECOND / 10).await;
    assert!(world.taken().is_empty());
    // The member counts as answering again.
    world.members[1].on("give_up", lasting("not allowed"));
    let begun = world.passed();
    quorum.give_up(&attempt).await.unwrap();
    tokio::time::sleep(MAX_TTL).await;
    assert_eq!((world.counts("give_up"), begun), (vec![2, 3, 2], 700 * MILLISECOND));
}

/// The caller was answered without the third member, whose grant comes too late.
#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_after_the_attempt_was_given_up_is_given_up_after_it() {
    let (world, quorum) = quorum_of(3);
    let attempt = world.attempt();
    world.members[2].on("grant", CallFate::Late(2 * SECOND));
    fence(&quorum.grant(&attempt, WaitMode::Try).await);
    quorum.release(&attempt).await.unwrap();
    assert!(world.taken().is_empty());
    tokio::time::sleep(2 * SECOND - MILLISECOND).await;
    assert_eq!(world.counts("give_up"), [0; 3], "not before it came: it could overtake it");
    tokio::time::sleep(2 * MILLISECOND).await;
    assert_eq!((world.counts("give_up"), world.taken()), (vec![0, 0, 1], vec![]));
}

/// A member never answers: its pending request can have no effect once the longest TTL is over.
#[tokio::test(start_paused = true)]
async fn a_call_that_never_ends_is_dropped_after_the_longest_ttl_and_what_it_may_have_left_given_up() {
    let (world, quorum) = quorum_of(3);
    let attempt = world.attempt();
    world.members[2].on("grant", CallFate::Hung);
    fence(&quorum.grant(&attempt, WaitMode::Try).await);
    quorum.release(&attempt).await.unwrap();
    tokio::time::sleep(MAX_TTL - MILLISECOND).await;
    assert_eq!(world.counts("give_up"), [0; 3]);
    tokio::time::sleep(2 * MILLISECOND).await;
    assert_eq!(world.counts("give_up"), [0, 0, 1]);
}

/// Regression: a member that had answered every other call since was reported as down when it was over.
#[tokio::test(start_paused = true)]
async fn a_call_that_never_ends_counts_as_silence_when_it_is_late_and_not_once_more_when_it_is_dropped() {
    let (world, quorum) = quorum_of(3);
    let mut notices = quorum.notices().unwrap();
    world.members[2].once("grant", CallFate::Hung);
    fence(&quorum.grant(&world.attempt(), WaitMode::Try).await);
    assert!(matches!(notices.next().await, Notice::MemberDown { .. }));
    fence(&quorum.grant(&world.attempt_for("l", TTL), WaitMode::Try).await);
    assert!(matches!(notices.next().await, Notice::MemberBack { .. }));
    let heard = tokio::time::timeout(2 * MAX_TTL, notices.next()).await;
    assert!(heard.is_err(), "{heard:?}");
}

/// The next request uses another id, so that leftovers of the first cannot be taken for it.
#[tokio::test(start_paused = true)]
async fn a_failed_attempt_gives_up_its_grants_and_asks_again_under_another_id() {
    let (world, quorum) = quorum_of(3);
    let attempt = world.attempt();
    world.on([0, 2], "grant", passing("it is starting"));
    assert!(quorum.grant(&attempt, WaitMode::Wait { queue_limit: None }).await.is_err());
    tokio::time::sleep(MILLISECOND).await;
    assert_eq!((world.counts("give_up"), world.taken()), (vec![1; 3], vec![]));
    let answer = quorum.grant(&attempt, WaitMode::Wait { queue_limit: None }).await;
    assert!(!matches!(answer, Ok(GrantAnswer::Granted { .. })));
    for member in &world.members {
        let ids: Vec<_> = member.asked("grant").iter().map(|asked| asked.holder).collect();
        assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
        assert_eq!(member.asked("give_up")[0].holder, attempt.holder);
    }
}

/// A program that polls asks again with the same attempt. If the first request is given up later
/// than the second is granted, and under the same id, a minority holds what counts as granted.
#[tokio::test(start_paused = true)]
async fn a_try_that_is_repeated_while_the_first_is_given_up_uses_other_ids() {
    let (world, quorum) = quorum_of(3);
    let attempt = world.attempt();
    let rival = world.rival_at([1, 2]).await;
    world.members[0].on("give_up", CallFate::Late(SECOND / 2));
    assert!(matches!(quorum.grant(&attempt, WaitMode::Try).await, Ok(GrantAnswer::Busy { .. })));
    world.members[1].memory.release(&rival).await.unwrap();
    fence(&quorum.grant(&attempt, WaitMode::Try).await);
    tokio::time::sleep(SECOND).await;
    assert_eq!((world.counts("give_up"), world.taken()), (vec![1; 3], vec![0, 1, 2]), "it holds two");
    quorum.release(&attempt).await.unwrap();
    assert_eq!((world.taken(), quorum.under_way()), (vec![2], 0));
}

/// The third member answers the release before it receives the grant, and then the program ends.
#[test]
fn a_grant_that_is_under_way_when_the_program_ends_is_given_up() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let members = runtime.block_on(async {
        let here = Arc::new(TokioRuntime::current().unwrap());
        let members: Vec<_> = faulty::members(3, &here).into_iter().map(Faulty::over).collect();
        members.iter().for_each(|member| member.says(|facts| facts.batches = false));
        members[2].on("grant", CallFate::Hung);
        let quorum = faulty::quorum_of(&members, MAX_TTL, here.clone());
        let attempt = World::of(3).attempt();
        fence(&quorum.grant(&attempt, WaitMode::Try).await);
        quorum.release(&attempt).await.unwrap();
        while members[2].count("release") == 0 {
            tokio::task::yield_now().await;
        }
        members
    });
    let given_up = || members.iter().map(|member| member.count("give_up")).collect::<Vec<_>>();
    assert_eq!(given_up(), [0, 0, 0]);
    drop(runtime);
    assert_eq!(given_up(), [0, 0, 1]);
}

/// Regression: after the release, a batch that had not served the grant made the member be asked again.
#[tokio::test(start_paused = true)]
async fn a_member_whose_batch_left_a_grant_is_not_asked_for_it_after_the_release() {
    let world = World::of(3);
    let quorum = world.quorum();
    world.members[2].says(|facts| (facts.batches, facts.left) = (true, Some("k")));
    world.members[2].once("batch", CallFate::Slow(200 * MILLISECOND));
    let attempt = world.attempt();
    fence(&quorum.grant(&attempt, WaitMode::Try).await);
    quorum.release(&attempt).await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(world.counts("grant"), [1, 1, 0]);
    assert_eq!((world.taken(), quorum.under_way()), (vec![], 0));
}
