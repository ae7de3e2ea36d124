//! The line: its rules hold, and each of them is needed.
//!
//! `cargo test -p model --test line -- --nocapture` prints the counterexample of each rule left out, and how many states each
//! sound world has; `-- --ignored` explores the larger worlds.

use model::explore::explore;
use model::line::{Flaw, Line, Scope};

const LIMIT: usize = 6_000_000;

fn sound(scope: Scope, at_least: usize) {
    let states = explore(Line::new(None, scope), LIMIT).sound();
    println!("{scope:?}: {states} states");
    assert!(states >= at_least, "{states} states; there were {at_least}");
}

fn breaks(flaw: Flaw, scope: Scope, fault: &str) {
    let trace = explore(Line::new(Some(flaw), scope), LIMIT).broken();
    println!("{flaw:?}: {trace}");
    assert_eq!(trace.fault, fault, "{trace}");
}

const TWO_BELIEVE: &str = "two believe that they hold";
const WAKE_UP_LOST: &str = "a wake-up is lost";
const PASSED_OVER: &str = "a live waiter was passed over";
const LEFT_BEHIND: &str = "something is left behind";
const STILL_THERE: &str = "who is gone is still there";
const SLEEPS: &str = "who waits sleeps for ever";

#[test]
fn two_attempts_have_the_lock_in_turn_although_one_dies_and_a_push_is_lost() {
    sound(Scope::apart(2).crashes(1).lost_pushes(1), 156_588);
}

#[test]
fn two_attempts_by_the_native_pair_have_the_lock_in_turn() {
    sound(Scope::apart(2).with_the_pair(), 368_343);
}

#[test]
fn waiters_that_ping_have_the_lock_in_turn() {
    sound(Scope::apart(2).with_pings(), 50_014);
}

#[test]
fn three_attempts_have_the_lock_in_turn_although_one_is_slow() {
    sound(Scope::apart(3).only_one_slow(1), 681_997);
}

#[test]
fn three_attempts_have_the_lock_in_turn_by_push_alone() {
    sound(Scope::apart(3).timeless().with_the_pair().cancels(1), 225_197);
}

#[test]
fn everybody_in_line_may_give_up() {
    sound(Scope::apart(3).timeless().cancels(3), 21_891);
}

#[test]
fn siblings_on_one_channel_have_the_lock_in_turn() {
    sound(Scope::siblings(2).cancels(1), 84_007);
}

#[test]
fn one_death_needs_no_asking_now_and_then() {
    sound(Scope::apart(2).patient().crashes(1), 109_978);
}

#[test]
fn a_store_that_forgets_everything_starves_nobody() {
    sound(Scope::apart(2).flushes(1), 218_281);
}

#[test]
fn a_server_that_starts_empty_starves_nobody() {
    sound(Scope::apart(2).timeless().restarts(1), 1_616);
}

#[test]
fn a_line_that_was_forgotten_is_made_anew() {
    sound(Scope::apart(2).line_ends(1), 110_630);
}

#[test]
fn a_stranger_may_take_and_release_the_key() {
    sound(Scope::apart(2).strangers(1), 90_000);
}

/// Everything on a connection may arrive after the next one was made.
#[test]
#[ignore = "1.6 million states: cargo test -p model --test line -- --ignored"]
fn connections_may_break() {
    sound(Scope::apart(2).breaks(1), 1_602_734);
}

#[test]
#[ignore = "0.6 million states: cargo test -p model --test line -- --ignored"]
fn two_attempts_have_the_lock_in_turn_whatever_goes_wrong() {
    sound(Scope::apart(2).crashes(1).cancels(1).lost_pushes(1), 596_509);
}

#[test]
#[ignore = "0.8 million states: cargo test -p model --test line -- --ignored"]
fn three_attempts_have_the_lock_in_turn_although_the_first_is_slow() {
    sound(Scope::apart(3).only_one_slow(0), 781_493);
}

#[test]
#[ignore = "0.9 million states: cargo test -p model --test line -- --ignored"]
fn somebody_may_delete_the_key() {
    sound(Scope::apart(2).strangers(1).deletions(1), 890_730);
}

#[test]
fn a_renewal_must_keep_the_mark() {
    breaks(Flaw::RenewalDropsTheMark, Scope::apart(2), WAKE_UP_LOST);
}

#[test]
fn a_hand_over_must_keep_the_mark() {
    breaks(Flaw::HandOverDropsTheMark, Scope::apart(3).timeless(), WAKE_UP_LOST);
}

#[test]
fn every_joiner_must_mark_unless_the_fence_steps_aside() {
    let scope = Scope::apart(3).with_the_pair();
    breaks(Flaw::OnlyTheFirstJoinerMarksAndPairsSlip, scope.only_one_slow(0), WAKE_UP_LOST);
    let states =
        explore(Line::new(Some(Flaw::OnlyTheFirstJoinerMarks), scope.timeless().cancels(1)), LIMIT).sound();
    assert!(states >= 225_197, "{states} states");
}

#[test]
fn a_strangers_value_must_not_be_marked() {
    breaks(Flaw::MarksAStranger, Scope::apart(2).strangers(1), "a stranger cannot release");
}

#[test]
fn a_release_must_leave_the_line() {
    breaks(Flaw::ReleaseStaysInLine, Scope::apart(2).cancels(1), STILL_THERE);
}

#[test]
fn the_count_of_a_push_must_not_decide() {
    breaks(Flaw::TrustsTheCountOfThePush, Scope::apart(3).timeless(), TWO_BELIEVE);
}

#[test]
fn every_script_must_advance() {
    breaks(Flaw::AdvancesOnlyWhenTheOwnerLeaves, Scope::apart(3).crashes(1), WAKE_UP_LOST);
}

#[test]
fn a_pushed_grant_lasts_a_window_until_it_is_renewed() {
    breaks(Flaw::CountsTheTtlAtOnce, Scope::apart(3).only_one_slow(1), TWO_BELIEVE);
}

#[test]
fn a_pushed_grant_must_not_be_counted_from_its_reading() {
    breaks(Flaw::CountsFromThePush, Scope::apart(3).only_one_slow(1), TWO_BELIEVE);
}

#[test]
fn the_end_of_a_pushed_grant_must_not_be_a_time_of_the_server() {
    let scope = Scope::apart(3).only_one_slow(1).clock_steps(1);
    breaks(Flaw::CountsByTheServersClock, scope, TWO_BELIEVE);
}

#[test]
fn a_late_push_must_not_be_released() {
    breaks(Flaw::ReleasesALatePush, Scope::apart(3).only_one_slow(1), PASSED_OVER);
}

#[test]
fn who_asks_again_must_say_its_ticket() {
    breaks(Flaw::ForgetsTheTicket, Scope::apart(3).only_one_slow(1), PASSED_OVER);
}

#[test]
fn only_who_is_provisional_steps_back() {
    breaks(Flaw::StepsBackWithoutTheFlag, Scope::apart(3).timeless(), TWO_BELIEVE);
}

#[test]
fn the_native_pair_must_not_slip_past_the_line() {
    breaks(Flaw::PairSlipsPastTheLine, Scope::apart(3).with_the_pair(), PASSED_OVER);
}

#[test]
fn the_native_pair_must_take_before_it_counts() {
    let scope = Scope::apart(3).with_the_pair().timeless();
    breaks(Flaw::PairCountsFirst, scope, "a fence does not rise");
}

#[test]
fn the_counter_of_a_refused_pair_must_go() {
    let scope = Scope::apart(3).with_the_pair().timeless();
    breaks(Flaw::CounterStays, scope, "a side key has no end");
}

#[test]
fn who_joined_must_not_release_natively() {
    let fault = "a process is struck that claimed in time";
    breaks(Flaw::NativeReleaseAfterJoining, Scope::siblings(3).timeless(), fault);
}

#[test]
fn who_gives_up_must_not_do_so_natively() {
    let scope = Scope::apart(3).with_the_pair().cancels(1);
    breaks(Flaw::NativeGivingUp, scope, LEFT_BEHIND);
}

#[test]
fn a_hand_over_must_be_recorded() {
    let scope = Scope::siblings(3).crashes(1);
    breaks(Flaw::NoUnclaimedRecord, scope, "a dead process costs a second window");
}

#[test]
fn a_claim_must_clear_the_record() {
    let fault = "a process is struck that claimed in time";
    breaks(Flaw::ClaimLeavesTheRecord, Scope::siblings(3).timeless(), fault);
}

#[test]
fn a_late_claim_must_clear_the_record() {
    let fault = "a process is struck that was heard";
    breaks(Flaw::LateClaimLeavesTheRecord, Scope::apart(2), fault);
}

#[test]
fn an_ask_by_a_sibling_must_clear_the_record() {
    let fault = "a process is struck that was heard";
    breaks(Flaw::SiblingsAreStruckAllTheSame, Scope::siblings(3), fault);
}

#[test]
fn an_ask_must_lift_the_strike() {
    breaks(Flaw::StrikeStays, Scope::apart(2), "a waiter is dropped that asked again");
}

#[test]
fn each_connection_needs_a_channel_of_its_own() {
    let fault = "it is handed to a connection that is known to be gone";
    breaks(Flaw::ReusesTheChannel, Scope::apart(2).breaks(1).crashes(1), fault);
}

#[test]
fn an_ask_needs_a_not_after() {
    breaks(Flaw::JoinWithoutNotAfter, Scope::apart(2).breaks(1).cancels(1), STILL_THERE);
}

#[test]
fn giving_up_after_a_broken_connection_needs_a_second_release() {
    breaks(Flaw::GivesUpOnce, Scope::apart(2).breaks(1).cancels(1), STILL_THERE);
}

#[test]
fn siblings_of_who_lost_must_ask_again() {
    let scope = Scope::siblings(2).patient().timeless().flushes(1);
    sound(scope, 191);
    breaks(Flaw::SiblingsStayAway, scope, "from here on waiting helps nobody");
}

#[test]
fn who_comes_to_stand_first_must_be_told() {
    breaks(Flaw::TellsNoNewHead, Scope::apart(3).patient().crashes(1).only_one_slow(0), SLEEPS);
}

#[test]
fn who_comes_to_stand_first_by_a_giving_up_must_be_told_too() {
    let scope = Scope::apart(3).patient().cancels(1).only_one_slow(0);
    breaks(Flaw::OnlyAHandOverTellsTheHead, scope, SLEEPS);
}
