//! The line: its rules hold, and each of them is needed.

use model::explore::{Trace, explore};
use model::line::{Flaw, Line, Trouble};

const LIMIT: usize = 4_000_000;

fn broken(flaw: Flaw, attempts: usize, trouble: Trouble) -> Trace {
    let trace = explore(Line::new(Some(flaw), attempts, trouble), LIMIT).broken();
    println!("{flaw:?}: {trace}");
    trace
}

fn sound_without_time(trouble: Trouble, at_least: usize) {
    let states = explore(Line::new(None, 3, trouble).timeless(), LIMIT).sound();
    println!("without time, {trouble:?}: {states} states");
    assert!(states >= at_least, "{states} states; there were {at_least}");
}

fn sound(attempts: usize, trouble: Trouble, at_least: usize) {
    let states = explore(Line::new(None, attempts, trouble), LIMIT).sound();
    println!("{attempts} attempts, {trouble:?}: {states} states");
    assert!(states >= at_least, "{states} states; there were {at_least}");
}

#[test]
fn two_attempts_have_the_lock_in_turn_whatever_goes_wrong() {
    sound(2, Trouble::new(1, 1, 1), 430_738);
}

#[test]
fn three_attempts_have_the_lock_in_turn_by_push_alone() {
    sound_without_time(Trouble::new(0, 3, 0), 93_718);
}

#[test]
fn a_renewal_must_keep_the_mark() {
    assert_eq!(broken(Flaw::RenewalDropsTheMark, 2, Trouble::default()).fault, "a wake-up is lost");
}

#[test]
fn a_hand_over_must_keep_the_mark() {
    let world = Line::new(Some(Flaw::HandOverDropsTheMark), 3, Trouble::default()).timeless();
    let trace = explore(world, LIMIT).broken();
    println!("{trace}");
    assert_eq!(trace.fault, "a wake-up is lost");
}

#[test]
fn a_release_must_leave_the_line() {
    assert_eq!(broken(Flaw::ReleaseStaysInLine, 2, Trouble::new(0, 1, 0)).fault, "something is left behind");
}

#[test]
fn the_count_of_a_push_must_not_decide() {
    assert_eq!(
        broken(Flaw::TrustsTheCountOfThePush, 3, Trouble::default()).fault,
        "two believe that they hold"
    );
}

#[test]
fn every_script_must_advance() {
    let fault = broken(Flaw::AdvancesOnlyWhenTheOwnerLeaves, 3, Trouble::new(1, 0, 0)).fault;
    assert_eq!(fault, "a wake-up is lost");
}

#[test]
fn a_pushed_grant_lasts_a_window_until_it_is_renewed() {
    assert_eq!(broken(Flaw::CountsTheTtlAtOnce, 3, Trouble::default()).fault, "two believe that they hold");
}

#[test]
fn a_pushed_grant_must_not_be_counted_from_its_reading() {
    assert_eq!(broken(Flaw::CountsFromThePush, 3, Trouble::default()).fault, "two believe that they hold");
}

#[test]
fn only_who_is_provisional_steps_back() {
    let world = Line::new(Some(Flaw::StepsBackWithoutTheFlag), 3, Trouble::default());
    let world = world.by_script().timeless();
    let trace = explore(world, LIMIT).broken();
    println!("{trace}");
    assert_eq!(trace.fault, "two believe that they hold");
}

#[test]
fn the_native_pair_must_not_slip_past_the_line() {
    let fault = broken(Flaw::PairSlipsPastTheLine, 3, Trouble::default()).fault;
    assert_eq!(fault, "a live waiter was passed over");
}
