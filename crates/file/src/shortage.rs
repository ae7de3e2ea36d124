//! What a file needs and does not get, of which SQLite reports only that it could not write.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

/// What was used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "elsewhere only the limit is known"))]
pub(crate) enum Shortage {
    /// The limit of a file's size, in bytes, that this process has.
    FileSize(u64),
    /// The quota of the user or the directory.
    Quota,
    /// The disk.
    Disk,
}

impl Shortage {
    /// Why nothing can be written to a file and its log; `None` if something can.
    pub(crate) fn of(file: &Path, log: [&Path; 2]) -> Option<Self> {
        let of_files = getrlimit(Resource::Fsize).current.filter(|limit| *limit < next_size(file, log));
        of_files.map(Self::FileSize).or_else(|| Self::in_directory(file.parent()?))
    }

    /// Writes to a file without a name.
    #[cfg(target_os = "linux")]
    fn in_directory(directory: &Path) -> Option<Self> {
        use rustix::fs::{Mode, OFlags, open};
        use rustix::io::{Errno, write};

        /// The size of SQLite's pages.
        const PAGE: usize = 4096;

        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let written = open(directory, flags, Mode::RUSR).and_then(|file| write(file, &[0; PAGE]));
        match written {
            Err(Errno::DQUOT) => Some(Self::Quota),
            Err(Errno::NOSPC) => Some(Self::Disk),
            _ => None,
        }
    }

    #[cfg(not(target_os = "linux"))]
    const fn in_directory(_: &Path) -> Option<Self> {
        None
    }
}

/// The size that the largest of the files may get next: the index of the log grows by this much.
fn next_size(file: &Path, [wal, shm]: [&Path; 2]) -> u64 {
    const STEP: u64 = 32 * 1024;
    let sizes = [file, wal, shm].map(|path| fs::metadata(path).map_or(0, |found| found.len()));
    sizes.into_iter().max().unwrap_or(0) + STEP
}
