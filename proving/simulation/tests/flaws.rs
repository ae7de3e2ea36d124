//! Each rule that is left out must be detected, within few seeds.

use simulation::{Campaign, Flaw};

const WITHIN: u64 = 500;

/// For a flaw that shows in about one world of a thousand.
const WITHIN_MORE: u64 = 8000;

fn is_found(flaw: Flaw, words: &str) {
    is_found_within(WITHIN, flaw, words);
}

/// Asserts that the first violation contains these words.
fn is_found_within(seeds: u64, flaw: Flaw, words: &str) {
    let campaign = Campaign::over(0..seeds, Some(flaw));
    let Some(failed) = campaign.failure() else { panic!("{flaw:?} was not found in {seeds} seeds") };
    let violation = failed.violation.as_deref().unwrap_or_default();
    println!("{flaw:?}: seed {}: {violation}", failed.seed);
    assert!(violation.contains(words), "{flaw:?}, seed {}: {violation}", failed.seed);
}

#[test]
fn a_lease_counted_from_the_answer_is_valid_too_long() {
    is_found(Flaw::CountedFromAnswer, "hold it at once");
}

#[test]
fn a_fence_that_a_majority_does_not_have_is_granted_again() {
    is_found(Flaw::NoRaise, "was granted");
}

#[test]
fn a_release_sent_only_to_members_that_granted_leaves_grants_behind() {
    is_found(Flaw::ReleasedOnlyWhereGranted, "appeared again");
}

#[test]
fn a_member_that_votes_right_after_losing_its_state_lets_two_hold() {
    is_found(Flaw::NoQuarantine, "hold it at once");
}

#[test]
fn a_release_that_does_not_compare_frees_the_lock_of_another() {
    is_found(Flaw::ReleasedWithoutComparing, "");
}

#[test]
fn fences_without_a_floor_repeat_after_a_loss_of_state() {
    is_found(Flaw::FenceWithoutFloor, "was granted");
}

#[test]
fn an_id_that_was_given_up_must_not_be_used_again() {
    is_found(Flaw::OneIdForAllRounds, "appeared again");
}

#[test]
fn a_grant_that_comes_late_and_is_not_undone_stays() {
    is_found_within(WITHIN_MORE, Flaw::LateGrantsNotUndone, "appeared again");
}

#[test]
fn a_grant_that_is_served_however_late_outlives_its_release() {
    is_found(Flaw::NothingIsTooLate, "appeared again");
}

#[test]
fn a_waiter_that_never_asks_again_starves_with_a_lost_wake_up() {
    is_found(Flaw::PushWithoutAsking, "was not served");
}

#[test]
fn a_lease_without_an_allowance_for_drift_is_valid_too_long() {
    is_found(Flaw::NoDrift, "hold it at once");
}

/// A member is rejoined only after an outage, and its lock must be somebody else's by then.
#[test]
fn a_member_that_is_joined_without_comparing_takes_the_lock_of_another() {
    is_found_within(WITHIN_MORE, Flaw::JoinedWithoutComparing, "hold it at once");
}
