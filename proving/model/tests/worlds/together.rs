//! Readers, writers, permits, several keys, and leases that an operator breaks, at one store.

use model::Flaw;
use model::store::{Party, Scope, Store};

use crate::store::LIMIT;
use crate::{PASSED_OVER, TWO_BELIEVE};

fn a_reader_and_a_writer() -> Scope {
    Scope::of([Party::shared("a"), Party::alone(&["a"])])
}

fn two_readers_and_a_writer() -> Scope {
    Scope::of([Party::shared("a"), Party::shared("a"), Party::alone(&["a"])])
}

fn three_for_two_permits() -> Scope {
    Scope::of([Party::permits("a", 1), Party::permits("a", 1), Party::permits("a", 2)])
}

sound! { Store:
    #[ignore = "takes minutes"]
    readers_and_a_writer_exclude_each_other: a_reader_and_a_writer() => 165_825;
    #[ignore = "takes minutes"]
    readers_and_a_writer_are_notified_by_push_alone:
        two_readers_and_a_writer().timeless().cancels(1) => 3_659;
    a_reader_may_die:
        a_reader_and_a_writer().only_one_slow(1).crashes(1) => 32_271;
    #[ignore = "takes minutes"]
    the_marker_of_readers_may_be_deleted:
        a_reader_and_a_writer().only_one_slow(0).deletions(1) => 114_180;
    #[ignore = "takes minutes"]
    two_readers_and_a_writer_exclude_each_other_although_one_is_slow:
        two_readers_and_a_writer().only_one_slow(2) => 1;
    #[ignore = "takes minutes"]
    no_more_permits_are_granted_than_there_are:
        Scope::of([Party::permits("a", 1), Party::permits("a", 2)]) => 128_242,
        three_for_two_permits().timeless().cancels(1) => 3_205;
    #[ignore = "takes minutes"]
    several_keys_are_taken_in_one_order:
        Scope::of([Party::alone(&["a", "b"]), Party::alone(&["a", "b"])]).only_one_slow(0) => 14_691,
        Scope::of([&["a", "b"][..], &["b"], &["a"]].map(Party::alone)).timeless().cancels(1) => 3_474;
    #[ignore = "takes minutes"]
    a_break_ends_what_was_seen_and_nothing_else:
        Scope::apart(2).patient().only_one_slow(0).breaks_of_leases(1) => 360_068;
}

needed! { Store:
    a_reader_must_not_pass_a_writer_that_waits:
        PassesTheQueue, two_readers_and_a_writer().timeless() => PASSED_OVER;
    a_try_must_not_pass_the_queue:
        PassesTheQueue,
        Scope::of([Party::alone(&["a"]), Party::alone(&["a"]), Party::alone(&["a"]).tries()]).only_one_slow(0)
            => PASSED_OVER;
    a_writer_must_not_ignore_readers:
        WriterIgnoresReaders, two_readers_and_a_writer().timeless() => TWO_BELIEVE;
    #[ignore = "takes minutes"]
    permits_must_be_added_up: PermitsUncounted, three_for_two_permits().timeless() => TWO_BELIEVE;
    a_reader_whose_marker_was_deleted_must_not_come_back:
        SharesOutliveTheMarker, two_readers_and_a_writer().only_one_slow(0).deletions(1) =>
            "a lease that was lost is renewed";
    a_break_must_compare_the_fence:
        BreaksWhatIsThere, Scope::apart(2).breaks_of_leases(1) => "a break ends another's lease";
}
