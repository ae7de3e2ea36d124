//! A majority of members.

use leasehold_core::{Claim, Key};
use model::quorum::{Flaw, Quorum, Scope};

use crate::{DOES_NOT_RISE, TWO_BELIEVE};

const LIMIT: usize = 2_000_000;

const LEFT_BEHIND: &str = "a lock is left behind";
const COMES_BACK: &str = "a broken lease comes back";
const CANNOT_BE_GRANTED: &str = "a broken lock cannot be granted";

/// Two clients of three members, of which one never answers.
fn two_of_which_one_is_down() -> Scope {
    Scope::of(3, 2).down(1)
}

/// One client of three members, which never releases; an operator breaks its lease.
fn one_that_hangs() -> Scope {
    Scope::of(3, 1).hanging().breaks(1)
}

fn key(name: &&str) -> Key {
    Key::new(name).unwrap()
}

fn alone(keys: &[&str]) -> Claim {
    Claim::exclusive_all(keys.iter().map(key)).unwrap()
}

fn two_readers() -> [Claim; 2] {
    [(); 2].map(|()| Claim::shared([key(&"k")]).unwrap())
}

fn a_reader_and_a_writer() -> [Claim; 2] {
    [Claim::shared([key(&"k")]).unwrap(), alone(&["k"])]
}

fn two_keys_and_one() -> [Claim; 2] {
    [alone(&["a", "b"]), alone(&["b"])]
}

sound! { Quorum:
    one_holds_although_a_client_dies_and_another_changes_its_mind:
        two_of_which_one_is_down().crashes(1).cancels(1) => 23_296;
    one_holds_although_an_answer_is_late_and_another_is_lost:
        two_of_which_one_is_down().late(1).lost(1) => 161_573;
    one_holds_although_a_request_is_served_twice: two_of_which_one_is_down().twins(1) => 21_112;
    one_holds_and_fences_rise_although_a_member_restarts_and_a_client_dies:
        two_of_which_one_is_down().restarts(1).crashes(1) => 39_686;
    one_holds_that_renews: two_of_which_one_is_down().renewals(1) => 58_948;
    two_that_wait_may_ask_again: two_of_which_one_is_down().waiting().asking(2) => 118_152;
    another_program_may_take_the_key_of_a_member:
        two_of_which_one_is_down().strangers(1).waiting() => 35_926;
    one_of_two_holds: Scope::of(3, 2) => 136_849;
    #[ignore = "takes half a minute"]
    one_of_two_holds_also_when_they_wait: Scope::of(3, 2).waiting() => 436_211;
    nothing_is_left_of_a_client_whose_answers_are_late_or_lost_and_that_renews:
        Scope::of(3, 1).asking(2).lost(1).late(1).renewals(1) => 265_867;
    a_broken_lease_is_lost_and_does_not_come_back: one_that_hangs().renewals(1) => 112_309;
    #[ignore = "takes minutes"]
    a_broken_lease_does_not_come_back_with_a_second_renewal: one_that_hangs().renewals(2) => 1_163_598;
    a_broken_lease_does_not_come_back_although_an_answer_or_a_message_is_lost:
        one_that_hangs().renewals(2).lost(1).down(1) => 42_638;
    a_broken_lease_does_not_come_back_where_answers_of_before_the_break_were_lost:
        one_that_hangs().renewals(2).lost(2).down(1) => 127_320;
    #[ignore = "takes minutes"]
    a_broken_lease_does_not_come_back_at_any_member_although_something_is_lost:
        one_that_hangs().renewals(1).lost(1) => 745_034;
    a_broken_lease_does_not_come_back_although_members_restart:
        one_that_hangs().restarts(1) => 9_835,
        Scope::of(3, 1).down(1).breaks(1).renewals(1).restarts(1) => 76_467;
    #[ignore = "takes minutes"]
    a_broken_lease_is_not_renewed_although_a_member_restarts:
        one_that_hangs().renewals(1).restarts(1) => 682_049;
    a_break_at_one_member_or_a_forged_message_ends_no_lease:
        Scope::of(3, 1).hanging().single_breaks(1).renewals(2) => 6_926,
        Scope::of(3, 1).hanging().forgeries(2).renewals(1) => 5_678;
    #[ignore = "takes minutes"]
    a_lease_is_broken_that_lacks_a_member_or_about_which_messages_are_forged:
        one_that_hangs().single_breaks(1).renewals(1) => 839_828,
        one_that_hangs().forgeries(1).renewals(1) => 1_188_755;
    a_broken_lock_is_granted_to_the_next:
        two_of_which_one_is_down().breaks(1).hanging() => 13_545,
        two_of_which_one_is_down().breaks(1).hanging().waiting() => 32_255,
        two_of_which_one_is_down().single_breaks(1) => 18_643;
    #[ignore = "takes half a minute"]
    a_lock_is_granted_to_the_next_whether_it_was_broken_or_released:
        two_of_which_one_is_down().breaks(1) => 76_630,
        two_of_which_one_is_down().breaks(1).waiting() => 157_158,
        two_of_which_one_is_down().breaks(1).restarts(1).hanging() => 63_981;
    two_readers_hold_at_once_with_fences_of_their_own:
        two_of_which_one_is_down().claiming(two_readers()) => 24_541,
        two_of_which_one_is_down().restarts(1).claiming(two_readers()) => 83_337;
    a_reader_and_a_writer_exclude_each_other:
        two_of_which_one_is_down().claiming(a_reader_and_a_writer()).waiting() => 5_459,
        two_of_which_one_is_down().claiming(a_reader_and_a_writer()).breaks(1).hanging() => 16_647;
    a_reader_and_a_writer_exclude_each_other_although_a_member_restarts:
        Scope::of(3, 2).hanging().restarts(1).claiming(a_reader_and_a_writer()) => 111_017;
    one_of_two_readers_loses_what_was_broken_at_a_member:
        two_of_which_one_is_down().single_breaks(1).claiming(two_readers()).hanging() => 104_761;
    several_keys_are_granted_together:
        two_of_which_one_is_down().claiming(two_keys_and_one()).waiting() => 5_007,
        two_of_which_one_is_down().claiming([(); 2].map(|()| alone(&["a", "b"]))).waiting() => 4_587,
        two_of_which_one_is_down().claiming(two_keys_and_one()).restarts(1) => 10_401,
        two_of_which_one_is_down().claiming(two_keys_and_one()).breaks(1).renewals(1).hanging() => 94_060;
    #[ignore = "takes half a minute"]
    several_keys_are_granted_together_although_a_member_restarts:
        Scope::of(3, 2).hanging().restarts(1).claiming(two_keys_and_one()) => 170_452;
    one_of_two_that_hang_holds_at_five_members:
        Scope::of(5, 2).down(2).hanging() => 30_955,
        Scope::of(5, 2).down(2).hanging().claiming(a_reader_and_a_writer()) => 34_777;
    #[ignore = "takes half a minute"]
    one_of_two_holds_at_five_members_although_a_member_restarts:
        Scope::of(5, 2).down(2) => 142_633,
        Scope::of(5, 2).down(2).hanging().restarts(1) => 236_840;
    a_lease_is_broken_also_at_five_members:
        Scope::of(5, 1).hanging().down(1).breaks(1) => 71_762,
        Scope::of(5, 1).hanging().down(2).breaks(1).restarts(1) => 9_296;
}

needed! { Quorum:
    a_greatest_fence_must_be_raised: RaisesNothing, Scope::of(3, 2) => DOES_NOT_RISE;
    the_fence_must_outlive_the_lock: FenceInsideTheKey, Scope::of(3, 2) => DOES_NOT_RISE;
    a_member_that_restarted_must_not_vote_at_once:
        NoQuarantine, Scope::of(3, 2).restarts(1) => DOES_NOT_RISE;
    a_quarantine_must_outlast_the_longest_ttl:
        ShortQuarantine, Scope::of(3, 2).restarts(1) => TWO_BELIEVE;
    a_lease_must_be_counted_from_the_sending:
        CountedFromTheReply, Scope::of(3, 2).late(1) => TWO_BELIEVE;
    each_round_needs_an_id_of_its_own: OneIdForAllRounds, Scope::of(3, 2).asking(2) => TWO_BELIEVE;
    a_failed_renewal_must_not_release:
        FailedRenewalReleases, two_of_which_one_is_down().renewals(1).lost(1) => TWO_BELIEVE;
    a_release_must_go_to_all: ReleasesOnlyWhereGranted, Scope::of(3, 1).lost(2) => LEFT_BEHIND;
    a_grant_that_the_release_overtook_must_be_undone: LateGrantsAreKept, Scope::of(3, 1) => LEFT_BEHIND;
    a_break_must_reach_a_majority: BreaksAtOneMember, one_that_hangs() => CANNOT_BE_GRANTED;
    a_break_that_lost_a_message_must_be_repeated:
        BreaksInAHurry, one_that_hangs().lost(1) => CANNOT_BE_GRANTED;
    a_break_at_members_must_compare_the_fence:
        BreaksWhatIsThere, two_of_which_one_is_down().breaks(1) => "a break ends another's lease";
    a_member_that_had_a_lease_must_not_take_it_again:
        RejoinsWhatItHad, one_that_hangs().renewals(1) => CANNOT_BE_GRANTED;
    the_record_of_breaks_must_be_read_before_a_lease_is_taken_again:
        IgnoresTheRecord, one_that_hangs().renewals(2).lost(1).down(1) => COMES_BACK;
    a_message_about_a_break_must_not_be_believed:
        BelievesMessages, Scope::of(3, 1).forgeries(2) => "a lease is lost that nobody broke";
    a_member_must_not_raise_two_readers_to_one_fence:
        OneFenceForReaders, two_of_which_one_is_down().claiming(two_readers()) => DOES_NOT_RISE;
    a_writer_must_not_ignore_the_readers_of_members:
        WriterIgnoresReaders, two_of_which_one_is_down().claiming(a_reader_and_a_writer()) => TWO_BELIEVE;
    a_restart_must_not_make_readers_and_writers_hold_at_once:
        ShortQuarantine, Scope::of(3, 2).restarts(1).claiming(a_reader_and_a_writer()) => TWO_BELIEVE;
    #[ignore = "takes half a minute"]
    a_quorum_must_not_grant_permits: GrantsPermits, Scope::of(3, 3).hanging() => TWO_BELIEVE;
    a_raise_must_raise_all_keys:
        RaisesTheFirstKey, Scope::of(3, 2).claiming(two_keys_and_one()) => DOES_NOT_RISE;
    a_release_must_release_all_keys:
        ReleasesTheFirstKey, two_of_which_one_is_down().claiming(two_keys_and_one()) => LEFT_BEHIND;
    two_of_five_members_must_not_be_enough: TwoAreEnough, Scope::of(5, 2) => DOES_NOT_RISE;
}
