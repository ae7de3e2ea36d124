//! macOS and FreeBSD show the files that a process has open only to unsafe code.

use crate::census::FileId;
use crate::db_path::DbPath;

/// Takes the files next to the database for those that SQLite has just opened. A log that is
/// replaced in the microseconds in between is noticed only if it was there before.
pub(super) fn are_open(_: &[FileId], _: &DbPath) -> bool {
    true
}
