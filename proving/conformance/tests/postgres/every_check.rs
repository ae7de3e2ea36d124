//! The list of checks, in full, on PostgreSQL of the version that `LEASEHOLD_TEST_POSTGRES` names,
//! and in part on the newest.

use conformance::target::Target;

conformance::every_check! { of all:
    postgres: Target::postgres();
}

conformance::every_check! { of transfers:
    postgres_with_transfers: Target::postgres();
}

conformance::every_check! { of readers:
    postgres_with_readers: Target::postgres();
}

conformance::every_check! { of permits:
    postgres_with_permits: Target::postgres();
}

conformance::every_check! { of members:
    postgres_as_a_member: Target::postgres();
}

mod told {
    use super::*;

    conformance::every_check! {
        @ Target::postgres();
        a_holder_is_notified_at_once_that_its_lease_was_broken,
        a_holder_that_waited_is_notified_at_once_that_its_lease_was_broken,
    }
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
