//! The list of checks, in full, on PostgreSQL.

use conformance::venue::Venue;

conformance::every_check! {
    postgres: super::Venue::postgres();
}

conformance::every_check_of_readers! {
    postgres_with_readers: super::Venue::postgres();
}

conformance::every_check_of_permits! {
    postgres_with_permits: super::Venue::postgres();
}

conformance::every_check_of_a_member! {
    postgres_as_a_member: super::Venue::postgres();
}

mod told_after_waiting {
    use conformance::venue::Venue;

    conformance::every_check! {
        @ Venue::postgres();
        a_holder_that_waited_hears_at_once_that_its_lease_was_broken,
    }
}
