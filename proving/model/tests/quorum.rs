//! A majority of members: the rules hold, and each of them is needed.
//!
//! `cargo test -p model --test quorum -- --nocapture` prints how each rule that is left out breaks.

use model::explore::{Trace, explore};
use model::quorum::{Flaw, Memory, Quorum};

const LIMIT: usize = 4_000_000;
const FAR: usize = 24_000_000;

const TWO_BELIEVE: &str = "two believe that they hold";
const DOES_NOT_RISE: &str = "a fence does not rise";
const LEFT_BEHIND: &str = "a lock is left behind";
const NO_HOPE: &str = "from here on waiting helps nobody";

fn sound<const N: usize>(world: Quorum<N>, at_least: usize, limit: usize) {
    let states = explore(world, limit).sound();
    println!("{N} members: {states} states");
    assert!(states >= at_least, "{states} states; there were {at_least}");
}

fn broken<const N: usize>(world: Quorum<N>) -> Trace {
    let trace = explore(world, LIMIT).broken();
    println!("{trace}");
    trace
}

fn of_three(attempts: usize) -> Quorum<3> {
    Quorum::new(None, attempts)
}

fn without(flaw: Flaw, attempts: usize) -> Quorum<3> {
    println!("{flaw:?}");
    Quorum::new(Some(flaw), attempts)
}

#[test]
fn one_holds_and_fences_rise_through_a_crash_a_renewal_and_a_restart() {
    sound(of_three(2).crashes(1).renewals(1).restarts(1, Memory::Clock), 311_044, LIMIT);
}

#[test]
fn one_of_three_attempts_holds_also_when_a_client_crashes() {
    sound(of_three(3).crashes(1), 291_966, LIMIT);
}

#[test]
fn one_of_three_attempts_holds_also_when_it_renews() {
    sound(of_three(3).renewals(1), 789_246, LIMIT);
}

#[test]
fn a_grant_may_be_served_twice_whatever_fence_each_would_begin_with() {
    sound(of_three(2).twins(1).renewals(1).lowest(&[1, 3]), 411_653, LIMIT);
}

#[test]
fn fences_rise_at_five_members_even_if_leases_end_at_any_moment() {
    sound(Quorum::<5>::new(None, 2).without_time(), 195_479, LIMIT);
}

#[test]
fn one_holds_of_five_members_as_well() {
    sound(Quorum::<5>::new(None, 2), 38_466, LIMIT);
}

#[test]
fn whoever_waits_where_the_line_is_holds_only_with_a_majority() {
    sound(of_three(2).waits(1), 183_128, LIMIT);
}

#[test]
fn members_that_restart_one_after_the_other_give_no_fence_twice() {
    sound(of_three(2).restarts(2, Memory::Clock).renewals(1), 393_357, LIMIT);
}

#[test]
fn a_fence_that_was_not_in_use_for_long_may_be_forgotten() {
    sound(of_three(2).restarts(1, Memory::Clock).forgets(1), 32_562, LIMIT);
}

#[test]
fn without_clocks_a_fence_can_be_learnt_again_from_a_majority() {
    sound(of_three(2).restarts(1, Memory::Others).renewals(1), 86_601, LIMIT);
}

#[test]
fn without_clocks_a_holder_that_renews_carries_its_fence_through_rolling_restarts() {
    sound(of_three(2).restarts(2, Memory::Holder).renewals(2), 339_912, LIMIT);
}

#[test]
fn with_a_member_down_the_others_grant() {
    sound(of_three(2).down(1).crashes(1).renewals(1).restarts(1, Memory::Clock).twins(1), 59_398, LIMIT);
    sound(of_three(1).down(1).waits(1), 213, LIMIT);
}

#[test]
fn an_even_split_settles() {
    sound(Quorum::<2>::new(None, 3), 4_108, LIMIT);
    sound(Quorum::<4>::new(None, 2).twins(1), 105_226, LIMIT);
}

#[test]
fn without_a_majority_nobody_is_granted() {
    assert_eq!(broken(of_three(2).down(2)).fault, NO_HOPE);
}

/// Why the clock is relied on, and not this.
#[test]
fn members_that_learn_from_each_other_wait_for_ever_once_most_have_restarted() {
    assert_eq!(broken(of_three(1).restarts(2, Memory::Others)).fault, NO_HOPE);
}

/// Nor may a fence have an end where the clock is not relied on.
#[test]
fn without_clocks_no_fence_may_be_forgotten() {
    assert_eq!(broken(of_three(2).restarts(0, Memory::Others).forgets(1)).fault, DOES_NOT_RISE);
}

#[test]
fn the_highest_fence_must_not_be_claimed_at_once() {
    assert_eq!(broken(without(Flaw::ClaimsTheHighestAtOnce, 3)).fault, DOES_NOT_RISE);
}

#[test]
fn a_raise_counts_only_where_the_key_is_owned() {
    assert_eq!(broken(without(Flaw::RaiseCountsWhereNotOwned, 3)).fault, DOES_NOT_RISE);
    assert_eq!(broken(without(Flaw::RaiseCountsWhereNotOwned, 2).without_time()).fault, "two have one fence");
}

#[test]
fn only_answers_of_exactly_the_fence_count() {
    assert_eq!(broken(without(Flaw::AnyAnswerCounts, 2).without_time()).fault, "two have one fence");
}

#[test]
fn each_grant_must_add_one() {
    assert_eq!(broken(without(Flaw::NoPlusOne, 2)).fault, DOES_NOT_RISE);
}

#[test]
fn the_fence_must_outlive_the_lock() {
    assert_eq!(broken(without(Flaw::FenceInsideTheKey, 2)).fault, DOES_NOT_RISE);
}

/// The fence of a holder of all three, who renews throughout, is lost by one member after the other. With clocks it would not be
/// missed.
#[test]
fn a_renewal_that_joins_a_member_must_raise_there() {
    let world = without(Flaw::JoinsWithoutRaising, 2).restarts(2, Memory::Holder).renewals(2);
    assert_eq!(broken(world).fault, DOES_NOT_RISE);
}

#[test]
fn a_member_that_restarted_must_not_vote_at_once() {
    let world = without(Flaw::NoQuarantine, 2).restarts(1, Memory::Clock);
    assert_eq!(broken(world).fault, DOES_NOT_RISE);
}

#[test]
fn quarantine_does_not_help_a_pure_counter() {
    let world = without(Flaw::PureCounter, 2).restarts(1, Memory::Clock);
    assert_eq!(broken(world).fault, DOES_NOT_RISE);
    let world = without(Flaw::PureCounter, 2).forgets(1);
    assert_eq!(broken(world).fault, DOES_NOT_RISE);
}

#[test]
fn a_fence_must_be_learnt_from_a_majority() {
    let world = without(Flaw::LearnsFromOne, 2).restarts(1, Memory::Others);
    assert_eq!(broken(world).fault, DOES_NOT_RISE);
}

#[test]
fn a_quarantine_must_outlast_the_longest_ttl_of_all() {
    let world = without(Flaw::QuarantineOfMyTtl, 2).restarts(1, Memory::Clock);
    assert_eq!(broken(world).fault, TWO_BELIEVE);
}

#[test]
fn a_lease_must_be_counted_from_the_first_sending() {
    assert_eq!(broken(without(Flaw::CountedFromTheLastReply, 2)).fault, TWO_BELIEVE);
}

#[test]
fn a_lease_from_the_line_must_be_counted_from_there() {
    assert_eq!(broken(without(Flaw::CountedFromTheLaterAsking, 2).waits(1)).fault, TWO_BELIEVE);
}

#[test]
fn a_grant_needs_a_not_after() {
    assert_eq!(broken(without(Flaw::NoNotAfter, 1)).fault, LEFT_BEHIND);
}

#[test]
fn each_round_needs_an_id_of_its_own() {
    assert_eq!(broken(without(Flaw::OneIdForAllRounds, 2).waits(1)).fault, TWO_BELIEVE);
}

#[test]
fn what_was_released_must_not_count() {
    assert_eq!(broken(without(Flaw::CountsWhatItReleased, 2).waits(1)).fault, TWO_BELIEVE);
}

#[test]
fn a_failed_renewal_must_not_release() {
    assert_eq!(broken(without(Flaw::FailedRenewalReleases, 2).renewals(1)).fault, TWO_BELIEVE);
}

#[test]
fn a_release_must_go_to_all() {
    assert_eq!(broken(without(Flaw::ReleasesOnlyWhereGranted, 1)).fault, LEFT_BEHIND);
}

#[test]
fn what_is_lost_must_stay_lost() {
    assert_eq!(broken(without(Flaw::RevivesAfterTheEnd, 2).renewals(1)).fault, DOES_NOT_RISE);
}

#[test]
fn a_grant_that_comes_again_must_not_shorten_a_lease() {
    assert_eq!(broken(without(Flaw::GrantShortens, 2).renewals(1).twins(1)).fault, TWO_BELIEVE);
}

/// `cargo test -p model --test quorum -- --ignored whoever_waits_may_renew`
#[test]
#[ignore = "takes minutes"]
fn whoever_waits_may_renew_and_crash() {
    sound(of_three(2).waits(1).renewals(1).crashes(1), 3_280_221, FAR);
}

/// `cargo test -p model --test quorum -- --ignored two_of_five`
#[test]
#[ignore = "takes minutes"]
fn two_of_five_members_may_restart() {
    sound(Quorum::<5>::new(None, 2).restarts(2, Memory::Clock), 1_299_121, FAR);
}

/// `cargo test -p model --test quorum -- --ignored three_attempts_and_a_restart`
#[test]
#[ignore = "takes minutes"]
fn three_attempts_and_a_restart_with_a_crash() {
    sound(of_three(3).restarts(1, Memory::Clock).crashes(1), 2_885_521, FAR);
}

/// `cargo test -p model --test quorum -- --ignored fences_rise_among_three`
#[test]
#[ignore = "takes half a minute"]
fn fences_rise_among_three_even_if_leases_end_at_any_moment() {
    sound(of_three(3).without_time(), 1_424_350, LIMIT);
}
