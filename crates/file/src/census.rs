//! The list of files that this process has open through SQLite.
//!
//! When a process closes *any* descriptor of a file, POSIX releases *all* of the process's locks on
//! that file, including SQLite's. So no store opens and closes a file outside SQLite, not even to
//! read its first bytes, while another one of this process has it open.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::process;
use std::sync::{Mutex, MutexGuard};

use leasehold_core::locked;

/// The identity of a file whatever its name: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl FileId {
    pub(crate) fn of(found: &Metadata) -> Self {
        Self { device: found.dev(), inode: found.ino() }
    }
}

/// The number of connections of each file and process: a forked child inherits the list.
type Connections = BTreeMap<(FileId, u32), usize>;

static OPEN: Mutex<Connections> = Mutex::new(BTreeMap::new());

/// The right to open a file: only one at a time in a process.
#[derive(Debug)]
pub(crate) struct Opening(MutexGuard<'static, Connections>);

impl Opening {
    /// Waits for other openings to end.
    pub(crate) fn begin() -> Self {
        Self(locked(&OPEN))
    }

    /// The same without waiting; `None` while another one lasts.
    pub(crate) fn begin_at_once() -> Option<Self> {
        OPEN.try_lock().ok().map(Self)
    }

    /// Returns true if a connection of this process has the file open.
    pub(crate) fn has_open(&self, file: FileId) -> bool {
        self.0.contains_key(&(file, process::id()))
    }

    /// True if a connection of the process from which this one was forked had the file open then.
    /// SQLite believes that it has the locks of that connection here too, and takes none.
    pub(crate) fn inherited(&self, file: FileId) -> bool {
        self.0.keys().any(|(open, by)| *open == file && *by != process::id())
    }

    /// Adds a connection to the list until the entry is dropped.
    pub(crate) fn enter(&mut self, file: FileId) -> Entry {
        self.enter_by(file, process::id())
    }

    pub(crate) fn enter_by(&mut self, file: FileId, process: u32) -> Entry {
        *self.0.entry((file, process)).or_insert(0) += 1;
        Entry(file, process)
    }
}

/// One connection in the list. Drop it behind the connection, without an [`Opening`].
#[derive(Debug)]
pub(crate) struct Entry(FileId, u32);

impl Entry {
    pub(crate) fn file(&self) -> FileId {
        self.0
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut open = locked(&OPEN);
        let key = (self.0, self.1);
        if let Some(count) = open.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                open.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_open_until_its_last_connection_is_gone() {
        // No file system has this device number.
        let file = FileId { device: u64::MAX, inode: 1 };
        let mut opening = Opening::begin();
        assert!(!opening.has_open(file));
        let (first, second) = (opening.enter(file), opening.enter(file));
        drop(opening);
        drop(first);
        assert!(Opening::begin().has_open(file));
        drop(second);
        assert!(!Opening::begin().has_open(file));
    }
}
