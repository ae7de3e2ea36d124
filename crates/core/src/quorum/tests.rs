use std::collections::BTreeSet;

use super::*;
use crate::{Claim, FaultKind, HolderInfo, Key, Mode, Owner, QueuePosition, Ticket};

const FENCE: u64 = 1_000;
const WAIT: WaitMode = WaitMode::Wait { queue_limit: None };

/// A process, its clock, and one attempt.
#[derive(Debug)]
struct World {
    machine: QuorumAttempt,
    attempt: Attempt,
    now: Instant,
    process: Process,
}

#[derive(Debug, Default)]
struct Process {
    silent: BTreeSet<usize>,
}

impl QuorumProcess for Process {
    fn is_silent(&self, member: usize) -> bool {
        self.silent.contains(&member)
    }

    fn proposed(&self) -> Fence {
        fence(FENCE)
    }

    fn random(&self) -> u64 {
        0
    }
}

fn fence(number: u64) -> Fence {
    Fence::new(number).unwrap()
}

impl World {
    fn of(members: usize) -> Self {
        let ttl = Ttl::new(Duration::from_secs(10)).unwrap();
        let claim = Claim::exclusive(Key::new("k").unwrap());
        let attempt = Attempt::new(claim, Holder::from_bits(7 << 64), None, ttl);
        let settings = QuorumSettings {
            name: "quorum".into(),
            members: ["a", "b", "c", "d", "e"][..members].iter().map(|name| (*name).into()).collect(),
            drift: Drift::NONE,
            max_ttl: ttl,
        };
        let machine = QuorumAttempt::new(Arc::new(settings), attempt.holder);
        Self {
            machine,
            attempt,
            now: Instant::from_nanos(0) + Duration::from_secs(60),
            process: Process::default(),
        }
    }

    fn begin(&mut self, wait_mode: WaitMode) {
        self.machine.ask(&self.attempt, wait_mode, &QuorumView { now: self.now, process: &self.process });
    }

    fn step(&mut self) -> QuorumStep {
        self.machine.next(&QuorumView { now: self.now, process: &self.process })
    }

    /// The questions that are asked now, and the step after them.
    fn questions(&mut self) -> (Vec<Question>, QuorumStep) {
        let mut questions = Vec::new();
        loop {
            match self.step() {
                QuorumStep::Ask(question) => questions.push(question),
                step => return (questions, step),
            }
        }
    }

    fn ask(&mut self, wait_mode: WaitMode) -> Vec<Question> {
        self.begin(wait_mode);
        self.questions().0
    }

    fn says(&mut self, question: &Question, answer: GrantAnswer) {
        self.machine.handle_answer(question, Ok(MemberAnswer::Grant(answer)));
    }

    fn fails(&mut self, question: &Question) {
        self.machine.handle_answer(question, Err(Fault::passing("a", "connection refused")));
    }

    fn answer(&mut self) -> GrantAnswer {
        match self.step() {
            QuorumStep::Done(Ok(answer)) => answer,
            QuorumStep::Refused { answer, .. } => answer,
            step => panic!("{step:?}"),
        }
    }

    /// The ids that are to be given up, by member.
    fn undone(&mut self) -> Vec<(usize, Holder)> {
        let mut undone = self.machine.undo();
        undone.sort_unstable();
        undone
    }
}

fn granted(number: u64) -> GrantAnswer {
    GrantAnswer::Granted { fence: fence(number) }
}

fn busy(rival: u128, place: Option<u64>) -> GrantAnswer {
    let owner = Owner::Holder { holder: Holder::from_bits(rival << 64), label: None };
    let held_by = HolderInfo::exclusive(Key::new("k").unwrap(), owner, None, None);
    let position = |before| QueuePosition { ticket: Ticket::new(before), before, stood: false };
    GrantAnswer::Busy { held_by, place: place.map(position) }
}

#[test]
fn a_greater_fence_is_raised_at_the_others_before_it_is_granted() {
    let mut world = World::of(3);
    let asked = world.ask(WaitMode::Try);
    world.says(&asked[0], granted(FENCE));
    world.says(&asked[1], granted(FENCE + 7));
    world.fails(&asked[2]);
    let (raises, _) = world.questions();
    let [raise] = raises[..] else { panic!("{raises:?}") };
    assert_eq!((raise.member, raise.fence, raise.asks), (0, fence(FENCE + 7), Asks::Raise));
    let raised = RaiseAnswer::Raised { fence: fence(FENCE + 7) };
    world.machine.handle_answer(&raise, Ok(MemberAnswer::Raise(raised)));
    assert_eq!(world.answer(), granted(FENCE + 7));
    assert_eq!(world.machine.renew(0).rejoin, Rejoin::No, "it had the lease just now");
}

/// Its lease at that member counts from the first request, and may end before that of the second.
#[test]
fn an_answer_to_an_earlier_request_does_not_count() {
    let mut world = World::of(3);
    let early = world.ask(WaitMode::Try);
    world.now = world.now + Duration::from_secs(9);
    let asked = world.ask(WaitMode::Try);
    assert_eq!(early[0].holder, asked[0].holder, "the same id, because it was never given up");
    world.says(&early[0], granted(FENCE));
    world.says(&early[1], granted(FENCE));
    assert!(matches!(world.step(), QuorumStep::WaitUntil(_)));
    assert!(world.machine.counts(&asked[0]) && !world.machine.counts(&early[0]));
    world.says(&asked[0], granted(FENCE));
    world.says(&asked[1], granted(FENCE));
    assert_eq!(world.answer(), granted(FENCE));
}

#[test]
fn a_request_ends_when_its_lease_would_and_releases_everything() {
    let mut world = World::of(3);
    let asked = world.ask(WaitMode::Try);
    world.says(&asked[0], granted(FENCE));
    let QuorumStep::WaitUntil(until) = world.step() else { panic!() };
    assert_eq!(until, world.now + world.attempt.ttl.duration());
    world.now = until;
    world.says(&asked[1], granted(FENCE));
    let QuorumStep::Done(Err(fault)) = world.step() else { panic!() };
    assert_eq!(fault.kind, FaultKind::Passing, "no member abstains");
    assert_eq!(world.undone().iter().map(|(member, _)| *member).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn an_attempt_that_is_over_is_gone_once_its_calls_have_ended_and_its_ids_are_given_up() {
    let mut world = World::of(3);
    let asked = world.ask(WaitMode::Try);
    world.says(&asked[0], busy(1, None));
    world.says(&asked[1], busy(1, None));
    assert!(matches!(world.answer(), GrantAnswer::Busy { .. }));
    for _ in world.undone() {
        world.machine.handle_undone();
    }
    assert!(!world.machine.is_gone(), "a call has not ended");
    world.says(&asked[2], granted(FENCE));
    assert_eq!(world.undone(), [(2, asked[2].holder)], "the grant came after its id was given up");
    world.machine.handle_undone();
    assert!(world.machine.is_gone());
}

/// One of three holds it for somebody else, and one failed: what the third would answer decides.
#[test]
fn a_lock_is_said_to_be_held_only_if_enough_members_are_likely_to_answer() {
    for is_silent in [false, true] {
        let mut world = World::of(3);
        let asked = world.ask(WaitMode::Try);
        world.process.silent.extend(is_silent.then_some(2));
        world.says(&asked[0], busy(1, None));
        world.fails(&asked[1]);
        let step = world.step();
        assert_eq!(matches!(step, QuorumStep::Done(Err(_))), is_silent, "{step:?}");
        assert_eq!(matches!(step, QuorumStep::Refused { .. }), !is_silent, "{step:?}");
    }
}

#[test]
fn an_attempt_that_waits_is_in_one_queue_and_asks_that_member_first() {
    let mut world = World::of(3);
    let asked = world.ask(WAIT);
    let modes = [0, 1, 2].map(|member| asked[member].asks);
    assert_eq!(modes, [WAIT, WaitMode::Try, WaitMode::Try].map(Asks::Grant));
    for question in &asked {
        world.says(question, busy(1, (question.member == 0).then_some(0)));
    }
    assert!(matches!(world.answer(), GrantAnswer::Busy { place: Some(_), .. }));
    assert_eq!(world.undone(), [(1, asked[1].holder), (2, asked[2].holder)]);
    let wait = QuorumWait::AtQueueMember { member: 0, holder: asked[0].holder };
    assert_eq!(world.machine.waits(), wait);

    let begun = world.now;
    let first = world.ask(WAIT);
    assert_eq!(first.len(), 1, "the others hold nothing of it");
    world.says(&first[0], granted(FENCE + 3));
    world.now = begun + Duration::from_millis(10);
    let (others, step) = world.questions();
    assert_eq!(step, QuorumStep::WaitUntil(begun + world.attempt.ttl.duration()), "counted from its turn");
    assert!(others.iter().all(|question| question.fence == fence(FENCE + 3)), "as the queue member answered");
    assert_eq!(others.iter().map(|question| question.member).collect::<Vec<_>>(), [1, 2]);
    world.says(&others[1], granted(FENCE + 3));
    assert_eq!(world.answer(), granted(FENCE + 3));
}

/// A break may be why a member does not have it, so the member's record is read first.
#[test]
fn a_transferred_lease_is_renewed_and_taken_again_only_where_the_record_permits() {
    let mut world = World::of(3);
    world.machine.handle_transferred(fence(FENCE));
    let renewal = world.machine.renew(0);
    assert_eq!((renewal.fence, renewal.rejoin), (Some(fence(FENCE)), Rejoin::No));
    let key = world.attempt.claim.first_key().clone();
    world.machine.handle_renewed(0, &renewal, &Ok(HoldAnswer::NotHeld { key, held_by: None }));
    let again = world.machine.renew(0);
    assert_eq!(again.rejoin, Rejoin::UnlessBroken);
    assert!(world.machine.handle_last_break(0, &again, None));
}

#[test]
fn an_attempt_keeps_its_place_while_a_majority_answers_and_asks_no_longer_than_its_lease_would_last() {
    let mut world = World::of(3);
    for question in world.ask(WAIT) {
        world.says(&question, busy(1, (question.member == 0).then_some(0)));
    }
    world.answer();
    let holder = world.machine.holder(0);
    world.process.silent.insert(2);
    let first = world.ask(WAIT);
    assert_eq!((first.len(), first[0].holder), (1, holder));
    let QuorumStep::WaitUntil(until) = world.step() else { panic!() };
    world.now = until;
    assert!(matches!(world.step(), QuorumStep::Done(Err(_))));
    world.process.silent.insert(1);
    assert_ne!(world.ask(WAIT)[0].holder, holder);
}

/// The lock there may be left over, of another program, or a rival's that has no majority.
#[test]
fn an_attempt_in_a_queue_asks_the_others_too_if_the_lock_there_may_mean_nothing() {
    let ours = |number: u128| Owner::Holder { holder: Holder::from_bits(number << 64), label: None };
    let foreign = Owner::Foreign { value: b"x"[..].into() };
    for (rivals, owner, before, left, asks) in [
        ([1, 1, 1], ours(1), 0, 6, false),
        ([1, 1, 1], ours(1), 0, 4, true),
        ([1, 1, 1], ours(1), 1, 4, false),
        ([1, 1, 1], foreign, 1, 6, true),
        ([1, 2, 3], ours(1), 1, 6, true),
    ] {
        let mut world = World::of(3);
        for (question, rival) in world.ask(WAIT).iter().zip(rivals) {
            world.says(question, busy(rival, (question.member == 0).then_some(0)));
        }
        world.answer();
        let first = world.ask(WAIT);
        let GrantAnswer::Busy { mut held_by, place } = busy(1, Some(before)) else { unreachable!() };
        (held_by.owner, held_by.remaining) = (owner, Some(Duration::from_secs(left)));
        world.says(&first[0], GrantAnswer::Busy { held_by, place });
        assert_eq!(world.questions().0.len(), if asks { 2 } else { 0 }, "{rivals:?} {before} {left}");
    }
}

#[test]
fn a_majority_waits_briefly_for_the_queue_member_unless_it_is_silent() {
    for is_silent in [false, true] {
        let mut world = World::of(3);
        let asked = world.ask(WaitMode::Try);
        world.process.silent.extend(is_silent.then_some(0));
        world.says(&asked[1], granted(FENCE));
        world.says(&asked[2], granted(FENCE));
        if !is_silent {
            let courtesy = world.now + QuorumAttempt::COURTESY;
            assert_eq!(world.step(), QuorumStep::WaitUntil(courtesy));
            world.now = courtesy;
            assert_eq!(world.step(), QuorumStep::Silent { member: 0 });
        }
        assert_eq!(world.answer(), granted(FENCE));
    }
}

#[test]
fn an_attempt_whose_queue_is_gone_starts_over() {
    let mut world = World::of(3);
    for question in world.ask(WAIT) {
        world.says(&question, busy(1, (question.member == 0).then_some(0)));
    }
    world.answer();
    let first = world.ask(WAIT);
    world.process.silent.insert(0);
    world.fails(&first[0]);
    let (asked, _) = world.questions();
    let waits: Vec<_> = asked.iter().map(|question| question.asks).collect();
    assert_eq!(waits, [WaitMode::Try, WAIT, WaitMode::Try].map(Asks::Grant), "the next member has the queue");
    assert_ne!(asked[0].holder, first[0].holder);
}

/// Regression: the grant was counted although its id had been given up, so that the member could
/// grant the key to somebody else.
#[test]
fn a_late_answer_from_a_queue_that_was_left_does_not_count() {
    let mut world = World::of(3);
    for question in world.ask(WAIT) {
        world.says(&question, busy(1, (question.member == 0).then_some(0)));
    }
    world.answer();
    let first = world.ask(WAIT);
    world.machine.handle_late(&first[0], Fault::passing("a", "timed out"));
    world.process.silent.insert(0);
    let (asked, _) = world.questions();
    world.says(&first[0], granted(FENCE));
    world.says(&asked[1], granted(FENCE));
    assert!(matches!(world.step(), QuorumStep::WaitUntil(_)), "one of three");
    world.says(&asked[2], granted(FENCE));
    assert_eq!(world.answer(), granted(FENCE));
}

/// Otherwise the first of the queue, which asks the others only now, would be passed.
#[test]
fn a_majority_gives_way_once_to_the_holder_of_the_queue_members_key() {
    let mut world = World::of(3);
    let asked = world.ask(WAIT);
    world.says(&asked[1], granted(FENCE));
    world.says(&asked[2], granted(FENCE));
    world.says(&asked[0], busy(1, Some(0)));
    let QuorumStep::WaitUntil(until) = world.step() else { panic!() };
    assert_eq!(world.undone(), [(1, asked[1].holder), (2, asked[2].holder)]);
    world.now = until;
    let (again, _) = world.questions();
    assert_eq!(again[0].holder, asked[0].holder, "it keeps its position in the queue");
    world.says(&again[0], busy(1, Some(0)));
    world.says(&again[1], granted(FENCE));
    world.says(&again[2], granted(FENCE));
    assert_eq!(world.answer(), granted(FENCE), "a dead process left the key");
}

#[test]
fn the_queue_member_is_waited_for_as_long_as_before_after_a_majority_gave_way() {
    let mut world = World::of(3);
    let asked = world.ask(WaitMode::Try);
    world.says(&asked[1], granted(FENCE));
    world.says(&asked[2], granted(FENCE));
    assert_eq!(world.step(), QuorumStep::WaitUntil(world.now + QuorumAttempt::COURTESY));
    world.says(&asked[0], busy(1, None));
    let QuorumStep::WaitUntil(until) = world.step() else { panic!() };
    world.now = until;
    let (again, _) = world.questions();
    world.says(&again[1], granted(FENCE));
    world.says(&again[2], granted(FENCE));
    assert_eq!(world.step(), QuorumStep::WaitUntil(until + QuorumAttempt::COURTESY));
}

/// The grant that it reports is given up.
#[test]
fn an_answer_to_a_question_of_before_it_gave_way_does_not_count() {
    let mut world = World::of(5);
    let asked = world.ask(WaitMode::Try);
    for member in [1, 2, 3] {
        world.says(&asked[member], granted(FENCE));
    }
    world.says(&asked[0], busy(1, None));
    let QuorumStep::WaitUntil(until) = world.step() else { panic!() };
    assert_eq!(world.undone().len(), 4);
    world.now = until;
    let (again, _) = world.questions();
    world.says(&asked[4], granted(FENCE));
    assert_eq!(world.undone(), [(4, asked[4].holder)]);
    world.says(&again[0], busy(1, None));
    for member in [1, 2] {
        world.says(&again[member], granted(FENCE));
    }
    assert!(matches!(world.step(), QuorumStep::WaitUntil(_)), "two of five");
    world.says(&again[3], granted(FENCE));
    assert_eq!(world.answer(), granted(FENCE));
}

/// Another program takes no part in rounds, and an earlier id of the attempt is being released.
#[test]
fn a_majority_does_not_give_way_to_another_program_or_to_the_attempt_itself() {
    for owner in [
        Owner::Foreign { value: b"x"[..].into() },
        Owner::Holder { holder: Holder::from_bits((7 << 64) + 1), label: None },
    ] {
        let mut world = World::of(3);
        let asked = world.ask(WaitMode::Try);
        world.says(&asked[1], granted(FENCE));
        world.says(&asked[2], granted(FENCE));
        let held_by = HolderInfo::exclusive(Key::new("k").unwrap(), owner, None, None);
        world.says(&asked[0], GrantAnswer::Busy { held_by, place: None });
        assert_eq!(world.answer(), granted(FENCE));
    }
}

#[test]
fn readers_wait_behind_a_writer_that_is_queued_at_the_queue_member() {
    let mut world = World::of(3);
    world.attempt.claim = world.attempt.claim.reading();
    let asked = world.ask(WaitMode::Try);
    world.says(&asked[1], granted(FENCE));
    world.says(&asked[2], granted(FENCE));
    let GrantAnswer::Busy { mut held_by, .. } = busy(1, None) else { unreachable!() };
    held_by.mode = Mode::Shared;
    world.says(&asked[0], GrantAnswer::Busy { held_by, place: None });
    assert!(matches!(world.answer(), GrantAnswer::Busy { place: None, .. }));
    assert_eq!(world.undone().len(), 3);
}

#[test]
fn a_majority_leaves_for_waiters_at_the_queue_member_only_if_readers_meet_there() {
    for (reads, held) in [(true, Mode::Exclusive), (false, Mode::Shared), (true, Mode::Shared)] {
        let mut world = World::of(3);
        if reads {
            world.attempt.claim = world.attempt.claim.reading();
        }
        let asked = world.ask(WaitMode::Try);
        world.says(&asked[1], granted(FENCE));
        world.says(&asked[2], granted(FENCE));
        let GrantAnswer::Busy { mut held_by, place } = busy(1, None) else { unreachable!() };
        held_by.mode = held;
        world.says(&asked[0], GrantAnswer::Busy { held_by, place });
        let leaves = matches!(world.step(), QuorumStep::Refused { .. });
        assert_eq!(leaves, reads && held == Mode::Shared, "otherwise it gives way: {reads} {held:?}");
    }
}

#[test]
fn only_the_member_in_whose_queue_an_attempt_is_hands_the_key_over() {
    let mut world = World::of(3);
    for question in world.ask(WAIT) {
        world.says(&question, busy(1, (question.member == 0).then_some(0)));
    }
    world.answer();
    let waits = world.machine.waits();
    let lasts = world.attempt.ttl;
    let handed = Wake::Granted { fence: fence(FENCE), since: world.now, lasts };
    world.machine.handle_wake(1, handed);
    assert_eq!(world.machine.waits(), waits);
    world.machine.handle_wake(0, handed);
    assert_eq!(world.machine.waits(), QuorumWait::Nothing);
}

/// Their TTLs are so short that the usual times would not leave enough of them.
#[test]
fn attempts_with_short_ttls_give_way_and_keep_asking_for_a_part_of_them() {
    let ttl = Duration::from_millis(400);
    let of = |first: GrantAnswer, others: [GrantAnswer; 2]| {
        let mut world = World::of(3);
        world.attempt.ttl = Ttl::new(ttl).unwrap();
        let asked = world.ask(WaitMode::Try);
        let answers = [first].into_iter().chain(others);
        asked.iter().zip(answers).for_each(|(question, answer)| world.says(question, answer));
        world
    };
    let mut gives_way = of(busy(1, None), [granted(FENCE), granted(FENCE)]);
    assert_eq!(gives_way.step(), QuorumStep::WaitUntil(gives_way.now + ttl / 16));

    let mut splits = of(granted(FENCE), [busy(1, None), busy(2, None)]);
    assert!(matches!(splits.step(), QuorumStep::WaitUntil(_)));
    splits.now = splits.now + ttl / 4;
    let (again, _) = splits.questions();
    for (question, rival) in again.iter().zip([1, 2]) {
        splits.says(question, busy(rival, None));
    }
    assert!(matches!(splits.step(), QuorumStep::Refused { .. }));
}

#[test]
fn an_error_waits_for_further_answers_once() {
    let mut world = World::of(5);
    let asked = world.ask(WaitMode::Try);
    asked[..3].iter().for_each(|question| world.fails(question));
    let until = world.now + QuorumAttempt::COURTESY;
    assert_eq!(world.step(), QuorumStep::WaitUntil(until));
    world.now = world.now + QuorumAttempt::COURTESY / 2;
    world.fails(&asked[3]);
    assert_eq!(world.step(), QuorumStep::WaitUntil(until));
}

/// The first member has another program's lock, and so is one of those that refuse.
#[test]
fn an_attempt_that_has_the_second_members_key_waits_for_the_first_as_for_the_third() {
    let limited = WaitMode::Wait { queue_limit: Some(1) };
    let mut world = World::of(3);
    let asked = world.ask(limited);
    let owner = Owner::Foreign { value: b"x"[..].into() };
    let held_by = HolderInfo::exclusive(Key::new("k").unwrap(), owner, None, None);
    let foreign = GrantAnswer::Busy { held_by, place: None };
    world.says(&asked[0], foreign.clone());
    world.says(&asked[1], granted(FENCE));
    world.says(&asked[2], busy(2, None));
    let (joins, _) = world.questions();
    for question in &joins {
        world.says(question, if question.member == 0 { foreign.clone() } else { busy(2, Some(0)) });
    }
    world.answer();
    let again = world.ask(limited);
    let wait_modes: Vec<_> = again.iter().map(|question| question.asks).collect();
    assert_eq!(wait_modes, [WAIT, limited, WAIT].map(Asks::Grant));
}

#[test]
fn a_waiter_queues_at_a_later_member_as_often_as_one_does_not_answer() {
    let mut world = World::of(5);
    let asked = world.ask(WAIT);
    let owner = Owner::Foreign { value: b"x"[..].into() };
    let held_by = HolderInfo::exclusive(Key::new("k").unwrap(), owner, None, None);
    world.says(&asked[0], GrantAnswer::Busy { held_by, place: None });
    asked[1..].iter().for_each(|question| world.says(question, busy(1, None)));
    let (first, _) = world.questions();
    world.fails(&first[0]);
    let (second, _) = world.questions();
    assert_eq!([&first, &second].map(|moved| (moved.len(), moved[0].member)), [(1, 1), (1, 2)]);
    world.says(&second[0], busy(1, Some(0)));
    assert!(matches!(world.answer(), GrantAnswer::Busy { place: Some(_), .. }));
    let wait = QuorumWait::AtQueueMember { member: 2, holder: asked[2].holder };
    assert_eq!(world.machine.waits(), wait);
}

#[test]
fn the_next_queue_member_is_waited_for_as_the_first_one_was() {
    let mut world = World::of(5);
    let asked = world.ask(WAIT);
    asked[1..].iter().for_each(|question| world.says(question, busy(1, None)));
    assert_eq!(world.step(), QuorumStep::WaitUntil(world.now + QuorumAttempt::COURTESY));
    world.now = world.now + QuorumAttempt::COURTESY;
    assert_eq!(world.step(), QuorumStep::Silent { member: 0 });
    let (moved, step) = world.questions();
    assert_eq!(moved.iter().map(|question| question.member).collect::<Vec<_>>(), [1]);
    assert_eq!(step, QuorumStep::WaitUntil(world.now + QuorumAttempt::COURTESY));
}

#[test]
fn an_attempt_that_a_full_queue_refuses_keeps_nothing() {
    let mut world = World::of(3);
    let asked = world.ask(WAIT);
    let GrantAnswer::Busy { held_by, .. } = busy(1, None) else { unreachable!() };
    world.says(&asked[0], GrantAnswer::QueueFull { held_by, length: 1 });
    world.says(&asked[1], granted(FENCE));
    world.says(&asked[2], busy(1, None));
    assert!(matches!(world.answer(), GrantAnswer::QueueFull { .. }));
    assert_eq!(world.undone().len(), 3);
}

#[test]
fn a_place_in_the_queue_of_a_former_queue_member_does_not_count() {
    let mut world = World::of(3);
    let asked = world.ask(WAIT);
    let owner = Owner::Foreign { value: b"x"[..].into() };
    let held_by = HolderInfo::exclusive(Key::new("k").unwrap(), owner, None, None);
    let GrantAnswer::Busy { place, .. } = busy(1, Some(0)) else { unreachable!() };
    world.says(&asked[0], GrantAnswer::Busy { held_by, place });
    world.says(&asked[1], busy(1, None));
    // The third does not answer.
    let (moved, _) = world.questions();
    world.fails(&moved[0]);
    assert!(matches!(world.answer(), GrantAnswer::Busy { place: None, .. }));
    assert_eq!(world.machine.waits(), QuorumWait::Nothing);
}

/// One of those in front of it may wait for the key that it has.
#[test]
fn an_attempt_that_has_the_queue_members_key_waits_in_other_queues_for_a_limited_time() {
    let mut world = World::of(3);
    let mut waits = |is_in_queues: bool| {
        let asked = world.ask(WAIT);
        world.says(&asked[0], granted(FENCE));
        world.says(&asked[1], busy(1, is_in_queues.then_some(5)));
        world.says(&asked[2], busy(2, None));
        if !is_in_queues {
            let (joins, _) = world.questions();
            world.says(&joins[0], busy(1, (joins[0].member == 1).then_some(5)));
            world.says(&joins[1], busy(2, (joins[1].member == 1).then_some(5)));
        }
        assert!(matches!(world.answer(), GrantAnswer::Busy { place: Some(_), .. }), "in one of them");
        world.now = world.now + Duration::from_millis(10);
        let QuorumWait::AtRefusers { until, .. } = world.machine.waits() else { panic!() };
        until
    };
    let until = waits(false);
    assert_eq!(waits(true), until);
}

/// It has lost the queue member's key while it waited for the others.
#[test]
fn an_attempt_that_gives_way_waits_in_no_other_queue_any_more() {
    let mut world = World::of(5);
    let asked = world.ask(WAIT);
    world.says(&asked[0], granted(FENCE));
    asked[1..].iter().for_each(|question| world.says(question, busy(1, None)));
    let (joins, _) = world.questions();
    joins.iter().for_each(|question| world.says(question, busy(1, Some(5))));
    assert!(matches!(world.answer(), GrantAnswer::Busy { place: Some(_), .. }));

    let asked = world.ask(WAIT);
    world.says(&asked[0], busy(1, Some(0)));
    world.says(&asked[1], busy(1, Some(5)));
    asked[2..].iter().for_each(|question| world.says(question, granted(FENCE)));
    let QuorumStep::WaitUntil(until) = world.step() else { panic!() };
    world.now = until;
    let (again, _) = world.questions();
    assert!(again[1..].iter().all(|question| question.asks == Asks::Grant(WaitMode::Try)), "{again:?}");

    world.says(&again[0], granted(FENCE));
    again[1..].iter().for_each(|question| world.says(question, busy(1, None)));
    let (joins, _) = world.questions();
    joins.iter().for_each(|question| world.says(question, busy(1, None)));
    assert!(matches!(world.answer(), GrantAnswer::Busy { place: None, .. }), "that place is given up");
}
