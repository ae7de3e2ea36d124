//! A connection to the file, and the transactions on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};

use crate::census::{Entry, FileId, Opening};
use crate::place::Place;
use crate::schema;
use crate::trouble::Trouble;

/// How long a transaction waits for those of other processes. Each of theirs takes far below a millisecond, but for the one in
/// a thousand that moves the log into the file; a second is less than a wait that a caller would call a hang.
pub(crate) const BUSY_LIMIT: Duration = Duration::from_secs(1);

/// How many pages the log has, when it is moved into the file and the disk waited for: 4 MB, as with SQLite's own limit, whose pages
/// are four times as large. SQLite finds a page in the log by going through all its older copies there, so that a shorter log is less
/// work; but the disk is waited for as much more often.
const LONG_LOG: i32 = 4000;

/// A connection, and after it (fields are dropped in order) its entry in the list of this process's files.
#[derive(Debug)]
pub(crate) struct Open {
    connection: Connection,
    haste: Arc<Haste>,
    entry: Entry,
}

/// Whether whoever asks must not be kept waiting, and what it waits for where it may be. Used under the connection's own exclusion:
/// atomic only because SQLite's callbacks share it.
#[derive(Debug, Default)]
struct Haste {
    is_on: AtomicBool,
    /// A transaction was begun that no work has come to yet.
    is_begun: AtomicBool,
    /// The log grew long and was not moved, because that takes as long as the disk does.
    long_log: AtomicBool,
    /// The log was moved into the file. Whoever writes next may begin it anew, and waits for the disk once more.
    moved_log: AtomicBool,
}

/// What a transaction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// It reads, and keeps nobody out.
    ToRead,
    /// It writes, and is alone from its very beginning: it never finds at its end that somebody else wrote in between.
    ToWrite,
    /// It writes what must outlast a power cut: it ends when the disk has it.
    Durably,
}

impl Open {
    /// Opens the file at a place, which is made and checked before. What the file must be is settled in a first transaction.
    pub(crate) fn new(
        place: &Place,
        settle: impl FnOnce(&Connection) -> Result<(), Trouble>,
    ) -> Result<Self, Trouble> {
        let mut opening = Opening::begin();
        let file = place.prepare()?;
        if !opening.has_open(file) {
            schema::look(place.path())?;
        }
        // Not CREATE, so that no file comes to be whose mode and owner were not looked at; and no URI.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(place.path(), flags)?;
        let haste = Arc::new(Haste::default());
        connection.busy_handler(Some(wait_for_others(Arc::clone(&haste))))?;
        connection.set_prepared_statement_cache_capacity(32);
        // A bound LIMIT would else have its statement prepared anew at every use, which was a fifth of what a wait in line cost.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        // Only an empty file takes it. A commit writes whole pages, and a lease is far smaller than one: quarter pages cost a
        // fifth less processor time for a lock that is taken and released.
        connection.pragma_update(None, "page_size", 1024)?;
        transaction(&connection, Begin::ToWrite, settle)?;
        write_ahead(&mut connection, &haste)?;
        Ok(Self { connection, haste, entry: opening.enter(file) })
    }

    /// The file that was opened, wherever it is by now.
    pub(crate) fn file(&self) -> FileId {
        self.entry.file()
    }

    /// Does some work, all of it or nothing.
    pub(crate) fn transaction<T>(
        &self,
        begin: Begin,
        work: impl FnOnce(&Connection) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        if begin != Begin::ToRead {
            self.haste.moved_log.store(false, Ordering::Relaxed);
        }
        if self.haste.is_begun.swap(false, Ordering::Relaxed) {
            debug_assert_ne!(begin, Begin::Durably, "it was begun without waiting for the disk");
            return finish(&self.connection, work);
        }
        if begin != Begin::Durably {
            return transaction(&self.connection, begin, work);
        }
        // The whole log is waited for, and with it whatever was committed before.
        self.connection.pragma_update(None, "synchronous", "full")?;
        let done = transaction(&self.connection, begin, work);
        self.connection.pragma_update(None, "synchronous", "normal")?;
        done
    }

    /// Begins a transaction that writes, for the next piece of work, unless others' have to be waited for for longer than it takes to
    /// try a few times more, or the disk. Until the end of it the same holds for whatever is done.
    pub(crate) fn begin_at_once(&self) -> bool {
        if self.haste.long_log.load(Ordering::Relaxed) || self.haste.moved_log.load(Ordering::Relaxed) {
            return false;
        }
        self.haste.is_on.store(true, Ordering::Relaxed);
        let begun = start(&self.connection, Begin::ToWrite).is_ok();
        self.haste.is_begun.store(begun, Ordering::Relaxed);
        if !begun {
            self.end_at_once();
        }
        begun
    }

    /// What is done from now on may wait. Work that never came to its transaction leaves it begun: it is taken back.
    pub(crate) fn end_at_once(&self) {
        self.haste.is_on.store(false, Ordering::Relaxed);
        if self.haste.is_begun.swap(false, Ordering::Relaxed) {
            let _ = run(&self.connection, "ROLLBACK");
        }
    }

    pub(crate) fn has_long_log(&self) -> bool {
        self.haste.long_log.load(Ordering::Relaxed)
    }

    /// Moves the log into the file, as far as nobody reads it. What stays is found by the next commit.
    pub(crate) fn shorten_log(&self) {
        self.haste.long_log.store(false, Ordering::Relaxed);
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        self.haste.moved_log.store(true, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn pragma(&self, name: &str, value: i64) {
        self.connection
            .pragma_update_and_check(None, name, value, |_| Ok(()))
            .or_else(|_| self.connection.pragma_update(None, name, value))
            .unwrap();
    }
}

fn transaction<T>(
    connection: &Connection,
    begin: Begin,
    work: impl FnOnce(&Connection) -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    start(connection, begin)?;
    finish(connection, work)
}

/// Does some work in the transaction that was begun, and ends it.
fn finish<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    let done = work(connection).and_then(|done| {
        run(connection, "COMMIT")?;
        Ok(done)
    });
    // SQLite has rolled some errors back by itself.
    if done.is_err() && !connection.is_autocommit() {
        run(connection, "ROLLBACK")?;
    }
    done
}

fn start(connection: &Connection, begin: Begin) -> Result<(), rusqlite::Error> {
    run(
        connection,
        match begin {
            Begin::ToRead => "BEGIN",
            Begin::ToWrite | Begin::Durably => "BEGIN IMMEDIATE",
        },
    )
}

fn run(connection: &Connection, sql: &str) -> Result<(), rusqlite::Error> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

/// A log beside the file, so that a commit waits for no disk. What was committed may be gone after a power cut, but then the
/// leases are void; the file is sound in any case. <https://www.sqlite.org/pragma.html#pragma_synchronous>
fn write_ahead(connection: &mut Connection, haste: &Arc<Haste>) -> Result<(), Trouble> {
    let mut wait = wait_for_others(Arc::default());
    let mut tries = 0;
    loop {
        // Two connections that both change the mode would wait for each other, so SQLite says "busy" here without asking.
        match connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0)) {
            Ok(mode) if mode == "wal" => break,
            Ok(mode) => {
                return Err(Trouble::lasting(format_args!(
                    "the file system allows no log beside the file (journal mode {mode}): use another place"
                )));
            }
            Err(error) => {
                let trouble = Trouble::from(error);
                if trouble.reopen() || !wait(tries) {
                    return Err(trouble);
                }
                tries += 1;
            }
        }
    }
    connection.pragma_update(None, "synchronous", "normal")?;
    let haste = Arc::clone(haste);
    connection.wal_hook(Some(move |log: &mut Wal, pages| {
        if pages < LONG_LOG {
            return Ok(());
        }
        if haste.is_on.load(Ordering::Relaxed) {
            haste.long_log.store(true, Ordering::Relaxed);
            return Ok(());
        }
        // What somebody reads, or moves already, is found by the next commit.
        let _ = log.checkpoint();
        haste.moved_log.store(true, Ordering::Relaxed);
        Ok(())
    }))?;
    Ok(())
}

/// What SQLite does while another process writes: a few tries more, because a transaction is sooner over than a thread is woken;
/// then rests that double from 20 µs to a millisecond, until the limit. (Its own way is to rest 1 ms first and up to 100 ms later;
/// locks change hands quicker than that.) In haste, the tries and no rest.
fn wait_for_others(haste: Arc<Haste>) -> impl FnMut(i32) -> bool + Send + 'static {
    const MORE_TRIES: i32 = 20;
    let mut begun = Instant::now();
    move |tries| {
        if tries == 0 {
            begun = Instant::now();
        }
        if begun.elapsed() >= BUSY_LIMIT {
            return false;
        }
        match tries - MORE_TRIES {
            0.. if haste.is_on.load(Ordering::Relaxed) => return false,
            ..0 => thread::yield_now(),
            rests => thread::sleep(Duration::from_micros(20 << rests.min(6))),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn another_limit_does_not_have_a_statement_prepared_anew() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::new(&directory.path().join("leases.db"));
        let open =
            Open::new(&place, |connection| Ok(connection.execute_batch("CREATE TABLE t (n)")?)).unwrap();
        let prepared_anew = open.transaction(Begin::ToRead, |connection| {
            let mut statement = connection.prepare_cached("SELECT n FROM t ORDER BY n LIMIT ?1")?;
            for limit in [1, 100, 2] {
                statement.query([limit])?.next()?;
            }
            Ok(statement.get_status(StatementStatus::RePrepare))
        });
        assert_eq!(prepared_anew.unwrap(), 0);
    }

    #[test]
    fn in_haste_a_long_log_is_left_where_it_is_and_nobody_begins_it_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("leases.db");
        let open = Open::new(&Place::new(&path), |connection| {
            Ok(connection.execute_batch("CREATE TABLE t (n BLOB)")?)
        })
        .unwrap();
        let write = |bytes: i64| {
            open.transaction(Begin::ToWrite, |connection| {
                Ok(connection.execute("INSERT INTO t VALUES (zeroblob(?1))", [bytes])?)
            })
            .unwrap()
        };
        assert!(open.begin_at_once());
        write(4_200_000);
        open.end_at_once();
        let size = || std::fs::metadata(&path).unwrap().len();
        assert!(open.has_long_log() && size() < 1_000_000, "{}", size());
        assert!(!open.begin_at_once());
        open.shorten_log();
        assert!(!open.has_long_log() && size() > 4_000_000, "{}", size());
        assert!(!open.begin_at_once(), "the next commit waits for the disk");
        write(1);
        assert!(open.begin_at_once());
        write(1);
        open.end_at_once();
        // Where nobody is in haste it is moved at once.
        write(4_200_000);
        assert!(!open.has_long_log() && size() > 8_000_000, "{}", size());
    }
}
