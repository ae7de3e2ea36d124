//! macOS and FreeBSD show the files that a process has open only to unsafe code.

use std::path::Path;

use crate::census::FileId;

/// Takes the files next to the database for those that SQLite has just opened. A log that is
/// replaced in the microseconds in between is noticed only if it was there before.
pub(super) fn are_open(_: &[FileId], _: &Path) -> bool {
    true
}
