//! Errors of the file, with texts that tell a person how to repair them.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use leasehold_core::{Escaped, Fault, FaultCause, FaultKind};
use rusqlite::{ErrorCode, ffi};
use rustix::io::Errno;

use crate::shortage;
use crate::writer::Writer;

/// How long a transaction waits for those of other processes, which take far less than a millisecond,
/// except for one in a thousand that moves the log. A longer wait would be considered a hang.
pub(crate) const BUSY_LIMIT: Duration = Duration::from_secs(1);

/// A fault without the name of its store.
#[derive(Debug)]
pub(crate) struct FileError {
    kind: FaultKind,
    cause: FaultCause,
    reason: String,
    /// True if the connection must not be used any more: SQLite itself failed.
    pub(crate) reopen: bool,
    /// True if SQLite could not write or create a file, and does not say why.
    unwritten: bool,
    /// True if the file is to be opened again at once, because leases of another boot are left.
    pub(crate) unsettled: bool,
}

impl FileError {
    pub(crate) fn lasting(reason: impl fmt::Display) -> Self {
        let (kind, cause) = (FaultKind::Lasting, FaultCause::Other);
        Self { kind, cause, reason: reason.to_string(), reopen: true, unwritten: false, unsettled: false }
    }

    pub(crate) fn passing(reason: impl fmt::Display) -> Self {
        Self { kind: FaultKind::Passing, ..Self::lasting(reason) }
    }

    /// The same, if another process keeps the file from serving and the reason says what to do.
    pub(crate) fn not_serving(reason: impl fmt::Display) -> Self {
        Self { cause: FaultCause::NotServing, ..Self::passing(reason) }
    }

    /// An error for a file of so many keys that the leases of another boot are voided in several calls.
    pub(crate) fn unsettled() -> Self {
        let reason = "the leases from before the restart of this machine are being ended, which takes seconds with a million keys: \
                      try again";
        Self { unsettled: true, ..Self::not_serving(reason) }
    }

    /// An error for a record that Leasehold cannot have written.
    pub(crate) fn damaged(what: impl fmt::Display) -> Self {
        Self::lasting(format_args!(
            "the file is damaged ({what}): stop all programs that use it, move it away together with its -wal and -shm, and \
             start them again"
        ))
    }

    /// An error of the operating system while something was `done` to a path.
    pub(crate) fn io(done: &str, path: &Path, error: &io::Error) -> Self {
        let said = format!("cannot {done} {}: {error}", path.display());
        let errno = Errno::from_io_error(error);
        if let Some(no_room) = errno.and_then(Self::no_room_by) {
            return no_room;
        }
        match errno {
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::INTR | Errno::AGAIN | Errno::IO) => {
                Self::passing(said)
            }
            Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
                Self { cause: FaultCause::Permission, ..Self::lasting(said) }
            }
            _ => Self::lasting(said),
        }
    }

    pub(crate) fn of(self, store: &str) -> Fault {
        // It may contain any path.
        let reason = Escaped(self.reason.as_bytes());
        let fault = match self.kind {
            FaultKind::Lasting => Fault::lasting(store, reason),
            _ => Fault::passing(store, reason),
        };
        fault.caused_by(self.cause)
    }

    fn disk_full() -> Self {
        Self::no_room("the disk is full, so nothing was taken or changed: free some space")
    }

    /// The error if the operating system has no room.
    fn no_room_by(errno: Errno) -> Option<Self> {
        match errno {
            Errno::NOSPC => Some(Self::disk_full()),
            Errno::DQUOT => Some(Self::no_room(
                "the quota of disk space is used up, so nothing was taken or changed: free some space, or raise the quota",
            )),
            _ => None,
        }
    }

    fn file_too_large(limit: u64) -> Self {
        Self::no_room(format_args!(
            "a file of this process may not become larger than {limit} bytes, so nothing was taken or changed: raise \
             the limit (ulimit -f)"
        ))
    }

    fn no_room(reason: impl fmt::Display) -> Self {
        Self { cause: FaultCause::DiskFull, reopen: false, ..Self::lasting(reason) }
    }

    /// Returns true if the disk or the system lacks something that it may have again later.
    pub(crate) fn is_shortage(&self) -> bool {
        self.kind == FaultKind::Passing || self.cause == FaultCause::DiskFull
    }

    pub(crate) fn busy() -> Self {
        let reason = "the file is busy: another process kept it for a second";
        Self { cause: FaultCause::TimedOut, reopen: false, ..Self::passing(reason) }
    }

    /// Adds what can be found out afterwards: who blocked the file, or why it could not be written.
    pub(crate) fn explained(mut self, file: &Path, log: [&Path; 2]) -> Self {
        let is_busy = self.cause == FaultCause::TimedOut;
        if is_busy && was_written_lately(log[0]) {
            self.reason =
                "the file is busy: so many processes use it that this one had no turn for a second".into();
            return self;
        }
        let writer = Some(file).filter(|_| is_busy).and_then(Writer::of);
        if let Some(writer) = writer.filter(|writer| !writer.is_this_process()) {
            self.reason = format!("the file is busy: {writer}");
            if writer.is_stopped() {
                self.cause = FaultCause::NotServing;
            }
        }
        let refused = || shortage::in_directory(file.parent()?).and_then(Self::no_room_by);
        let too_large = || shortage::file_size(file, log).map(Self::file_too_large);
        let shortage = if self.unwritten { too_large().or_else(refused) } else { None };
        shortage.unwrap_or(self)
    }
}

/// Returns true if a log was written while a request waited for it. Then no process kept the file for all
/// of that time, and none is searched for: that stops all file locks of the machine for a moment, which
/// would make a file that thousands of processes use still busier.
fn was_written_lately(log: &Path) -> bool {
    let written = log.metadata().and_then(|found| found.modified()).ok();
    written.and_then(|at| SystemTime::now().duration_since(at).ok()).is_some_and(|ago| ago < BUSY_LIMIT)
}

impl From<rusqlite::Error> for FileError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error().map(|error| error.extended_code) {
            // There is no room for the index of the log.
            Some(ffi::SQLITE_IOERR_SHMSIZE) => return Self { unwritten: true, ..Self::disk_full() },
            Some(ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_CANTOPEN) => {
                return Self { unwritten: true, ..Self::passing(error) };
            }
            _ => {}
        }
        match error.sqlite_error_code() {
            Some(
                ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                // The index of the log was being set up for ten seconds.
                | ErrorCode::FileLockingProtocolFailed,
            ) => Self::busy(),
            Some(ErrorCode::DiskFull) => Self::disk_full(),
            Some(ErrorCode::ReadOnly) => Self::lasting(format_args!(
                "the file or its file system is read-only ({error}): make it writable, or use another place"
            )),
            // `Unknown` is SQLITE_ERROR: a table or a column is missing.
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::Unknown) => Self::damaged(error),
            Some(ErrorCode::NotADatabase) => Self::damaged("its head is Leasehold's, its pages are not"),
            Some(_) => Self::passing(error),
            // An error of rusqlite itself: a column of another type, a missing row.
            None => Self::damaged(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn sqlite(code: i32) -> FileError {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into()
    }

    #[test]
    fn a_full_disk_and_a_busy_file_keep_the_connection_and_only_the_file_is_free_by_itself() {
        for (code, word, kind) in [
            (ffi::SQLITE_FULL, "full", FaultKind::Lasting),
            (ffi::SQLITE_IOERR_SHMSIZE, "full", FaultKind::Lasting),
            (ffi::SQLITE_BUSY, "busy", FaultKind::Passing),
        ] {
            let error = sqlite(code);
            assert!(!error.reopen && error.reason.contains(word));
            assert_eq!(error.of("file:/x").kind, kind);
        }
    }

    /// Regression: when more than a thousand processes began to wait at once, each of them searched the
    /// kernel's list of locks for the process that kept the file, and named one that did not. The kernel
    /// stops all file locks while it writes the list, so most processes got no turn for ten seconds.
    #[test]
    fn a_file_that_others_wrote_meanwhile_was_kept_by_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let [file, wal, shm] = ["l.db", "l.db-wal", "l.db-shm"].map(|name| directory.path().join(name));
        let written = File::create(&wal).unwrap();
        let explained = || FileError::busy().explained(&file, [&wal, &shm]).reason;
        assert!(explained().contains("so many processes use it"), "{}", explained());
        written.set_modified(SystemTime::now() - BUSY_LIMIT).unwrap();
        assert!(explained().contains("another process kept it"), "{}", explained());
    }

    #[test]
    fn no_space_for_a_directory_is_a_full_disk_too() {
        let error = io::Error::from(Errno::NOSPC);
        let fault = FileError::io("make", Path::new("/x"), &error).of("f");
        assert!(fault.is_lasting() && fault.reason.contains("free some space"), "{fault}");
        let error = io::Error::from(Errno::MFILE);
        assert_eq!(FileError::io("make", Path::new("/x"), &error).of("f").kind, FaultKind::Passing);
    }
}
