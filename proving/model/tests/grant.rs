//! Grants at one store: the rules as they are built hold, and each of them is needed.

use model::explore::{Trace, explore};
use model::grant::{Flaw, Grants};

const LIMIT: usize = 4_000_000;

/// A world that breaks; which one finds it soonest differs.
fn broken(flaw: Flaw, attempts: u8, breaks: u8, losses: u8) -> Trace {
    let trace = explore(Grants::new(Some(flaw), attempts, breaks, losses), LIMIT).broken();
    println!("{flaw:?}: {trace}");
    trace
}

#[test]
fn nobody_else_believes_and_nothing_is_left_however_the_network_behaves() {
    let states = explore(Grants::new(None, 1, 2, 0), LIMIT).sound();
    assert!(states >= 740_455, "{states} states");
}

#[test]
fn a_second_attempt_is_safe_from_what_is_left_of_the_first() {
    let states = explore(Grants::new(None, 2, 1, 0), LIMIT).sound();
    assert!(states >= 335_256, "{states} states");
}

#[test]
fn fences_rise_also_when_the_store_forgets() {
    let states = explore(Grants::new(None, 1, 0, 2), LIMIT).sound();
    assert!(states >= 637_680, "{states} states");
}

#[test]
fn a_release_must_compare() {
    assert_eq!(broken(Flaw::ReleaseWithoutCompare, 2, 0, 0).fault, "two believe that they hold");
}

#[test]
fn each_attempt_needs_an_id_of_its_own() {
    assert_eq!(broken(Flaw::OneIdPerClient, 2, 1, 0).fault, "two believe that they hold");
}

#[test]
fn a_lease_must_be_counted_from_before_the_sending() {
    assert_eq!(broken(Flaw::CountedFromTheReply, 1, 0, 0).fault, "two believe that they hold");
}

#[test]
fn a_fence_needs_a_floor() {
    assert_eq!(broken(Flaw::FenceWithoutFloor, 1, 0, 1).fault, "a fence does not rise");
}

#[test]
fn a_clock_behind_the_last_fence_is_the_one_exception() {
    assert_eq!(broken(Flaw::ClockBehind, 1, 0, 1).fault, "a fence does not rise");
}

#[test]
fn the_floor_must_be_read_by_the_store_when_it_grants() {
    assert_eq!(broken(Flaw::FloorFromTheClient, 1, 0, 1).fault, "a fence does not rise");
}

#[test]
fn a_grant_needs_a_not_after() {
    assert_eq!(broken(Flaw::NoNotAfter, 1, 1, 0).fault, "a lock is left behind");
}

#[test]
fn giving_up_on_another_connection_needs_a_second_release() {
    assert_eq!(broken(Flaw::OneRelease, 1, 1, 0).fault, "a lock is left behind");
}

#[test]
fn a_renewal_must_not_take_a_free_key() {
    assert_eq!(broken(Flaw::RenewalTakes, 1, 1, 0).fault, "a lock is left behind");
}

#[test]
fn a_renewal_must_not_shorten_a_lease() {
    assert_eq!(broken(Flaw::RenewalShortens, 1, 1, 0).fault, "two believe that they hold");
}

/// `core::apply` and `grant.lua` do shorten: a grant that was held up on a broken connection, and arrives within its not-after,
/// cuts a longer renewal of the holder's own, answered meanwhile, down to the ttl of the attempt.
#[test]
fn a_grant_that_comes_again_must_not_shorten_a_lease() {
    assert_eq!(broken(Flaw::GrantShortens, 1, 1, 0).fault, "two believe that they hold");
}
