//! All checks on the PostgreSQL that `LEASEHOLD_TEST_POSTGRES` names, and some on the newest.

use conformance::target::Target;

conformance::every_check! {
    postgres: Target::postgres() => all, transfers, readers, permits, members, notices;
}

mod newest {
    use super::*;

    conformance::every_check! {
        @ Target::newest_postgres();
        asking_again_is_granted_again,
        any_key_and_label_will_do,
        one_at_a_time_under_contention,
        a_waiter_is_served_when_the_lock_is_released,
        an_observer_sees_the_queue_in_order,
        a_writer_is_alone_under_contention,
        permits_never_exceed_their_number,
        a_rejoin_renews_a_lease_or_takes_a_key_that_is_free_and_not_waited_for,
        a_break_leaves_a_record,
        marks_are_listed_and_can_be_taken_back,
    }
}
