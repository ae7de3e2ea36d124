//! Readers, writers, permits, several keys, and leases that an operator breaks: the rules hold, and
//! each of them is needed.

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
const PASSED_OVER: &str = "a live waiter was passed over";

fn two_readers_and_a_writer() -> Scope {
    Scope::of([Party::shared("a"), Party::shared("a"), Party::alone(&["a"])])
}

fn three_for_two_permits() -> Scope {
    Scope::of([Party::permits("a", 1), Party::permits("a", 1), Party::permits("a", 2)])
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test together -- --ignored"]
fn readers_and_a_writer_exclude_each_other() {
    sound(&Scope::of([Party::shared("a"), Party::alone(&["a"])]), 165_825);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test together -- --ignored"]
fn readers_and_a_writer_are_notified_by_push_alone() {
    sound(&two_readers_and_a_writer().timeless().cancels(1), 3_659);
}

#[test]
fn a_reader_may_die() {
    sound(&Scope::of([Party::shared("a"), Party::alone(&["a"])]).only_one_slow(1).crashes(1), 32_271);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test together -- --ignored"]
fn the_marker_of_readers_may_be_deleted() {
    sound(&Scope::of([Party::shared("a"), Party::alone(&["a"])]).only_one_slow(0).deletions(1), 114_180);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test together -- --ignored"]
fn two_readers_and_a_writer_exclude_each_other_although_one_is_slow() {
    sound(&two_readers_and_a_writer().only_one_slow(2), 1);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test together -- --ignored"]
fn no_more_permits_are_granted_than_there_are() {
    sound(&Scope::of([Party::permits("a", 1), Party::permits("a", 2)]), 128_242);
    sound(&three_for_two_permits().timeless().cancels(1), 3_205);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test together -- --ignored"]
fn several_keys_are_taken_in_one_order() {
    sound(&Scope::of([Party::alone(&["a", "b"]), Party::alone(&["a", "b"])]).only_one_slow(0), 14_691);
    sound(
        &Scope::of([Party::alone(&["a", "b"]), Party::alone(&["b"]), Party::alone(&["a"])])
            .timeless()
            .cancels(1),
        1,
    );
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test together -- --ignored"]
fn a_break_ends_what_was_seen_and_nothing_else() {
    sound(&Scope::apart(2).patient().only_one_slow(0).breaks_of_leases(1), 360_068);
}

#[test]
fn a_reader_must_not_pass_a_writer_that_waits() {
    breaks(Flaw::PassesTheQueue, &two_readers_and_a_writer().timeless(), PASSED_OVER);
}

#[test]
fn a_try_must_not_pass_the_queue() {
    let scope = Scope::of([Party::alone(&["a"]), Party::alone(&["a"]), Party::alone(&["a"]).tries()]);
    breaks(Flaw::PassesTheQueue, &scope.only_one_slow(0), PASSED_OVER);
}

#[test]
fn a_writer_must_not_ignore_readers() {
    breaks(Flaw::WriterIgnoresReaders, &two_readers_and_a_writer().timeless(), TWO_BELIEVE);
}

#[test]
#[ignore = "takes minutes: cargo test -p model --test together -- --ignored"]
fn permits_must_be_added_up() {
    breaks(Flaw::PermitsUncounted, &three_for_two_permits().timeless(), TWO_BELIEVE);
}

#[test]
fn a_reader_whose_marker_was_deleted_must_not_come_back() {
    let scope = two_readers_and_a_writer().only_one_slow(0).deletions(1);
    breaks(Flaw::SharesOutliveTheMarker, &scope, "something is left of a client that is gone");
}

#[test]
fn a_break_must_compare_the_fence() {
    breaks(Flaw::BreaksWhatIsThere, &Scope::apart(2).breaks_of_leases(1), "a break ends another's lease");
}
