//! Renewals and releases that each member answers differently.

use std::time::Duration;

use conformance::faulty::{CallFate, lasting, passing};
use leasehold::QuorumStore;
use leasehold_core::{Attempt, Fault, HoldAnswer, InspectStore as _, Notice, Store as _, WaitMode};

use super::world::{MILLISECOND, SECOND, TTL, World, fence, held_at, key, quorum_of};

async fn two_leases() -> (World, QuorumStore, [Attempt; 2]) {
    let (world, quorum) = quorum_of(3);
    let [one, other] = ["k", "l"].map(|name| world.attempt_for(name, TTL));
    for attempt in [&one, &other] {
        fence(&quorum.grant(attempt, WaitMode::Try).await);
    }
    (world, quorum, [one, other])
}

/// A server with many nodes, one of which is down, renews some leases and cannot answer for others.
#[tokio::test(start_paused = true)]
async fn a_lease_that_a_part_of_the_members_cannot_reach_takes_no_other_of_its_batch_with_it() {
    let (world, quorum, [one, other]) = two_leases().await;
    for member in [0, 1] {
        world.members[member].says(|facts| facts.out_of_reach = Some("k"));
    }
    let mut notices = quorum.notices().unwrap();
    let answers = quorum.renew(&[one.clone(), other.clone()]).await;
    let [Err(fault), Ok(HoldAnswer::Done)] = &answers[..] else { panic!("{answers:?}") };
    let words = "2 did not answer (memory:a: one of its nodes is down, memory:b: one of its nodes is down)";
    assert!(fault.to_string().contains(words), "{fault}");
    // In the order of the request, whichever answer comes first.
    assert!(matches!(quorum.renew(&[other, one.clone()]).await[..], [Ok(HoldAnswer::Done), Err(_)]));
    let hears = async |within: Duration, notices: &mut Box<dyn leasehold_core::Notices>| {
        tokio::time::timeout(within, notices.next()).await.ok()
    };
    assert_eq!(hears(MILLISECOND, &mut notices).await, None, "who answers for some of them is not down");
    // If everything that was requested is out of reach, so is the member.
    assert!(quorum.renew(&[one]).await[0].is_err());
    let heard = hears(MILLISECOND, &mut notices).await;
    let Some(Notice::MemberDown { fault }) = heard else { panic!("{heard:?}") };
    assert_eq!(fault.to_string(), "memory:a: one of its nodes is down");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_confirmed_as_soon_as_a_majority_has_answered() {
    let (world, quorum, attempt, _) = held_at(3).await;
    tokio::time::sleep(SECOND).await;
    world.on(0..3, "renew", CallFate::Slow(20 * MILLISECOND));
    world.members[0].on("renew", CallFate::Hung);
    let begun = world.passed();
    assert_eq!(quorum.renew(std::slice::from_ref(&attempt)).await, [Ok(HoldAnswer::Done)]);
    assert_eq!(world.passed() - begun, 20 * MILLISECOND);
    assert_eq!(quorum.renew(&[]).await, []);
}

/// The one whose lease ends first may have to be renewed again.
#[tokio::test(start_paused = true)]
async fn leases_that_are_renewed_together_are_waited_for_as_the_shortest_of_them_permits() {
    let (world, quorum) = quorum_of(3);
    let both = [world.attempt_for("k", TTL), world.attempt_for("l", SECOND)];
    for attempt in &both {
        fence(&quorum.grant(attempt, WaitMode::Try).await);
    }
    world.on(0..3, "renew", CallFate::Hung);
    assert!(quorum.renew(&both).await.iter().all(Result::is_err));
    assert_eq!(world.passed(), 300 * MILLISECOND);
}

/// A batch does not say why it left a grant, so it does not show that the member votes again.
#[tokio::test(start_paused = true)]
async fn a_member_that_abstains_and_serves_batches_is_reported_once() {
    let (world, quorum) = quorum_of(3);
    let mut notices = quorum.notices().unwrap();
    world.members[2].says(|facts| (facts.batches, facts.left) = (true, Some("k")));
    world.on([2], "grant", CallFate::Failing(Fault::quarantined("memory:c", SECOND)));
    for _ in 0..3 {
        let attempt = world.attempt_for("k", TTL);
        fence(&quorum.grant(&attempt, WaitMode::Try).await);
        quorum.release(&attempt).await.unwrap();
    }
    assert!(matches!(notices.next().await, Notice::MemberDown { .. }));
    assert!(tokio::time::timeout(SECOND, notices.next()).await.is_err());
}

/// Nobody waits for its answer, and nothing else may be asked.
#[tokio::test(start_paused = true)]
async fn a_member_that_hangs_at_a_renewal_is_reported_when_its_time_is_over() {
    let (world, quorum, attempt, _) = held_at(3).await;
    let mut notices = quorum.notices().unwrap();
    world.on([2], "renew", CallFate::Hung);
    assert_eq!(quorum.renew(std::slice::from_ref(&attempt)).await, [Ok(HoldAnswer::Done)]);
    let heard = notices.next().await;
    let Notice::MemberDown { fault } = heard else { panic!("{heard:?}") };
    assert_eq!(fault.to_string(), "memory:c: timed out");
    assert_eq!(world.passed(), 600 * MILLISECOND);
}

/// A lease that a process got by its id, and was not granted itself, is renewed where it exists.
#[tokio::test(start_paused = true)]
async fn a_lease_of_another_process_is_renewed_where_it_is_and_taken_nowhere() {
    let world = World::of(3);
    let attempt = world.attempt();
    fence(&world.quorum().grant(&attempt, WaitMode::Try).await);
    world.members[2].memory.release(&attempt).await.unwrap();
    let other = world.quorum();
    assert_eq!(other.renew(std::slice::from_ref(&attempt)).await, [Ok(HoldAnswer::Done)]);
    tokio::time::sleep(MILLISECOND).await;
    assert_eq!((world.taken(), world.counts("rejoin")), (vec![0, 1], vec![0; 3]));
}

/// Regression: renewals were counted twice at one server, until somebody requested a lock.
#[tokio::test(start_paused = true)]
async fn a_renewal_is_refused_once_two_members_turn_out_to_be_one_server() {
    let (world, quorum, attempt, _) = held_at(3).await;
    world.members[..2].iter().for_each(|member| member.says(|facts| facts.identity = Some("run 7")));
    let [Err(fault)] = &quorum.renew(&[attempt]).await[..] else { panic!("it is renewed") };
    assert!(fault.is_lasting() && fault.reason.contains("memory:a and memory:b are one server"), "{fault}");
}

/// Regression: both waited for the longest TTL.
#[tokio::test(start_paused = true)]
async fn a_member_that_panics_is_not_waited_for_while_another_hangs() {
    let (world, quorum, attempt, _) = held_at(3).await;
    world.members[0].set(CallFate::Panics);
    world.members[1].set(CallFate::Hung);
    let renewed = quorum.renew(&[attempt]).await;
    assert!(renewed[0].as_ref().is_err_and(|fault| !fault.is_lasting()), "{renewed:?}");
    assert_eq!(world.passed(), 600 * MILLISECOND);
    let fault = quorum.inspect(&key("k")).await.unwrap_err().to_string();
    let words = "1 of 3 stores answered, 2 did not answer (memory:a: the call ended without an answer, \
                 memory:b: timed out)";
    assert!(fault.contains(words), "{fault}");
    assert_eq!(world.passed(), 1200 * MILLISECOND);
}

/// Regression: the records were read one after the other, and with many leases the renewal was late.
#[tokio::test(start_paused = true)]
async fn the_records_of_breaks_of_many_leases_are_read_at_the_same_time() {
    let (world, quorum) = quorum_of(3);
    let attempts: Vec<_> = (0..100).map(|n| world.attempt_for(&format!("k{n}"), TTL)).collect();
    for attempt in &attempts {
        fence(&quorum.grant(attempt, WaitMode::Try).await);
        world.members[2].memory.release(attempt).await.unwrap();
    }
    quorum.renew(&attempts).await;
    tokio::time::sleep(MILLISECOND).await;
    world.members[2].on("last break", CallFate::Slow(20 * MILLISECOND));
    quorum.renew(&attempts).await;
    tokio::time::sleep(100 * MILLISECOND).await;
    assert_eq!(world.members[2].count("rejoin"), 1, "the third has them all again");
    assert_eq!(world.members[2].memory.dump().locks.len(), 100);
}

/// Two leases, of which the third member has lost the first without an outage.
async fn one_in_doubt_at_the_third() -> (World, QuorumStore, [Attempt; 2]) {
    let (world, quorum, [one, other]) = two_leases().await;
    world.members[2].memory.release(&one).await.unwrap();
    quorum.renew(std::slice::from_ref(&one)).await;
    tokio::time::sleep(MILLISECOND).await;
    (world, quorum, [one, other])
}

/// Regression: the member answered about all leases of a batch only when the record of the one in doubt
/// was read and that lease was taken again, which could exceed its limit. So with another member down,
/// the batch was not renewed.
#[tokio::test(start_paused = true)]
async fn a_lease_whose_record_of_breaks_is_read_slowly_delays_no_other_of_its_batch() {
    let (world, quorum, [one, other]) = one_in_doubt_at_the_third().await;
    world.members[1].set(CallFate::Hung);
    for call in ["last break", "rejoin", "renew"] {
        world.members[2].on(call, CallFate::Slow(400 * MILLISECOND));
    }
    let answers = quorum.renew(&[one, other]).await;
    assert!(matches!(answers[..], [Err(_), Ok(HoldAnswer::Done)]), "{answers:?}");
}

/// Its node of a server with many nodes is down, and the others renew the rest of the batch.
#[tokio::test(start_paused = true)]
async fn a_member_is_not_down_if_it_renews_others_than_the_lease_in_doubt() {
    let (world, quorum, [one, other]) = one_in_doubt_at_the_third().await;
    world.members[2].says(|facts| facts.out_of_reach = Some("k"));
    let mut notices = quorum.notices().unwrap();
    quorum.renew(&[one, other]).await;
    assert!(tokio::time::timeout(MILLISECOND, notices.next()).await.is_err(), "it is said to be down");
    assert_eq!(world.members[2].count("last break"), 1);
}

/// The time of a release, with members that answer after these delays, or never.
async fn release_with(late: [Option<u32>; 3]) -> Duration {
    let (world, quorum, attempt, _) = held_at(3).await;
    world.answers_after("release", late);
    assert_eq!(quorum.release(&attempt).await, Ok(HoldAnswer::Done));
    world.passed()
}

#[tokio::test(start_paused = true)]
async fn a_release_waits_for_a_majority_and_briefly_for_the_queue_member() {
    assert_eq!(release_with([Some(0), Some(5), None]).await, 5 * MILLISECOND);
    assert_eq!(release_with([Some(7), Some(5), None]).await, 7 * MILLISECOND);
    assert_eq!(release_with([Some(50), Some(5), Some(5)]).await, 50 * MILLISECOND);
    assert_eq!(release_with([None, Some(5), Some(5)]).await, 100 * MILLISECOND, "no longer");
    assert_eq!(release_with([Some(5), Some(300), Some(400)]).await, 300 * MILLISECOND);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_a_majority_did_not_answer_in_time_says_so_and_goes_on() {
    let (world, quorum, attempt, _) = held_at(3).await;
    world.on([1, 2], "release", CallFate::Hung);
    let fault = quorum.release(&attempt).await.unwrap_err();
    let words =
        "1 of 3 stores released, 2 did not answer (memory:b: timed out, memory:c: timed out); 2 needed";
    assert!(fault.to_string().contains(words), "{fault}");
    assert_eq!(world.passed(), 600 * MILLISECOND);
    tokio::time::sleep(MILLISECOND).await;
    assert!(world.taken().is_empty(), "it is given up where no release was answered");
    assert_eq!(quorum.under_way(), 1, "whoever asks again is served");
}

/// The time of giving up, with members that answer after these delays, or never.
async fn give_up_with(late: [Option<u32>; 3]) -> Duration {
    let (world, quorum, attempt, _) = held_at(3).await;
    world.answers_after("give_up", late);
    quorum.give_up(&attempt).await.unwrap();
    assert_eq!(quorum.under_way(), 0);
    world.passed()
}

#[tokio::test(start_paused = true)]
async fn giving_up_is_done_when_all_that_answer_have_done_it() {
    assert_eq!(give_up_with([Some(0), Some(0), Some(0)]).await, Duration::ZERO);
    assert_eq!(give_up_with([Some(0), Some(9), Some(300)]).await, 300 * MILLISECOND);
    assert_eq!(give_up_with([Some(0), None, Some(9)]).await, 600 * MILLISECOND, "it does not answer");
}

#[tokio::test(start_paused = true)]
async fn giving_up_lasts_until_a_majority_has_done_it_and_ends_where_that_is_refused_for_good() {
    let (world, quorum, attempt, _) = held_at(3).await;
    world.on([0, 1], "give_up", passing("connection refused"));
    let back = async {
        tokio::time::sleep(3 * SECOND).await;
        assert_eq!(world.taken(), [0, 1]);
        world.members[0].on("give_up", CallFate::Fair);
    };
    let (given_up, ()) = tokio::join!(quorum.give_up(&attempt), back);
    assert_eq!((given_up, world.taken()), (Ok(()), vec![1]));
    assert!(world.passed() >= 3 * SECOND && world.passed() < 10 * SECOND, "{:?}", world.passed());

    world.on([0, 1], "give_up", lasting("not allowed"));
    let begun = world.passed();
    let fault = quorum.give_up(&world.attempt()).await.unwrap_err();
    assert!(fault.to_string().contains("1 of 3 stores released, 2 refused"), "{fault}");
    assert_eq!(world.passed(), begun, "nobody asks again where it would be refused again");
}
