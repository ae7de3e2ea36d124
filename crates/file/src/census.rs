//! Which files this process has open through SQLite.
//!
//! POSIX takes *all* of a process's locks on a file away when the process closes *any* descriptor of it. SQLite's locks are
//! such. So while one store of this process has a file open, no other may open and close it beside SQLite, not even to read
//! its first bytes; this is the list that is asked before.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file whatever its name: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl FileId {
    pub(crate) fn of(found: &rustix::fs::Stat) -> Self {
        Self { device: found.st_dev, inode: found.st_ino }
    }
}

static OPEN: Mutex<BTreeMap<FileId, usize>> = Mutex::new(BTreeMap::new());

/// The right to open a file: one opening at a time in a process.
#[derive(Debug)]
pub(crate) struct Opening(MutexGuard<'static, BTreeMap<FileId, usize>>);

impl Opening {
    /// Waits for other openings to end.
    pub(crate) fn begin() -> Self {
        Self(OPEN.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a connection of this process has the file open.
    pub(crate) fn has_open(&self, file: FileId) -> bool {
        self.0.contains_key(&file)
    }

    /// Counts a connection in, for as long as the entry lives.
    pub(crate) fn enter(&mut self, file: FileId) -> Entry {
        *self.0.entry(file).or_insert(0) += 1;
        Entry(file)
    }
}

/// One connection in the list. To be dropped after the connection, and not while an [`Opening`] lives in the same thread.
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
        // No file system has such a device number.
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
