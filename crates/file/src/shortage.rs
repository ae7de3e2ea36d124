//! What a file needs and does not get, of which SQLite reports only that it could not write.

use std::fs;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// The limit of file sizes, in bytes, if this process may not write more to a file and its log.
pub(crate) fn file_size(file: &Path, log: [&Path; 2]) -> Option<u64> {
    getrlimit(Resource::Fsize).current.filter(|limit| *limit < next_size(file, log))
}

/// Why nothing can be written to a file without a name in this directory.
#[cfg(target_os = "linux")]
pub(crate) fn in_directory(directory: &Path) -> Option<Errno> {
    use rustix::fs::{Mode, OFlags, open};
    use rustix::io::write;

    /// The size of SQLite's pages.
    const PAGE: usize = 4096;

    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let written = open(directory, flags, Mode::RUSR).and_then(|file| write(file, &[0; PAGE]));
    written.err()
}

#[cfg(not(target_os = "linux"))]
pub(crate) const fn in_directory(_: &Path) -> Option<Errno> {
    None
}

/// The size that the largest of the files may get next: the index of the log grows by this much.
fn next_size(file: &Path, [wal, shm]: [&Path; 2]) -> u64 {
    const STEP: u64 = 32 * 1024;
    let sizes = [file, wal, shm].map(|path| fs::metadata(path).map_or(0, |found| found.len()));
    sizes.into_iter().max().unwrap_or(0) + STEP
}
