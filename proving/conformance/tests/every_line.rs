//! The checks of the line, on every store that has one.

use conformance::venue::Venue;
use servers::Flavor;

conformance::every_check_of_the_line! {
    memory: super::Venue::memory();
    quorum_of_memory: super::Venue::quorum_of_memory();
    quorum_of_redis: super::Venue::quorum_of_redis(
        [super::Flavor::Redis70, super::Flavor::Redis82, super::Flavor::Valkey91],
    );
    file: super::Venue::file();
}
