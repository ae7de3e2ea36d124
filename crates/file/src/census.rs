//! The list of files that this process has open through SQLite.
//!
//! When a process closes *any* descriptor of a file, POSIX releases *all* of the process's locks on
//! that file, including SQLite's. So while one store of this process has a file open, no other may
//! open and close it outside SQLite, not even to read its first bytes. They check this list first.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

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

static OPEN: Mutex<BTreeMap<FileId, usize>> = Mutex::new(BTreeMap::new());

/// The right to open a file: only one at a time in a process.
#[derive(Debug)]
pub(crate) struct Opening(MutexGuard<'static, BTreeMap<FileId, usize>>);

impl Opening {
    /// Waits for other openings to end.
    pub(crate) fn begin() -> Self {
        Self(OPEN.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns true if a connection of this process has the file open.
    pub(crate) fn has_open(&self, file: FileId) -> bool {
        self.0.contains_key(&file)
    }

    /// Adds a connection to the list until the entry is dropped.
    pub(crate) fn enter(&mut self, file: FileId) -> Entry {
        *self.0.entry(file).or_insert(0) += 1;
        Entry(file)
    }
}

/// One connection in the list. Drop it after the connection, and not while the same thread has an
/// [`Opening`].
#[derive(Debug)]
pub(crate) struct Entry(FileId);

impl Entry {
    pub(crate) fn file(&self) -> FileId {
        self.0
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.0) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.0);
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
