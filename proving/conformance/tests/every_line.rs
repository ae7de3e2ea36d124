//! The checks of the line, on every store that has one.

use conformance::venue::Venue;

conformance::every_check_of_the_line! {
    memory: super::Venue::memory();
    quorum_of_memory: super::Venue::quorum_of_memory();
    file: super::Venue::file();
}
