//! The files that this process has open, by /proc.

use std::fs;
use std::io;
use std::path::Path;

use crate::census::FileId;
use crate::db_path::DbPath;

/// Returns true if this process has all of these files open under the names of a log.
pub(super) fn are_open(wanted: &[FileId], db_path: &DbPath) -> io::Result<bool> {
    let mut open = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")?.flatten() {
        // Only with such a name: to look at a file on a server that is down could block for ever.
        let named = |path: &Path| db_path.log().iter().any(|name| name.file_name() == path.file_name());
        if fs::read_link(entry.path()).is_ok_and(|path| named(&path)) {
            open.extend(entry.path().metadata().ok().map(|found| FileId::of(&found)));
        }
    }
    Ok(wanted.iter().all(|file| open.contains(file)))
}
