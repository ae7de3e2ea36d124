//! Finds the process that blocks a file, so that an error can name it.
//!
//! A process that was stopped during a transaction blocks the file until it continues or ends.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc::{F_RDLCK, F_UNLCK, SEEK_SET, flock};
use rustix::fs::{OFlags, major, minor, stat};

use crate::db_path::beside;

/// The byte of SQLite's write lock in the shared-memory file.
/// <https://www.sqlite.org/walformat.html#wal_locks>
const WRITE_LOCK: u8 = 120;

/// The byte there that a process locks while it creates or empties the index of the log.
const SET_UP_LOCK: u8 = 128;

/// The first byte of the locks in the file itself, of which a process locks some while it creates
/// the tables or removes the log. <https://www.sqlite.org/lockingv3.html>
const LOCKS_OF_FILE: u64 = 1 << 30;

/// How often the kernel's list is read if nobody is found: an entry is skipped if entries before it
/// are removed meanwhile, in one of a hundred readings if locks come and go as fast as they can.
const READINGS: usize = 10;

/// A process that was writing when the kernel was asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    pid: u32,
    name: String,
    stopped: bool,
}

impl Writer {
    /// The process that writes to the file at a path, if the kernel shows one to this container.
    pub(crate) fn of(file: &Path) -> Option<Self> {
        let place = |path: &Path| {
            let found = stat(path).ok()?;
            Some(format!("{:02x}:{:02x}:{}", major(found.st_dev), minor(found.st_dev), found.st_ino))
        };
        let (index, file) = (place(&beside(file, "-shm")), place(file)?);
        let pid = (0..READINGS).find_map(|_| {
            let locks = fs::read_to_string("/proc/locks").ok()?;
            locks.lines().find_map(|line| writes(line, &file, index.as_deref()))
        })?;
        let status = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses, and may contain some itself.
        let (head, rest) = status.rsplit_once(')')?;
        let name = head.split_once('(')?.1.to_owned();
        Some(Self { pid, name, stopped: rest.trim_start().starts_with(['T', 't']) })
    }

    pub(crate) const fn is_stopped(&self) -> bool {
        self.stopped
    }

    pub(crate) fn is_this_process(&self) -> bool {
        self.pid == std::process::id()
    }
}

/// The process in a line of `/proc/locks`, if it may write to that file or its log:
/// `1: POSIX  ADVISORY  WRITE 4711 fe:00:131 120 120`.
fn writes(line: &str, file: &str, index: Option<&str>) -> Option<u32> {
    let words: Vec<_> = line.split_ascii_whitespace().collect();
    let [_, "POSIX", _, "WRITE", pid, at, first, last] = words[..] else { return None };
    let last = if last == "EOF" { u64::MAX } else { last.parse().ok()? };
    let locked = first.parse::<u64>().ok()?..=last;
    let is_it = if at == file {
        *locked.start() >= LOCKS_OF_FILE
    } else {
        Some(at) == index && [WRITE_LOCK, SET_UP_LOCK].iter().any(|byte| locked.contains(&u64::from(*byte)))
    };
    is_it.then(|| pid.parse().ok()).flatten()
}

/// Returns true if another process sets up the index of a log at this moment, for which SQLite
/// would wait. This opens and closes the index: only without a connection of this process.
pub(crate) fn is_set_up_now(index: &Path) -> bool {
    /// The size by which the index grows. A smaller one has yet to be written.
    const STEP: u64 = 32 * 1024;
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(index);
    // SQLite says why it cannot be opened.
    let Ok(index) = opened else { return false };
    let is_short = index.metadata().is_ok_and(|found| found.len() < STEP);
    is_locked(&index, SET_UP_LOCK) || is_short && is_locked(&index, WRITE_LOCK)
}

/// Returns true if another process has locked a byte for itself alone.
fn is_locked(file: &File, byte: u8) -> bool {
    let (l_type, l_whence) = (F_RDLCK as _, SEEK_SET as _);
    let mut lock = flock { l_type, l_whence, l_start: byte.into(), l_len: 1, l_pid: 0 };
    fcntl(file, FcntlArg::F_GETLK(&mut lock)).is_ok() && i32::from(lock.l_type) != F_UNLCK
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, name, stopped } = self;
        write!(f, "process {pid} ({name}) kept it for a second")?;
        if *stopped {
            write!(
                f,
                ", because it was stopped while it wrote: let it go on (`kill -CONT {pid}`) or end it, and everybody else can go on"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use rusqlite::Connection;

    use super::*;

    #[test]
    fn only_a_process_that_writes_to_this_file_is_found() {
        let found = |line| writes(line, "fe:00:130", Some("fe:00:131"));
        for writer in [
            "1: POSIX  ADVISORY  WRITE 4711 fe:00:131 120 120",
            "1: POSIX  ADVISORY  WRITE 4711 fe:00:131 128 128",
            "1: POSIX  ADVISORY  WRITE 4711 fe:00:131 0 EOF",
            "1: POSIX  ADVISORY  WRITE 4711 fe:00:130 1073741825 1073741825",
        ] {
            assert_eq!(found(writer), Some(4711), "{writer}");
        }
        for other in [
            "1: POSIX  ADVISORY  READ  4711 fe:00:131 120 120",
            "1: POSIX  ADVISORY  WRITE 4711 fe:00:131 121 127",
            "1: POSIX  ADVISORY  WRITE 4711 fe:00:132 120 120",
            "1: POSIX  ADVISORY  READ  4711 fe:00:130 1073741826 1073742335",
            "1: POSIX  ADVISORY  WRITE 4711 fe:00:130 0 EOF",
            "1: -> POSIX  ADVISORY  WRITE 4711 fe:00:131 120 120",
            "1: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF",
            "1: OFDLCK ADVISORY  WRITE -1 fe:00:131 120 120",
            "",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }

    /// A file without a writer.
    fn a_file(directory: &Path) -> (PathBuf, Connection) {
        let file = directory.join("leases.db");
        let connection = Connection::open(&file).unwrap();
        connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())).unwrap();
        connection.execute_batch("CREATE TABLE t (c)").unwrap();
        (file, connection)
    }

    #[test]
    fn a_file_without_a_writer_has_none() {
        assert_eq!(Writer::of(Path::new("/nowhere/leases.db")), None);
        let directory = tempfile::tempdir().unwrap();
        let (file, connection) = a_file(directory.path());
        assert_eq!(Writer::of(&file), None);
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        let writer = Writer::of(&file).expect("this process writes");
        assert!(writer.is_this_process() && !writer.stopped, "{writer:?}");
    }

    #[test]
    fn a_writer_is_found_however_fast_others_locks_come_and_go() {
        let directory = tempfile::tempdir().unwrap();
        let (file, connection) = a_file(directory.path());
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for name in ["a", "b"] {
                let files =
                    (0..100).map(|n| File::create(directory.path().join(format!("{name}{n}"))).unwrap());
                let (files, is_over) = (files.collect::<Vec<_>>(), &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        files.iter().for_each(|file| file.lock().unwrap());
                        files.iter().for_each(|file| file.unlock().unwrap());
                    }
                });
            }
            let missed = (0..1000).filter(|_| Writer::of(&file).is_none()).count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(missed, 0);
        });
    }
}
