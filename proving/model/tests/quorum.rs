//! A majority of members: the rules hold, and each of them is needed.
//!
//! `cargo test -p model --test quorum -- --nocapture` prints how each rule that is left out breaks.

use leasehold_core::{Claim, Key};
use model::explore::explore;
use model::quorum::{Flaw, Left, Quorum, Scope};

const LIMIT: usize = 2_000_000;

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
const COMES_BACK: &str = "a broken lease comes back";
const CANNOT_BE_GRANTED: &str = "a broken lock cannot be granted";

/// No faults, to which each world adds its own.
fn left() -> Left {
    Left::default()
}

/// Two clients of three members, of which one never answers.
fn two_of_which_one_is_down(left: Left) -> Scope {
    Scope::of(3, 2).down(1).with(left)
}

/// One client of three members, which never releases; an operator breaks its lease.
fn one_that_hangs(left: Left) -> Scope {
    Scope::of(3, 1).hanging().with(left.breaks(1))
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
fn a_broken_lease_is_lost_and_does_not_come_back() {
    sound(&one_that_hangs(left().renewals(1)), 116_995);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test quorum -- --ignored"]
fn a_broken_lease_does_not_come_back_with_a_second_renewal() {
    sound(&one_that_hangs(left().renewals(2)), 1_194_427);
}

#[test]
fn a_broken_lease_does_not_come_back_although_an_answer_or_a_message_is_lost() {
    sound(&one_that_hangs(left().renewals(2).lost(1)).down(1), 45_870);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test quorum -- --ignored"]
fn a_broken_lease_does_not_come_back_at_any_member_although_something_is_lost() {
    sound(&one_that_hangs(left().renewals(1).lost(1)), 803_981);
}

#[test]
fn a_broken_lease_does_not_come_back_although_members_restart() {
    sound(&one_that_hangs(left().restarts(1)), 9_859);
    sound(&Scope::of(3, 1).down(1).with(left().breaks(1).renewals(1).restarts(1)), 76_467);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test quorum -- --ignored"]
fn a_broken_lease_is_not_renewed_although_a_member_restarts() {
    sound(&one_that_hangs(left().renewals(1).restarts(1)), 712_206);
}

#[test]
fn a_break_at_one_member_or_a_forged_message_ends_no_lease() {
    sound(&Scope::of(3, 1).hanging().with(left().single_breaks(1).renewals(2)), 6_926);
    sound(&Scope::of(3, 1).hanging().with(left().forgeries(2).renewals(1)), 5_678);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test quorum -- --ignored"]
fn a_lease_is_broken_that_lacks_a_member_or_about_which_messages_are_forged() {
    sound(&one_that_hangs(left().single_breaks(1).renewals(1)), 839_828);
    sound(&one_that_hangs(left().forgeries(1).renewals(1)), 1_219_206);
}

#[test]
fn a_broken_lock_is_granted_to_the_next() {
    sound(&two_of_which_one_is_down(left().breaks(1)).hanging(), 13_545);
    sound(&two_of_which_one_is_down(left().breaks(1)).hanging().waiting(), 32_255);
    sound(&two_of_which_one_is_down(left().single_breaks(1)), 18_643);
}

#[test]
#[ignore = "takes half a minute: cargo test -p model --test quorum -- --ignored"]
fn a_lock_is_granted_to_the_next_whether_it_was_broken_or_released() {
    sound(&two_of_which_one_is_down(left().breaks(1)), 76_630);
    sound(&two_of_which_one_is_down(left().breaks(1)).waiting(), 157_158);
    sound(&two_of_which_one_is_down(left().breaks(1).restarts(1)).hanging(), 63_981);
}

#[test]
fn two_readers_hold_at_once_with_fences_of_their_own() {
    sound(&two_of_which_one_is_down(left()).claiming(two_readers()), 24_541);
    sound(&two_of_which_one_is_down(left().restarts(1)).claiming(two_readers()), 83_337);
}

#[test]
fn a_reader_and_a_writer_exclude_each_other() {
    let scope = |left: Left| two_of_which_one_is_down(left).claiming(a_reader_and_a_writer());
    sound(&scope(left()).waiting(), 5_459);
    sound(&scope(left().breaks(1)).hanging(), 16_647);
}

#[test]
fn a_reader_and_a_writer_exclude_each_other_although_a_member_restarts() {
    let scope = Scope::of(3, 2).hanging().with(left().restarts(1));
    sound(&scope.claiming(a_reader_and_a_writer()), 111_017);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test quorum -- --ignored"]
fn one_of_two_readers_loses_what_was_broken() {
    sound(&two_of_which_one_is_down(left().breaks(1)).claiming(two_readers()).hanging(), 1_353_521);
}

#[test]
fn several_keys_are_granted_together() {
    let scope = |left: Left| two_of_which_one_is_down(left).claiming(two_keys_and_one());
    sound(&scope(left()).waiting(), 5_007);
    sound(&scope(left()).waiting().claiming([alone(&["a", "b"]), alone(&["a", "b"])]), 4_587);
    sound(&scope(left().restarts(1)), 10_401);
    sound(&scope(left().breaks(1).renewals(1)).hanging(), 94_060);
}

#[test]
#[ignore = "takes half a minute: cargo test -p model --test quorum -- --ignored"]
fn several_keys_are_granted_together_although_a_member_restarts() {
    let scope = Scope::of(3, 2).hanging().with(left().restarts(1));
    sound(&scope.claiming(two_keys_and_one()), 170_452);
}

#[test]
fn one_of_two_that_hang_holds_at_five_members() {
    let scope = Scope::of(5, 2).down(2).hanging();
    sound(&scope, 30_955);
    sound(&scope.claiming(a_reader_and_a_writer()), 34_777);
}

#[test]
#[ignore = "takes half a minute: cargo test -p model --test quorum -- --ignored"]
fn one_of_two_holds_at_five_members_although_a_member_restarts() {
    sound(&Scope::of(5, 2).down(2), 142_633);
    sound(&Scope::of(5, 2).down(2).hanging().with(left().restarts(1)), 236_840);
}

#[test]
fn a_lease_is_broken_also_at_five_members() {
    let scope = Scope::of(5, 1).hanging();
    sound(&scope.clone().down(1).with(left().breaks(1)), 71_906);
    sound(&scope.down(2).with(left().breaks(1).restarts(1)), 9_296);
}

#[test]
fn a_greatest_fence_must_be_raised() {
    breaks(Flaw::RaisesNothing, &Scope::of(3, 2), DOES_NOT_RISE);
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

#[test]
fn a_break_must_reach_a_majority() {
    breaks(Flaw::BreaksAtOneMember, &one_that_hangs(left()), CANNOT_BE_GRANTED);
}

#[test]
fn a_break_that_lost_a_message_must_be_repeated() {
    breaks(Flaw::BreaksInAHurry, &one_that_hangs(left().lost(1)), CANNOT_BE_GRANTED);
}

#[test]
fn a_break_at_members_must_compare_the_fence() {
    let scope = two_of_which_one_is_down(left().breaks(1));
    breaks(Flaw::BreaksWhatIsThere, &scope, "a break ends another's lease");
}

#[test]
fn a_member_that_had_a_lease_must_not_take_it_again() {
    breaks(Flaw::RejoinsWhatItHad, &one_that_hangs(left().renewals(1)), CANNOT_BE_GRANTED);
}

#[test]
fn the_record_of_breaks_must_be_read_before_a_lease_is_taken_again() {
    breaks(Flaw::IgnoresTheRecord, &one_that_hangs(left().renewals(2).lost(1)).down(1), COMES_BACK);
}

#[test]
fn a_message_about_a_break_must_not_be_believed() {
    let scope = Scope::of(3, 1).with(left().forgeries(2));
    breaks(Flaw::BelievesMessages, &scope, "a lease is lost that nobody broke");
}

#[test]
fn a_member_must_not_raise_two_readers_to_one_fence() {
    let scope = two_of_which_one_is_down(left()).claiming(two_readers());
    breaks(Flaw::OneFenceForReaders, &scope, DOES_NOT_RISE);
}

#[test]
fn a_writer_must_not_ignore_the_readers_of_members() {
    let scope = two_of_which_one_is_down(left()).claiming(a_reader_and_a_writer());
    breaks(Flaw::WriterIgnoresReaders, &scope, TWO_BELIEVE);
}

#[test]
fn a_restart_must_not_make_readers_and_writers_hold_at_once() {
    let scope = Scope::of(3, 2).with(left().restarts(1)).claiming(a_reader_and_a_writer());
    breaks(Flaw::ShortQuarantine, &scope, TWO_BELIEVE);
}

#[test]
#[ignore = "takes half a minute: cargo test -p model --test quorum -- --ignored"]
fn a_quorum_must_not_grant_permits() {
    breaks(Flaw::GrantsPermits, &Scope::of(3, 3).hanging(), TWO_BELIEVE);
}

#[test]
fn a_raise_must_raise_all_keys() {
    breaks(Flaw::RaisesTheFirstKey, &Scope::of(3, 2).claiming(two_keys_and_one()), DOES_NOT_RISE);
}

#[test]
fn a_release_must_release_all_keys() {
    let scope = two_of_which_one_is_down(left()).claiming(two_keys_and_one());
    breaks(Flaw::ReleasesTheFirstKey, &scope, LEFT_BEHIND);
}

#[test]
fn two_of_five_members_must_not_be_enough() {
    breaks(Flaw::TwoAreEnough, &Scope::of(5, 2), DOES_NOT_RISE);
}
