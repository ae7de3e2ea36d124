//! Each rule that is left out must be detected, within few seeds.

use simulation::{Campaign, Flaw};

const FEW: u64 = 500;

/// For a flaw that shows in about one world of a thousand.
const MANY: u64 = 8000;

/// Defines a test for each row: a flaw is found within so many seeds, as a violation with these words.
macro_rules! found {
    ($($(#[$doc:meta])* $test:ident: $flaw:ident within $seeds:ident => $words:literal;)+) => {
        $(
            $(#[$doc])*
            #[test]
            fn $test() {
                is_found(Flaw::$flaw, $seeds, $words);
            }
        )+
    };
}

found! {
    a_lease_counted_from_the_answer_is_valid_too_long: CountedFromAnswer within FEW => "hold it at once";
    a_fence_that_a_majority_does_not_have_is_granted_again: NoRaise within FEW => "was granted";
    a_release_sent_only_to_members_that_granted_leaves_grants_behind:
        ReleasedOnlyWhereGranted within FEW => "appeared again";
    a_member_that_votes_right_after_losing_its_state_lets_two_hold:
        NoQuarantine within FEW => "hold it at once";
    a_release_that_does_not_compare_frees_the_lock_of_another: ReleasedWithoutComparing within FEW => "";
    fences_without_a_floor_repeat_after_a_loss_of_state: FenceWithoutFloor within FEW => "was granted";
    an_id_that_was_given_up_must_not_be_used_again: OneIdForAllRounds within FEW => "appeared again";
    a_grant_that_comes_late_and_is_not_undone_stays: LateGrantsNotUndone within MANY => "appeared again";
    a_grant_that_is_served_however_late_outlives_its_release: NothingIsTooLate within FEW => "appeared again";
    a_waiter_that_never_asks_again_starves_with_a_lost_wake_up:
        PushWithoutAsking within FEW => "was not served";
    a_lease_without_an_allowance_for_drift_is_valid_too_long: NoDrift within FEW => "hold it at once";
    /// A member is rejoined only after an outage, and its lock must be somebody else's by then.
    a_member_that_is_joined_without_comparing_takes_the_lock_of_another:
        JoinedWithoutComparing within MANY => "hold it at once";
}

fn is_found(flaw: Flaw, seeds: u64, words: &str) {
    let campaign = Campaign::over(0..seeds, Some(flaw));
    let Some(failed) = campaign.failure() else { panic!("{flaw:?} was not found in {seeds} seeds") };
    let violation = failed.violation.as_deref().unwrap_or_default();
    println!("{flaw:?}: seed {}: {violation}", failed.seed);
    assert!(violation.contains(words), "{flaw:?}, seed {}: {violation}", failed.seed);
}
