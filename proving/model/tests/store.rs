//! One store: its rules hold, and each of them is needed.
//!
//! `cargo test -p model --test store -- --nocapture` prints the counterexample for each rule that
//! is left out, and the number of states of each sound world; `-- --ignored` explores the larger
//! worlds.

use model::Flaw;
use model::explore::explore;
use model::store::{Party, Scope, Store};

const LIMIT: usize = 4_000_000;

fn sound(scope: &Scope, at_least: usize) {
    let states = explore(Store::new(None, scope), LIMIT).sound();
    println!("{states} states");
    assert!(states >= at_least, "{states} states; there were {at_least}");
}

fn breaks(flaw: Flaw, scope: &Scope, fault: &str) {
    let trace = explore(Store::new(Some(flaw), scope), LIMIT).broken();
    println!("{flaw:?}: {trace}");
    assert_eq!(trace.fault, fault, "{trace}");
}

const TWO_BELIEVE: &str = "two believe that they hold";
const DOES_NOT_RISE: &str = "a fence does not rise";
const WAKE_UP_LOST: &str = "a wake-up is lost";
const PASSED_OVER: &str = "a live waiter was passed over";
const STILL_THERE: &str = "something is left of a client that is gone";
const UNRESPONSIVE_IN_TIME: &str = "a waiter that claimed in time was marked unresponsive";
const UNRESPONSIVE_THOUGH_ASKING: &str = "a waiter that asked again was marked unresponsive";

/// Two clients that leave if the key is taken.
fn two_tries() -> Scope {
    Scope::of([Party::alone(&["a"]).tries(), Party::alone(&["a"]).tries()])
}

/// The first client acquires the lock twice.
fn one_twice() -> Scope {
    Scope::of([Party::alone(&["a"]).tries().times(2), Party::alone(&["a"]).tries()])
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test store -- --ignored"]
fn two_tries_never_hold_at_once_and_leave_nothing() {
    sound(&two_tries().longer_renewals(1), 1);
}

#[test]
#[ignore = "1.9 million states: cargo test -p model --test store -- --ignored"]
fn connections_may_break_during_tries() {
    sound(&two_tries().breaks(1).cancels(1), 940_676);
}

#[test]
fn a_second_attempt_is_safe_from_the_remains_of_the_first() {
    sound(&one_twice().breaks(1), 540_250);
}

#[test]
fn fences_increase_even_if_the_store_loses_its_state() {
    sound(&two_tries().flushes(2), 177_171);
    sound(&one_twice().forgotten_fences(1), 57_809);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test store -- --ignored"]
fn two_waiters_hold_the_lock_in_turn() {
    sound(&Scope::apart(2), 177_915);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test store -- --ignored"]
fn one_of_two_waiters_may_give_up() {
    sound(&Scope::apart(2).only_one_slow(0).cancels(1), 1);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test store -- --ignored"]
fn two_waiters_are_served_although_one_dies_and_a_push_is_lost() {
    sound(&Scope::apart(2).crashes(1).lost_pushes(1), 352_653);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test store -- --ignored"]
fn a_holder_without_waiters_releases_by_value() {
    sound(&Scope::apart(2).by_value(), 1);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test store -- --ignored"]
fn waiters_that_ping_hold_the_lock_in_turn() {
    sound(&Scope::apart(2).with_pings().only_one_slow(1), 1);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test store -- --ignored"]
fn three_waiters_are_served_although_one_is_slow() {
    sound(&Scope::apart(3).only_one_slow(1), 1);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test store -- --ignored"]
fn three_waiters_are_notified_by_push_alone() {
    sound(&Scope::apart(3).timeless().by_value().cancels(1), 4_903);
}

#[test]
fn every_waiter_may_give_up() {
    sound(&Scope::apart(3).timeless().cancels(3), 16_462);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test store -- --ignored"]
fn waiters_on_one_channel_hold_the_lock_in_turn() {
    sound(&Scope::siblings(2).cancels(1), 292_947);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test store -- --ignored"]
fn one_death_needs_no_timer() {
    sound(&Scope::apart(2).patient().crashes(1), 128_455);
}

#[test]
fn a_store_that_forgets_everything_starves_nobody() {
    sound(&Scope::apart(2).only_one_slow(1).flushes(1), 86_638);
}

#[test]
#[ignore = "1.1 million states: cargo test -p model --test store -- --ignored"]
fn a_server_that_starts_empty_starves_nobody() {
    sound(&Scope::apart(2).only_one_slow(0).restarts(1), 547_955);
}

#[test]
fn a_queue_that_expired_is_rebuilt() {
    sound(&Scope::apart(2).only_one_slow(1).queue_ends(1), 36_406);
}

#[test]
fn another_program_may_take_and_release_the_key() {
    sound(&Scope::apart(2).only_one_slow(1).strangers(1), 94_860);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test store -- --ignored"]
fn connections_may_break() {
    sound(&Scope::apart(2).only_one_slow(1).breaks(1), 760_336);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test store -- --ignored"]
fn somebody_may_forge_grants_and_hints() {
    sound(&Scope::apart(2).only_one_slow(1).forgeries(1), 162_803);
}

#[test]
fn a_request_may_be_served_twice() {
    sound(&Scope::apart(2).only_one_slow(0).twins(1), 98_669);
}

#[test]
fn a_release_must_compare() {
    breaks(Flaw::ReleaseWithoutCompare, &one_twice(), TWO_BELIEVE);
}

#[test]
fn each_attempt_needs_its_own_id() {
    breaks(Flaw::OneIdPerClient, &one_twice().breaks(1), TWO_BELIEVE);
}

#[test]
fn a_lease_must_be_counted_from_before_the_sending() {
    breaks(Flaw::CountedFromTheReply, &two_tries(), TWO_BELIEVE);
}

#[test]
fn a_fence_needs_a_floor() {
    breaks(Flaw::FenceWithoutFloor, &two_tries().flushes(1), DOES_NOT_RISE);
}

#[test]
fn a_clock_behind_the_last_fence_is_the_one_exception() {
    breaks(Flaw::ClockBehind, &two_tries().flushes(1), DOES_NOT_RISE);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test store -- --ignored"]
fn the_floor_must_be_read_by_the_store_when_it_grants() {
    breaks(Flaw::FloorFromTheClient, &two_tries().flushes(1), DOES_NOT_RISE);
}

#[test]
fn a_grant_needs_a_not_after() {
    breaks(Flaw::NoNotAfter, &two_tries().breaks(1).cancels(1), STILL_THERE);
}

#[test]
fn giving_up_on_another_connection_needs_a_second_release() {
    breaks(Flaw::OneRelease, &two_tries().breaks(1).cancels(1), STILL_THERE);
}

#[test]
fn a_renewal_must_not_take_a_free_key() {
    breaks(Flaw::RenewalTakes, &two_tries().breaks(1), STILL_THERE);
}

#[test]
fn a_renewal_must_not_shorten_a_lease() {
    breaks(Flaw::RenewalShortens, &two_tries().breaks(1).longer_renewals(1), TWO_BELIEVE);
}

#[test]
fn a_grant_that_comes_again_must_not_shorten_a_lease() {
    breaks(Flaw::GrantShortens, &two_tries().breaks(1).longer_renewals(1), TWO_BELIEVE);
}

#[test]
fn a_renewal_must_keep_the_mark() {
    breaks(Flaw::RenewalDropsTheMark, &Scope::apart(2).by_value(), WAKE_UP_LOST);
}

#[test]
fn a_hand_over_must_keep_the_mark() {
    breaks(Flaw::HandOverDropsTheMark, &Scope::apart(3).timeless().by_value(), WAKE_UP_LOST);
}

#[test]
fn a_strangers_value_must_not_be_marked() {
    breaks(Flaw::MarksAStranger, &Scope::apart(2).strangers(1), "another program cannot release its lock");
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test store -- --ignored"]
fn giving_up_must_not_release_by_value() {
    breaks(Flaw::GivesUpByValue, &Scope::apart(2).by_value().cancels(1), STILL_THERE);
}

#[test]
fn a_release_must_leave_the_queue() {
    breaks(Flaw::ReleaseStaysQueued, &Scope::apart(2).cancels(1), STILL_THERE);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test store -- --ignored"]
fn the_count_of_a_push_must_not_decide() {
    breaks(Flaw::TrustsTheCountOfThePush, &Scope::apart(3).timeless(), TWO_BELIEVE);
}

#[test]
fn every_request_must_hand_a_free_key_on() {
    breaks(Flaw::OnlyTheOwnerHandsOn, &Scope::apart(3).patient().crashes(1).only_one_slow(0), WAKE_UP_LOST);
}

#[test]
fn a_pushed_grant_lasts_a_window_until_it_is_renewed() {
    breaks(Flaw::CountsTheTtlAtOnce, &Scope::apart(3).only_one_slow(1), TWO_BELIEVE);
}

#[test]
fn a_pushed_grant_must_not_be_counted_from_its_reading() {
    breaks(Flaw::CountsFromThePush, &Scope::apart(3).only_one_slow(1), TWO_BELIEVE);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test store -- --ignored"]
fn the_end_of_a_pushed_grant_must_not_be_a_time_of_the_server() {
    breaks(Flaw::CountsByTheServersClock, &Scope::apart(3).only_one_slow(1).clock_steps(1), TWO_BELIEVE);
}

#[test]
fn a_late_push_must_not_be_released() {
    breaks(Flaw::ReleasesALatePush, &Scope::apart(3).only_one_slow(1), PASSED_OVER);
}

#[test]
fn each_request_must_have_its_own_nonce() {
    breaks(Flaw::OneSecretForAllAsks, &Scope::apart(2).strangers(1).only_one_slow(1), TWO_BELIEVE);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test store -- --ignored"]
fn a_waiter_that_asks_again_must_send_its_ticket() {
    breaks(Flaw::ForgetsTheTicket, &Scope::apart(3).only_one_slow(1), PASSED_OVER);
}

#[test]
fn a_hand_over_must_be_recorded() {
    breaks(
        Flaw::NoUnclaimedRecord,
        &Scope::siblings(3).crashes(1),
        "a dead process wasted a second claim window",
    );
}

#[test]
fn a_claim_must_clear_the_record() {
    breaks(Flaw::ClaimLeavesTheRecord, &Scope::siblings(3).timeless(), UNRESPONSIVE_IN_TIME);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test store -- --ignored"]
fn a_request_of_a_sibling_must_clear_the_record() {
    breaks(Flaw::SiblingsAreStruckAllTheSame, &Scope::siblings(3), UNRESPONSIVE_THOUGH_ASKING);
}

#[test]
fn a_request_must_make_a_waiter_responsive_again() {
    breaks(
        Flaw::StrikeStays,
        &Scope::apart(3).only_one_slow(1),
        "a waiter that asks again stays unresponsive",
    );
}

#[test]
fn each_connection_needs_its_own_channel() {
    let fault = "the lock was handed to a connection that is known to be closed";
    breaks(Flaw::ReusesTheChannel, &Scope::apart(2).breaks(1).crashes(1), fault);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test store -- --ignored"]
fn siblings_ask_again_when_one_of_them_lost_its_place() {
    sound(&Scope::siblings(2).patient().only_one_slow(0).flushes(1), 1);
}
