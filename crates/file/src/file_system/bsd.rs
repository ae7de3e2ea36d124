//! Checks that a file system is local to this machine.
//!
//! Locks and shared memory (SQLite's -shm) may not reach other machines on a file system that
//! several share, or that a daemon serves: there would be two holders, or a corrupt file.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::statfs;

use crate::error::FileError;

/// From `sys/mount.h`, on all of them.
const MNT_LOCAL: u64 = 0x1000;

/// Refuses a path on a file system that is not local.
pub(crate) fn check(path: &Path) -> Result<(), FileError> {
    let found =
        statfs(path).map_err(|error| FileError::io("look at the file system of", path, &error.into()))?;
    let name = found.f_fstypename.iter().map(|letter| char::from(letter.cast_unsigned()));
    let kind: String = name.take_while(|letter| *letter != '\0').collect();
    if u64::from(found.f_flags) & MNT_LOCAL != 0 && !is_served(&kind) {
        return Ok(());
    }
    Err(FileError::lasting(format_args!(
        "{} lies on {kind}, where the locks of SQLite are not safe: use a directory on a disk of this machine, or a server",
        path.display()
    )))
}

/// Returns true if something is mounted at exactly this path, which must be a file.
pub(crate) fn is_mounted(path: &Path) -> Result<bool, FileError> {
    let device = |path: &Path| match path.symlink_metadata() {
        Ok(found) => Ok(found.dev()),
        Err(error) => Err(FileError::io("look at", path, &error)),
    };
    Ok(device(path)? != device(path.parent().unwrap_or(path))?)
}

/// File systems that a daemon serves, even if the kernel calls them local.
fn is_served(kind: &str) -> bool {
    ["fusefs", "macfuse", "osxfuse", "p9fs", "AppleVirtIOFS", "vboxfs", "vmhgfs"]
        .iter()
        .any(|served| kind.starts_with(served))
}
