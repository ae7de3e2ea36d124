use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{HoldAnswer, Holder, Key, Owner};

const START: Instant = Instant::from_nanos(1_000_000_000_000);

fn fence(number: u64) -> Fence {
    Fence::new(number).unwrap()
}

fn silent() -> Fault {
    Fault::passing("m", "timed out")
}

fn someone(bits: u128) -> HolderInfo {
    let owner = Owner::Holder { holder: Holder::from_bits(bits), label: None };
    HolderInfo::exclusive(Key::new("k").unwrap(), owner, None, None)
}

/// A round of so many members, all of them asked.
fn asked(members: usize) -> Round {
    let mut round = Round::new(members, START + Duration::from_secs(10), 0);
    for n in 0..members {
        assert_eq!(round.next(START), RoundAction::Grant { member: n });
    }
    round
}

#[test]
fn an_answer_above_the_fence_raises_it_further_and_a_late_grant_of_exactly_it_counts() {
    let mut round = asked(3);
    round.handle_fence(0, fence(7));
    round.handle_fence(1, fence(9));
    round.next(START);
    round.handle_fence(0, fence(11));
    assert_eq!(round.next(START), RoundAction::Raise { member: 1, fence: fence(11) });
    round.handle_fence(2, fence(11));
    assert_eq!(round.next(START), RoundAction::Granted { fence: fence(11) });
}

#[test]
fn a_member_that_lost_the_lease_while_it_was_asked_to_raise_votes_no_more() {
    for successor in [None, Some(someone(9))] {
        let mut round = asked(3);
        round.handle_refused(2, Some(someone(9)));
        round.handle_fence(0, fence(7));
        round.handle_fence(1, fence(9));
        round.next(START);
        round.handle_refused(0, successor);
        assert_eq!(round.next(START), RoundAction::Failed);
        round.handle_fence(0, fence(9));
        assert_eq!(round.next(START), RoundAction::Failed, "an answer from before");
    }
}

#[test]
fn it_is_decided_as_soon_as_a_majority_is_impossible() {
    let mut round = asked(5);
    round.handle_refused(0, Some(someone(1)));
    round.handle_fault(1, silent());
    assert!(matches!(round.next(START), RoundAction::WaitUntil(_)));
    round.handle_fault(2, Fault::quarantined("m", Duration::from_secs(9)));
    assert_eq!(round.next(START), RoundAction::Failed);
    assert!(!round.is_held_elsewhere() && round.could_be_won(|_| true) && !round.is_hopeless());
    assert!(!round.could_be_won(|_| false), "one refused, and two have not said anything");
    assert!(!round.waits_for_quarantine(), "two of five would vote");
    round.handle_fault(3, Fault::quarantined("m", Duration::from_secs(9)));
    assert!(round.waits_for_quarantine());
}

#[test]
fn an_answer_after_a_fault_counts_and_one_after_the_leases_end_does_not() {
    let mut round = asked(1);
    round.handle_fault(0, silent());
    assert_eq!(round.next(START), RoundAction::Failed);
    round.handle_fence(0, fence(7));
    assert_eq!(round.next(START), RoundAction::Granted { fence: fence(7) });
    assert_eq!(round.next(START + Duration::from_secs(10)), RoundAction::Failed);
}

#[test]
fn a_split_vote_differs_from_a_holder() {
    let mut round = asked(3);
    let [one, other] = [1, 2].map(|number| someone(number << 32));
    round.handle_refused(0, Some(one.clone()));
    round.handle_refused(1, Some(other));
    assert!(round.is_held_elsewhere());
    assert_eq!(round.held_by_one(), None);
    round.handle_refused(2, Some(one.clone()));
    assert_eq!(round.held_by_one(), Some(&one));
}

/// Regression: of several holders, the first member's was named, with its fence there: a dead process
/// that had left something at a minority, or a fence by which the lease cannot be broken.
#[test]
fn the_holder_at_most_members_is_named_with_the_fence_that_most_of_them_show() {
    let holding = |number| HolderInfo { fence: Some(fence(number)), ..someone(1 << 32) };
    let named = [(0, someone(2 << 32)), (1, holding(9)), (2, holding(7)), (3, holding(7))];
    let (mut round, mut ballot) = (asked(5), Ballot::new(5));
    for (member, held_by) in named {
        round.handle_refused(member, Some(held_by.clone()));
        let key = held_by.key.clone();
        ballot.handle(member, Ok(HoldAnswer::NotHeld { key, held_by: Some(held_by) }));
    }
    assert_eq!(round.held_by_one(), Some(&holding(7)));
    let Vote::NotHeld { held_by, .. } = ballot.vote() else { panic!() };
    assert_eq!(held_by, Some(holding(7)));
}

#[test]
fn a_member_that_refused_may_be_asked_once_more_and_one_that_granted_may_not() {
    let mut round = asked(3);
    assert!(round.awaits(0) && !round.has_granted(0));
    round.handle_refused(0, Some(someone(1)));
    round.handle_fence(1, fence(7));
    assert!(!round.awaits(0) && !round.has_granted(0));
    assert!(!round.awaits(1) && round.has_granted(1));
    round.ask_again(1);
    round.ask_again(0);
    assert_eq!(round.next(START), RoundAction::Grant { member: 0 });
    assert!(round.awaits(0) && round.has_granted(1));
    round.handle_fence(0, fence(7));
    assert_eq!(round.next(START), RoundAction::Granted { fence: fence(7) });
}

#[test]
fn an_answer_that_is_overtaken_by_a_later_one_lowers_no_fence() {
    let mut round = asked(3);
    round.handle_fence(0, fence(9));
    round.handle_fence(0, fence(7));
    round.handle_fence(1, fence(9));
    assert_eq!(round.next(START), RoundAction::Granted { fence: fence(9) });
}

#[test]
fn it_is_hopeless_when_a_majority_refuses_for_good_and_not_before() {
    let (mut round, mut ballot) = (asked(4), Ballot::new(4));
    let mut is_hopeless_after = |member, fault: Fault| {
        round.handle_fault(member, fault.clone());
        ballot.handle(member, Err(fault));
        assert_eq!(round.is_hopeless(), ballot.is_hopeless());
        round.is_hopeless()
    };
    let lasting = || Fault::lasting("m", "wrong password");
    assert!(!is_hopeless_after(0, lasting()));
    assert!(!is_hopeless_after(1, silent()));
    assert!(is_hopeless_after(1, lasting()), "two of four are no majority");
    for passing in [silent(), Fault::quarantined("m", Duration::from_secs(9))] {
        assert!(!is_hopeless_after(0, passing));
    }
}

#[test]
fn it_is_held_elsewhere_when_those_that_are_left_are_no_majority() {
    let mut round = asked(5);
    for member in [0, 1] {
        round.handle_refused(member, Some(someone(1)));
        assert!(!round.is_held_elsewhere(), "three of five are one");
    }
    round.handle_refused(2, Some(someone(1)));
    assert!(round.is_held_elsewhere());
}

const DONE: Result<HoldAnswer, Fault> = Ok(HoldAnswer::Done);

fn not_held(by: Option<u128>) -> Result<HoldAnswer, Fault> {
    Ok(HoldAnswer::NotHeld { key: Key::new("k").unwrap(), held_by: by.map(someone) })
}

fn lost(to: Option<u128>) -> Vote {
    Vote::NotHeld { key: Key::new("k").unwrap(), held_by: to.map(someone) }
}

/// The vote of so many members after each of these answers.
fn votes<const N: usize>(members: usize, answers: [(usize, Result<HoldAnswer, Fault>); N]) -> [Vote; N] {
    let mut ballot = Ballot::new(members);
    answers.map(|(member, answer)| {
        ballot.handle(member, answer);
        ballot.vote()
    })
}

#[test]
fn a_ballot_that_can_be_neither_done_nor_lost_is_unknown_before_all_have_answered() {
    let early = votes(5, [0, 1, 2].map(|member| (member, Err(silent()))));
    assert_eq!(early, [Vote::Open, Vote::Open, Vote::Unknown]);
    let nobody_is_left = votes(3, [(0, Err(silent())), (1, DONE), (2, not_held(None))]);
    assert_eq!(nobody_is_left, [Vote::Open, Vote::Open, Vote::Unknown]);
}

#[test]
fn a_renewal_is_done_by_a_majority_and_lost_when_none_is_left() {
    assert_eq!(votes(3, [(0, DONE), (1, Err(silent())), (2, DONE)]), [Vote::Open, Vote::Open, Vote::Done]);
    assert_eq!(votes(3, [(0, not_held(None)), (1, not_held(Some(7)))]), [Vote::Open, lost(Some(7))]);
    let mostly_gone = [(0, not_held(Some(7))), (1, not_held(None)), (2, not_held(None))];
    assert_eq!(votes(5, mostly_gone)[2], lost(None), "most of them name nobody");
}

#[test]
fn faults_are_never_a_loss() {
    // The third may yet make it a loss, and its answer after a fault counts.
    let answers = [(0, not_held(None)), (1, Err(silent())), (2, Err(silent())), (2, not_held(None))];
    assert_eq!(votes(3, answers), [Vote::Open, Vote::Open, Vote::Unknown, lost(None)]);
}

/// A member as it is at the other end: its fence, and whether the attempt holds there.
#[derive(Clone, Debug)]
struct Member {
    fence: u64,
    holds: bool,
}

proptest! {
    /// Members with any fences, answering in any order, some never, some losing the lease or
    /// passing another's fence on the way: what is granted is above every earlier fence of some
    /// majority, a majority has it, and the round never hangs.
    #[test]
    fn a_granted_fence_is_at_a_majority_and_greater_than_all_before_it(
        proposal in 0..40u64,
        fences in prop::collection::vec(0..40u64, 1..8),
        steps in prop::collection::vec((0..100usize, 0..10u8), 0..60),
    ) {
        let n = fences.len();
        let mut members: Vec<_> = fences.iter().map(|fence| Member { fence: *fence, holds: false }).collect();
        let mut round = Round::new(n, START + Duration::from_secs(10), 0);
        let mut calls: Vec<(usize, Option<u64>)> = Vec::new();
        let mut steps = steps.into_iter();
        let (mut asks, mut out) = (vec![0; n], vec![false; n]);
        let granted = loop {
            match round.next(START) {
                RoundAction::Grant { member } => { asks[member] += 1; calls.push((member, None)); }
                RoundAction::Raise { member, fence } => calls.push((member, Some(fence.get()))),
                RoundAction::Granted { fence } => break Some(fence.get()),
                RoundAction::Failed => break None,
                RoundAction::WaitUntil(_) => {
                    prop_assert!(!calls.is_empty(), "it waits for nothing: {round:?}");
                    let (which, how) = steps.next().unwrap_or((0, 9));
                    let (at, raise) = calls.remove(which % calls.len());
                    let member = &mut members[at];
                    // A lost grant stays lost.
                    let how = if raise.is_some() && !member.holds { 1 } else { how };
                    out[at] = how <= 1;
                    match (how, raise) {
                        (0, _) => round.handle_fault(at, silent()),
                        (1, None) => round.handle_refused(at, Some(someone(5))),
                        (1, Some(_)) => { member.holds = false; round.handle_refused(at, None); }
                        (_, None) => {
                            member.holds = true;
                            member.fence = (member.fence + 1).max(proposal);
                            round.handle_fence(at, fence(member.fence));
                        }
                        (how, Some(to)) => {
                            // Its fence may have gone up by itself in the meantime.
                            member.fence = member.fence.max(to) + u64::from(how == 2);
                            round.handle_fence(at, fence(member.fence));
                        }
                    }
                }
            }
        };
        prop_assert!(asks.iter().all(|asks| *asks <= 1));
        if let Some(granted) = granted {
            let agree = members.iter().filter(|member| member.holds && member.fence == granted).count();
            prop_assert!(agree >= majority_of(n), "{granted}: {members:?}");
            let below = fences.iter().filter(|before| **before < granted).count();
            prop_assert!(below >= majority_of(n), "{granted} against {fences:?}");
        } else {
            let left = out.iter().filter(|out| !**out).count();
            prop_assert!(left < majority_of(n), "given up too early: {round:?}");
        }
    }
}
