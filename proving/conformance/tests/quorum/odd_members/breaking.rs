//! Breaking a lease while the members disagree, and being notified that one was broken.

use std::task::{Context, Poll, Waker};

use conformance::faulty::{CallFate, lasting, passing};
use leasehold::QuorumStore;
use leasehold_core::{
    AdminStore as _, Attempt, BreakAnswer, BreakNote, Claim, Fault, Fence, GrantAnswer, HoldAnswer,
    InspectStore as _, LeaseBreak, MarkStore as _, MemberStore as _, Notice, Notices, Proposal, Store as _,
    Ttl, WaitMode,
};

use super::world::{MAX_TTL, MILLISECOND, World, fence, held_at, is_refused, key, quorum_of};

/// A notice that has already arrived.
fn told(notices: &mut Box<dyn Notices>) -> Option<Notice> {
    match notices.next().as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(notice) => Some(notice),
        Poll::Pending => None,
    }
}

async fn breaks(quorum: &QuorumStore, fence: Fence) -> Result<BreakAnswer, Fault> {
    quorum.break_lease(&key("k"), &LeaseBreak::new(fence, BreakNote::default())).await
}

async fn break_at(world: &World, member: usize, fence: Fence) {
    let broken = LeaseBreak::new(fence, BreakNote::default());
    world.members[member].memory.break_lease(&key("k"), &broken).await.unwrap();
}

#[track_caller]
fn is_broken(answer: &Result<BreakAnswer, Fault>) {
    assert!(matches!(answer, Ok(BreakAnswer::Broken { .. })), "{answer:?}");
}

async fn is_lost(quorum: &QuorumStore, attempt: &Attempt) {
    let answers = quorum.renew(std::slice::from_ref(attempt)).await;
    assert!(matches!(answers[..], [Ok(HoldAnswer::NotHeld { .. })]), "it is kept: {answers:?}");
}

/// Raises an attempt's fence at one member, as a round under way elsewhere does.
async fn raise_at(world: &World, member: usize, attempt: &Attempt, to: Fence) {
    let proposal = Proposal { fence: to, max_ttl: Ttl::new(MAX_TTL).unwrap() };
    let there = attempt.at_member(attempt.holder, proposal);
    world.members[member].memory.raise(&there).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_broken_when_a_majority_has_it_no_more_however_long_the_others_take() {
    let (world, quorum, attempt, fence) = held_at(5).await;
    world.on([3, 4], "break", CallFate::Hung);
    let BreakAnswer::Broken { holding } = breaks(&quorum, fence).await.unwrap() else { panic!() };
    assert_eq!((holding.fence, world.passed()), (Some(fence), std::time::Duration::ZERO));
    assert_eq!(world.taken(), [3, 4]);
    // The rest is too little for a majority.
    is_lost(&quorum, &attempt).await;
}

/// A majority broke it long before the last member did.
#[tokio::test(start_paused = true)]
async fn the_time_of_a_break_is_that_of_the_first_member() {
    for late in [0, 2] {
        let (world, quorum, _, fence) = held_at(3).await;
        world.members[late].once("break", CallFate::Late(10 * MILLISECOND));
        breaks(&quorum, fence).await.unwrap();
        let after = world.members[1].memory.marked(&key("k")).await.unwrap().now;
        tokio::time::sleep(20 * MILLISECOND).await;
        let slow = world.members[late].memory.last_break(&key("k")).await.unwrap().unwrap();
        assert!(slow.at > after, "{slow:?} {after:?}");
        let record = quorum.last_break(&key("k")).await.unwrap().unwrap();
        assert!(record.at <= after, "{record:?} {after:?}");
        assert_eq!(quorum.list_breaks(b"").await.unwrap(), [record]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_break_for_which_too_few_members_answer_breaks_nothing() {
    let (world, quorum, _, fence) = held_at(3).await;
    world.on([1, 2], "inspect", CallFate::Hung);
    breaks(&quorum, fence).await.unwrap_err();
    assert_eq!(world.taken(), [0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_break_of_a_lease_that_is_released_meanwhile_names_no_holder() {
    let (world, quorum, attempt, fence) = held_at(3).await;
    world.on(0..3, "inspect", CallFate::Slow(MILLISECOND));
    let released = world.quorum();
    let (broken, released) = tokio::join!(breaks(&quorum, fence), async {
        tokio::time::sleep(MILLISECOND / 2).await;
        released.release(&attempt).await
    });
    assert_eq!((broken, released), (Ok(BreakAnswer::NotHeld { held_by: None }), Ok(HoldAnswer::Done)));
}

/// The holder of that lease may have it still.
#[tokio::test(start_paused = true)]
async fn a_later_break_that_only_one_member_made_is_not_the_last_one() {
    let (world, quorum, _, first) = held_at(3).await;
    breaks(&quorum, first).await.unwrap();
    let next = fence(&quorum.grant(&world.attempt(), WaitMode::Try).await);
    let later = LeaseBreak::new(next, BreakNote::default());
    is_broken(&world.members[0].memory.break_lease(&key("k"), &later).await);
    assert_eq!(quorum.last_break(&key("k")).await.unwrap().unwrap().fence, first);
}

/// A lease of a quorum of three. The third member was down when it was granted, and has a greater fence
/// for it, because it has refused a rival before the holder's renewal took the lease there.
async fn held_with_a_greater_fence_at_one() -> (World, QuorumStore, Attempt, Fence) {
    let (world, quorum) = quorum_of(3);
    let (attempt, rival) = (world.attempt(), world.attempt());
    world.members[2].once("grant", passing("connection refused"));
    let fence = fence(&quorum.grant(&attempt, WaitMode::Try).await);
    tokio::time::sleep(MILLISECOND).await;
    is_refused(&world.quorum().grant(&rival, WaitMode::Try).await);
    tokio::time::sleep(MILLISECOND).await;
    assert_eq!(quorum.renew(std::slice::from_ref(&attempt)).await, [Ok(HoldAnswer::Done)]);
    tokio::time::sleep(MILLISECOND).await;
    assert_eq!(world.taken(), [0, 1, 2]);
    let there = world.members[2].memory.inspect(&key("k")).await.unwrap();
    assert!(there.holders[0].fence > Some(fence), "{there:?}");
    (world, quorum, attempt, fence)
}

/// Regression: the third recorded its own fence: with another one down, `watch` did not report the
/// break, and a repeated release returned as if there had been none.
#[tokio::test(start_paused = true)]
async fn a_break_is_remembered_with_the_agreed_fence_whoever_is_down() {
    let (world, quorum, _, fence) = held_with_a_greater_fence_at_one().await;
    is_broken(&breaks(&quorum, fence).await);
    tokio::time::sleep(MILLISECOND).await;
    for down in 0..3 {
        world.on([down], "last break", CallFate::Hung);
        let record = quorum.last_break(&key("k")).await.unwrap().unwrap();
        assert_eq!(record.fence, fence, "without {down}");
        world.on([down], "last break", CallFate::Fair);
    }
    let records = quorum.list_breaks(b"").await.unwrap();
    assert!(matches!(&records[..], [record] if record.fence == fence), "{records:?}");
}

/// Regression: its record had its own fence, so it was taken for that of another lease.
#[tokio::test(start_paused = true)]
async fn a_member_with_a_greater_fence_that_broke_the_lease_before_counts_at_the_next_break() {
    let (world, quorum, attempt, fence) = held_with_a_greater_fence_at_one().await;
    world.members[0].once("break", passing("connection refused"));
    world.on([1], "break", CallFate::Hung);
    let first = breaks(&quorum, fence).await;
    assert!(first.is_err() && world.taken() == [0, 1], "{first:?}");
    is_broken(&breaks(&quorum, fence).await);
    is_lost(&quorum, &attempt).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_too_few_members_broke_is_not_said_to_be_broken() {
    let (world, quorum, _, fence) = held_at(3).await;
    world.members[0].on("break", passing("connection refused"));
    world.members[2].on("break", lasting("not allowed"));
    let fault = breaks(&quorum, fence).await.unwrap_err();
    let words = "1 of 3 stores broke the lease, 1 refused (memory:c: not allowed), 1 did not answer (memory:a: \
                 connection refused); 2 needed";
    assert!(fault.to_string().contains(words), "{fault}");
}

/// Regression: a member without the lease counted as having broken it; the next renewal took it there.
#[tokio::test(start_paused = true)]
async fn a_member_that_may_take_a_lease_again_does_not_count_as_one_that_broke_it() {
    let world = World::of(3);
    let (quorum, operator) = (world.quorum(), world.quorum());
    let attempt = world.attempt();
    world.members[2].once("grant", passing("connection refused"));
    let fence = fence(&quorum.grant(&attempt, WaitMode::Try).await);
    world.members[0].on("break", CallFate::Hung);
    let answer = breaks(&operator, fence).await;
    assert_eq!(quorum.renew(std::slice::from_ref(&attempt)).await, [Ok(HoldAnswer::Done)]);
    let fault = answer.unwrap_err().to_string();
    let words = "1 of 3 stores broke the lease, 1 refused (memory:c: not held there any more), 1 did not \
                 answer (memory:a: timed out); 2 needed";
    assert!(fault.contains(words), "{fault}");
    // With the other two it is enough.
    world.members[0].on("break", CallFate::Fair);
    is_broken(&breaks(&operator, fence).await);
    is_lost(&quorum, &attempt).await;
}

/// Regression: a member that broke the lease at the first try did not count at the second.
#[tokio::test(start_paused = true)]
async fn a_member_whose_answer_to_an_earlier_break_was_lost_counts_as_one_that_broke_the_lease() {
    let (world, quorum, attempt, fence) = held_at(3).await;
    world.members[0].on("break", CallFate::AnswerLost);
    world.members[1].once("break", passing("connection refused"));
    world.members[2].on("break", CallFate::Hung);
    let first = breaks(&quorum, fence).await;
    assert!(first.is_err() && world.taken() == [1, 2], "{first:?}");
    is_broken(&breaks(&quorum, fence).await);
    is_lost(&quorum, &attempt).await;
}

/// Regression: only one member showed the lease, so nobody was said to hold it, and it was renewed.
#[tokio::test(start_paused = true)]
async fn a_break_of_one_member_is_completed_at_another_while_a_third_is_down() {
    let (world, quorum, attempt, fence) = held_at(3).await;
    world.members[1].once("break", passing("connection refused"));
    world.on([2], "break", CallFate::Hung);
    let first = breaks(&quorum, fence).await;
    assert!(first.is_err() && world.taken() == [1, 2], "{first:?}");
    world.on([2], "inspect", CallFate::Hung);
    is_broken(&breaks(&quorum, fence).await);
    // Once the third answers, it alone shows the lease, and breaks it too.
    for call in ["inspect", "break"] {
        world.on([2], call, CallFate::Fair);
    }
    is_broken(&breaks(&quorum, fence).await);
    tokio::time::sleep(MILLISECOND).await;
    assert_eq!(world.taken(), []);
    is_lost(&quorum, &attempt).await;
}

/// The holder's next renewal may take the lease where it is not, and keep it at the member that is down.
#[tokio::test(start_paused = true)]
async fn a_lease_that_a_member_broke_and_another_may_have_is_not_said_to_be_held_by_nobody() {
    let (world, quorum, attempt, fence) = held_at(3).await;
    world.members[1].memory.release(&attempt).await.unwrap();
    world.on([2], "break", CallFate::Hung);
    for inspected in [CallFate::Fair, CallFate::Hung] {
        world.on([2], "inspect", inspected);
        world.on([2], "last break", CallFate::Hung);
        let answer = breaks(&quorum, fence).await;
        let fault = answer.unwrap_err().to_string();
        let words = "1 of 3 stores broke the lease, 1 refused (memory:b: not held there any more), 1 did not \
                     answer (memory:c: timed out); 2 needed";
        assert!(fault.contains(words), "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_fence_breaks_nothing_and_the_holder_is_named() {
    let (world, quorum, _, fence) = held_at(3).await;
    let other = Fence::new(fence.get() + 1).unwrap();
    let answer = breaks(&quorum, other).await.unwrap();
    let BreakAnswer::NotHeld { held_by: Some(held_by) } = answer else { panic!("{answer:?}") };
    assert_eq!((held_by.fence, world.counts("break")), (Some(fence), vec![0; 3]));
    let answer =
        quorum.break_lease(&key("free"), &LeaseBreak::new(fence, BreakNote::default())).await.unwrap();
    assert_eq!(answer, BreakAnswer::NotHeld { held_by: None });
}

/// Regression: a slow member's fence, perhaps of an earlier lease, broke the lease, too.
#[tokio::test(start_paused = true)]
async fn a_fence_that_only_a_minority_shows_breaks_nothing() {
    let (world, quorum, attempt, fence) = held_at(5).await;
    let minority = Fence::new(fence.get() + 1).unwrap();
    for member in [3, 4] {
        raise_at(&world, member, &attempt, minority).await;
    }
    let answer = breaks(&quorum, minority).await.unwrap();
    let BreakAnswer::NotHeld { held_by: Some(held_by) } = answer else { panic!("{answer:?}") };
    assert_eq!((held_by.fence, world.counts("break")), (Some(fence), vec![0; 5]));
    // While one of the others is down, nobody knows which of the two is the agreed fence.
    world.on([0], "inspect", CallFate::Hung);
    is_broken(&breaks(&quorum, fence).await);
    is_lost(&quorum, &attempt).await;
}

/// A fence that was agreed only after the operator looked is the one that is broken.
#[tokio::test(start_paused = true)]
async fn a_lease_is_broken_also_where_its_fence_rises_meanwhile() {
    let (world, quorum, attempt, fence) = held_at(3).await;
    world.members[1].once("break", CallFate::Late(10 * MILLISECOND));
    world.members[2].on("break", passing("connection refused"));
    let breaking = breaks(&quorum, fence);
    let raising = async {
        tokio::time::sleep(5 * MILLISECOND).await;
        raise_at(&world, 1, &attempt, Fence::new(fence.get() + 7).unwrap()).await;
    };
    is_broken(&tokio::join!(breaking, raising).0);
    assert_eq!((world.counts("break"), world.taken()), (vec![1, 2, 1], vec![2]));
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_fence_rises_all_the_time_is_not_chased_for_ever() {
    let (world, quorum, attempt, fence) = held_at(3).await;
    world.members[1].on("break", CallFate::Late(10 * MILLISECOND));
    world.members[2].on("break", passing("connection refused"));
    let breaking = breaks(&quorum, fence);
    let raising = async {
        for rise in 1..=5 {
            tokio::time::sleep(8 * MILLISECOND).await;
            raise_at(&world, 1, &attempt, Fence::new(fence.get() + rise).unwrap()).await;
        }
    };
    let (answer, ()) = tokio::join!(breaking, raising);
    let fault = answer.unwrap_err().to_string();
    assert!(fault.contains("memory:b: its fence changes while the lease is broken: try again"), "{fault}");
    assert_eq!(world.counts("break"), [1, 3, 1]);
}

/// Two operators break it at the same time.
#[tokio::test(start_paused = true)]
async fn a_lease_that_another_break_ended_at_a_member_meanwhile_counts_as_broken_there() {
    let (world, quorum, _, fence) = held_at(3).await;
    world.members[1].once("break", CallFate::Late(10 * MILLISECOND));
    world.members[2].on("break", passing("connection refused"));
    let breaking = breaks(&quorum, fence);
    let other = async {
        tokio::time::sleep(5 * MILLISECOND).await;
        break_at(&world, 1, fence).await;
    };
    is_broken(&tokio::join!(breaking, other).0);
}

/// Regression: only the reader with the greatest fence could be broken.
#[tokio::test(start_paused = true)]
async fn each_of_several_readers_is_broken_by_its_own_fence() {
    let (world, quorum) = quorum_of(3);
    let readers = [world.attempt().reading(), world.attempt().reading()];
    let mut fences = Vec::new();
    for reader in &readers {
        fences.push(fence(&quorum.grant(reader, WaitMode::Try).await));
    }
    is_broken(&breaks(&quorum, fences[0]).await);
    let [broken, kept] = &quorum.renew(&readers).await[..] else { panic!() };
    assert!(matches!(broken, Ok(HoldAnswer::NotHeld { .. })), "{broken:?}");
    assert!(matches!(kept, Ok(HoldAnswer::Done)), "{kept:?}");
}

/// Regression: a member that named another reader counted as if it had broken the lease.
#[tokio::test(start_paused = true)]
async fn a_reader_is_broken_also_where_its_fence_rises_meanwhile() {
    let (world, quorum) = quorum_of(3);
    let (other, reader) = (world.attempt().reading(), world.attempt().reading());
    quorum.grant(&other, WaitMode::Try).await.unwrap();
    let fence = fence(&quorum.grant(&reader, WaitMode::Try).await);
    for member in 0..2 {
        world.members[member].once("break", CallFate::Late(10 * MILLISECOND));
    }
    let breaking = breaks(&quorum, fence);
    let raising = async {
        tokio::time::sleep(5 * MILLISECOND).await;
        for member in 0..2 {
            raise_at(&world, member, &reader, Fence::new(fence.get() + 7).unwrap()).await;
        }
    };
    is_broken(&tokio::join!(breaking, raising).0);
    is_lost(&quorum, &reader).await;
}

/// The lease ended in between, and another holder came, which is not affected.
#[tokio::test(start_paused = true)]
async fn a_holder_that_took_the_key_at_a_member_during_a_break_keeps_it() {
    let (world, quorum, attempt, fence) = held_at(3).await;
    world.members[1].on("break", CallFate::Late(10 * MILLISECOND));
    let next = world.attempt();
    let breaking = breaks(&quorum, fence);
    let taking = async {
        tokio::time::sleep(5 * MILLISECOND).await;
        world.members[1].memory.release(&attempt).await.unwrap();
        let granted = world.members[1].memory.grant(&next, WaitMode::Try).await;
        assert!(matches!(granted, Ok(GrantAnswer::Granted { .. })));
        tokio::time::sleep(10 * MILLISECOND).await;
    };
    is_broken(&tokio::join!(breaking, taking).0);
    assert_eq!((world.taken(), world.members[1].count("break")), (vec![1], 1));
}

#[tokio::test(start_paused = true)]
async fn a_holder_is_notified_when_enough_members_broke_its_lease_that_no_majority_is_left() {
    for (members, enough) in [(3, 2), (4, 2), (5, 3)] {
        let (world, quorum) = quorum_of(members);
        let mut notices = quorum.notices().unwrap();
        let attempt = world.attempt();
        let fence = fence(&quorum.grant(&attempt, WaitMode::Try).await);
        for broken in 0..enough {
            assert_eq!(told(&mut notices), None, "{broken} of {members} broke it");
            break_at(&world, broken, fence).await;
        }
        let lost = Notice::Broken { holder: attempt.holder };
        assert_eq!(told(&mut notices), Some(lost), "{enough} of {members} broke it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_at_which_a_lease_was_broken_is_not_asked_to_take_it_again() {
    let (world, quorum) = quorum_of(3);
    let mut notices = quorum.notices().unwrap();
    let attempt = world.attempt();
    let fence = fence(&quorum.grant(&attempt, WaitMode::Try).await);
    break_at(&world, 2, fence).await;
    assert_eq!(told(&mut notices), None);
    for _ in 0..3 {
        assert_eq!(quorum.renew(std::slice::from_ref(&attempt)).await, [Ok(HoldAnswer::Done)]);
        tokio::time::sleep(MILLISECOND).await;
    }
    assert_eq!((world.taken(), world.members[2].count("rejoin")), (vec![0, 1], 0));
}

#[tokio::test(start_paused = true)]
async fn a_member_that_did_not_say_what_it_has_breaks_the_lease_too() {
    let (world, quorum, _, fence) = held_at(3).await;
    world.members[0].once("inspect", passing("busy"));
    is_broken(&breaks(&quorum, fence).await);
    tokio::time::sleep(MILLISECOND).await;
    assert_eq!(world.taken(), []);
}

/// It does not have any of the keys, and remembers a break of the first alone.
#[tokio::test(start_paused = true)]
async fn a_lease_of_several_keys_is_not_taken_again_where_one_of_them_was_broken() {
    let (world, quorum) = quorum_of(3);
    let mut attempt = world.attempt();
    attempt.claim = Claim::exclusive_all([key("k"), key("l")]).unwrap();
    let fence = fence(&quorum.grant(&attempt, WaitMode::Try).await);
    let member = &world.members[2];
    break_at(&world, 2, fence).await;
    member.memory.release(&attempt).await.unwrap();
    for _ in 0..3 {
        assert_eq!(quorum.renew(std::slice::from_ref(&attempt)).await, [Ok(HoldAnswer::Done)]);
        tokio::time::sleep(MILLISECOND).await;
    }
    assert_eq!((world.taken(), member.count("rejoin")), (vec![0, 1], 0));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_taken_again_where_nobody_can_read_whether_it_was_broken() {
    let (world, quorum, attempt, _) = held_at(3).await;
    let member = &world.members[2];
    member.memory.release(&attempt).await.unwrap();
    member.on("last break", passing("busy"));
    for (reads, rejoins) in [(false, 0), (true, 1)] {
        for _ in 0..3 {
            assert_eq!(quorum.renew(std::slice::from_ref(&attempt)).await, [Ok(HoldAnswer::Done)]);
            tokio::time::sleep(MILLISECOND).await;
        }
        assert_eq!(member.count("rejoin"), rejoins, "reads: {reads}");
        member.on("last break", CallFate::Fair);
    }
    assert_eq!(world.taken(), [0, 1, 2]);
}

/// Regression: a member that had not answered was asked to break whatever has this fence, which was an
/// ungranted attempt's lease there. The holder's next renewal took the lease there, and kept it.
#[tokio::test(start_paused = true)]
async fn a_member_that_did_not_say_what_it_has_breaks_nobody_elses_lease() {
    let (world, quorum) = quorum_of(3);
    let (attempt, rival) = (world.attempt(), world.rival_at([2]).await);
    let fence = fence(&quorum.grant(&attempt, WaitMode::Try).await);
    raise_at(&world, 2, &rival, fence).await;
    assert_eq!(world.members[2].memory.inspect(&key("k")).await.unwrap().holders[0].fence, Some(fence));
    world.members[2].once("inspect", passing("busy"));
    world.members[0].on("break", CallFate::Hung);
    let answer = breaks(&quorum, fence).await;
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(world.taken(), [0, 2]);
}
