//! A majority of members: the rules hold, and each of them is needed.
//!
//! `cargo test -p model --test quorum -- --nocapture` prints how each rule that is left out breaks.

use model::explore::explore;
use model::quorum::{Flaw, Left, Quorum, Scope};

const LIMIT: usize = 1_500_000;

fn sound(scope: &Scope, at_least: usize) {
    let states = explore(Quorum::new(None, scope), LIMIT).sound();
    println!("{states} states");
    assert!(states >= at_least, "{states} states; there were {at_least}");
}

fn breaks(flaw: Flaw, scope: &Scope, fault: &str) {
    let trace = explore(Quorum::new(Some(flaw), scope), LIMIT).broken();
    println!("{flaw:?}: {trace}");
    assert_eq!(trace.fault, fault, "{trace}");
}

const TWO_BELIEVE: &str = "two believe that they hold";
const DOES_NOT_RISE: &str = "a fence does not rise";
const LEFT_BEHIND: &str = "a lock is left behind";

/// No faults, to which each world adds its own.
fn left() -> Left {
    Left::default()
}

/// Two clients of three members, of which one never answers.
fn two_of_which_one_is_down(left: Left) -> Scope {
    Scope::of(3, 2).down(1).with(left)
}

#[test]
fn one_holds_although_a_client_dies_and_another_changes_its_mind() {
    sound(&two_of_which_one_is_down(left().crashes(1).cancels(1)), 23_296);
}

#[test]
fn one_holds_although_an_answer_is_late_and_another_is_lost() {
    sound(&two_of_which_one_is_down(left().late(1).lost(1)), 161_573);
}

#[test]
fn one_holds_although_a_request_is_served_twice() {
    sound(&two_of_which_one_is_down(left().twins(1)), 21_112);
}

#[test]
fn one_holds_and_fences_rise_although_a_member_restarts_and_a_client_dies() {
    sound(&two_of_which_one_is_down(left().restarts(1).crashes(1)), 39_686);
}

#[test]
fn one_holds_that_renews() {
    sound(&two_of_which_one_is_down(left().renewals(1)), 58_948);
}

#[test]
fn two_that_wait_may_ask_again() {
    sound(&two_of_which_one_is_down(left()).waiting().asking(2), 118_152);
}

#[test]
fn another_program_may_take_the_key_of_a_member() {
    sound(&two_of_which_one_is_down(left().strangers(1)).waiting(), 35_926);
}

#[test]
fn one_of_two_holds() {
    sound(&Scope::of(3, 2), 136_849);
}

#[test]
#[ignore = "takes half a minute: cargo test -p model --test quorum -- --ignored"]
fn one_of_two_holds_also_when_they_wait() {
    sound(&Scope::of(3, 2).waiting(), 436_211);
}

#[test]
fn nothing_is_left_of_a_client_whose_answers_are_late_or_lost_and_that_renews() {
    sound(&Scope::of(3, 1).asking(2).with(left().lost(1).late(1).renewals(1)), 266_875);
}

#[test]
fn a_greatest_fence_must_be_raised() {
    breaks(Flaw::RaisesNothing, &Scope::of(3, 3), DOES_NOT_RISE);
}

#[test]
fn the_fence_must_outlive_the_lock() {
    breaks(Flaw::FenceInsideTheKey, &Scope::of(3, 2), DOES_NOT_RISE);
}

#[test]
fn a_member_that_restarted_must_not_vote_at_once() {
    breaks(Flaw::NoQuarantine, &Scope::of(3, 2).with(left().restarts(1)), DOES_NOT_RISE);
}

#[test]
fn a_quarantine_must_outlast_the_longest_ttl() {
    breaks(Flaw::ShortQuarantine, &Scope::of(3, 2).with(left().restarts(1)), TWO_BELIEVE);
}

#[test]
fn a_lease_must_be_counted_from_the_sending() {
    breaks(Flaw::CountedFromTheReply, &Scope::of(3, 2).with(left().late(1)), TWO_BELIEVE);
}

#[test]
fn each_round_needs_an_id_of_its_own() {
    breaks(Flaw::OneIdForAllRounds, &Scope::of(3, 2).asking(2), TWO_BELIEVE);
}

#[test]
fn a_failed_renewal_must_not_release() {
    let scope = two_of_which_one_is_down(left().renewals(1).lost(1));
    breaks(Flaw::FailedRenewalReleases, &scope, TWO_BELIEVE);
}

#[test]
fn a_release_must_go_to_all() {
    breaks(Flaw::ReleasesOnlyWhereGranted, &Scope::of(3, 1).with(left().lost(2)), LEFT_BEHIND);
}

#[test]
fn a_grant_that_the_release_overtook_must_be_undone() {
    breaks(Flaw::LateGrantsAreKept, &Scope::of(3, 1), LEFT_BEHIND);
}
