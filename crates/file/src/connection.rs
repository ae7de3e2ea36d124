//! A connection to the file, and its transactions.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
#[cfg(test)]
use rusqlite::hooks::{AuthAction, AuthContext, Authorization, TransactionOperation};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

use crate::census::{Entry, FileId, Opening};
use crate::db_path::{DbPath, DirectoryState};
use crate::error::{BUSY_LIMIT, FileError};
use crate::logs::Logs;
use crate::schema;
use crate::sessions::Sessions;
use crate::users::Users;
use crate::writer::is_set_up_now;

/// How long a call voids the leases of another boot: callers should learn soon what takes long.
const SETTLED_AT_ONCE: Duration = Duration::from_millis(500);

/// The number of pages at which the log is moved into the file: 4 MB, as with SQLite's own limit.
/// In a shorter log SQLite finds a page sooner, but it causes more waits for the disk.
const LONG_LOG: i32 = 4000;

/// The most bytes of the log that are kept; it grows while somebody reads for long.
const KEPT_LOG: i64 = 16 << 20;

/// A connection, and then its entry in the list of open files: fields are dropped in order.
#[derive(Debug)]
pub(crate) struct Open {
    connection: Connection,
    haste: Arc<PostponedWork>,
    pub(crate) users: Users,
    pub(crate) logs: Logs,
    /// True if nobody can have opened another log since, because this store's session names its own.
    is_guarded: bool,
    /// When the file and its log were last found to be there, and the directory's state then.
    checked: Option<(DirectoryState, Instant)>,
    entry: Entry,
}

/// The rule that the caller must not be made to wait, and the work that was postponed for that.
/// Atomic only because SQLite's callbacks share the fields; the connection has its own exclusion.
#[derive(Debug, Default)]
struct PostponedWork {
    is_on: AtomicBool,
    /// The log is long and was not moved, because that takes as long as the disk does.
    long_log: AtomicBool,
    /// The log was moved into the file. Then the next writer may wait for the disk once more.
    moved_log: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// It reads, and blocks nobody.
    ToRead,
    /// It writes, exclusive from its beginning, so that it never fails at its end.
    ToWrite,
    /// It writes data that must survive a power cut: it ends when they are on disk.
    Durably,
}

/// How long a transaction may make its caller wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As long as the disk and [`BUSY_LIMIT`] require.
    Waits,
    /// Not at all: it runs on a thread that others need.
    AtOnce,
}

/// A transaction that is rolled back unless it is committed.
#[derive(Debug)]
pub(crate) struct Transaction<'a> {
    open: &'a Open,
    is_durable: bool,
}

impl Transaction<'_> {
    pub(crate) fn commit(self) -> Result<(), FileError> {
        Ok(run(&self.open.connection, "COMMIT")?)
    }
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.open.connection
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        let connection = &self.open.connection;
        // SQLite rolls back automatically after some errors.
        if !connection.is_autocommit() {
            let _ = run(connection, "ROLLBACK");
        }
        self.open.haste.is_on.store(false, Ordering::Relaxed);
        if self.is_durable {
            let _ = connection.pragma_update(None, "synchronous", "normal");
        }
    }
}

impl Open {
    /// Opens the file at a place that was created and checked before. `settle` checks the content
    /// in first transactions, until it returns true.
    pub(crate) fn new(
        db_path: &DbPath,
        sessions: &Sessions,
        mut settle: impl FnMut(&Connection) -> Result<bool, FileError>,
    ) -> Result<Self, FileError> {
        let mut opening = Opening::begin();
        let (file, users) = db_path.prepare()?;
        if opening.inherited(file) {
            return Err(FileError::lasting(
                "this process was forked from one that has the file open, whose locks SQLite believes to have here: make the first \
                 store after the fork, or call exec",
            ));
        }
        let is_first_here = !opening.has_open(file);
        if is_first_here {
            schema::look(db_path.path())?;
        }
        let found = Logs::beside(db_path);
        if found.is_none() {
            refuse_another_log(db_path, sessions)?;
            if is_first_here {
                refuse_users_without_a_log(db_path)?;
            }
        }
        if is_first_here {
            wait_for_the_index(db_path)?;
        }
        // Without CREATE, so that no file is created with an unchecked mode and owner; without URIs.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(db_path.path(), flags)?;
        let haste = Arc::new(PostponedWork::default());
        connection.busy_handler(Some(wait_for_others(Arc::clone(&haste))))?;
        connection.set_prepared_statement_cache_capacity(32);
        // Otherwise a statement with a bound LIMIT would be prepared again at every use.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        // Another user of the file could have created some of these that our connection would run.
        for foreign in [
            DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA,
            DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER,
            DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW,
        ] {
            connection.set_db_config(foreign, false)?;
        }
        if users != Users::One {
            // The next log would belong to whoever opens the file then, who could replace it.
            keep_the_log(&connection)?;
        }
        // For an empty file. A commit writes whole pages, and a lease is far smaller than one:
        // smaller pages save a fifth of the processor time for acquiring and releasing a lock.
        connection.pragma_update(None, "page_size", 1024)?;
        let begun = Instant::now();
        let mut is_settled = false;
        while !is_settled {
            if begun.elapsed() >= SETTLED_AT_ONCE {
                return Err(FileError::unsettled());
            }
            let opened = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            is_settled = settle(&opened)?;
            opened.commit()?;
        }
        write_ahead(&mut connection, &haste)?;
        // SQLite opens the log at its first read.
        connection.pragma_query_value(None, "user_version", |_| Ok(()))?;
        let logs = match Logs::open_at(db_path) {
            Err(error) => Err(FileError::io("read", Path::new("/proc/self/fd"), &error)),
            Ok(Some(logs)) if found.is_none_or(|found| found == logs) => Ok(logs),
            Ok(logs) => refuse_another_log(db_path, sessions)
                .and(logs.ok_or_else(|| FileError::not_serving(
                    "the log of the file was deleted while this process had it open: if it stays so, end this process",
                ))),
        };
        if logs.is_err() {
            keep_the_log(&connection)?;
        }
        Ok(Self {
            connection,
            haste,
            users,
            logs: logs?,
            is_guarded: false,
            checked: None,
            entry: opening.enter(file),
        })
    }

    /// True if the file at the place is still the open one, and others find the session of this
    /// store, if it has one. Then nobody opens another log before this one is closed. While the
    /// directory is in the state of the last check, nothing in it was moved; whoever opens a file
    /// or log that is mounted there refuses it.
    pub(crate) fn is_current(&mut self, db_path: &DbPath, sessions: &Sessions) -> bool {
        const VALID: Duration = Duration::from_secs(1);
        let now = Instant::now();
        let has_session = sessions.own().is_some();
        // Without a session, others may open a log that is mounted here meanwhile.
        let directory = if has_session { db_path.directory_now() } else { None };
        if self.checked.is_some_and(|(state, at)| directory == Some(state) && now - at < VALID) {
            return true;
        }
        let is_current = db_path.file_now() == Some(self.file())
            && Logs::beside(db_path) == Some(self.logs)
            && !sessions.is_lost();
        self.is_guarded |= is_current && has_session;
        let settled = directory.filter(|state| is_current && state.is_settled());
        self.checked = settled.map(|state| (state, now));
        is_current
    }

    /// Closes the file. The last connection moves the log into the file and removes it, but not one
    /// that a live session names, whose process may be dead while another one has its lifeline:
    /// everybody would wait for it. Nor if this store's session is lost, because others may use
    /// another log.
    pub(crate) fn close(self, sessions: &Sessions) {
        if sessions.is_lost() || sessions.others().any(|(_, record)| record.logs == Some(self.logs)) {
            let _ = keep_the_log(&self.connection);
        }
    }

    /// Closes a file that is no longer at its path, and leaves the file there alone. Data that is only
    /// in a removed log is moved into the file, unless somebody can have opened another log of it.
    pub(crate) fn abandon(self, db_path: &DbPath, sessions: &Sessions) {
        if self.is_guarded && !sessions.is_lost() && db_path.file_now() == Some(self.file()) {
            self.shorten_log();
        }
        let _ = keep_the_log(&self.connection);
    }

    pub(crate) fn file(&self) -> FileId {
        self.entry.file()
    }

    /// Begins a transaction. `None` if it, or anything until its end, would have to wait and must not.
    pub(crate) fn begin(
        &self,
        begin: Begin,
        patience: Patience,
    ) -> Result<Option<Transaction<'_>>, FileError> {
        let is_at_once = patience == Patience::AtOnce;
        let is_on_disk_soon = [&self.haste.long_log, &self.haste.moved_log];
        if is_at_once && is_on_disk_soon.iter().any(|it| it.load(Ordering::Relaxed)) {
            return Ok(None);
        }
        if begin != Begin::ToRead {
            self.haste.moved_log.store(false, Ordering::Relaxed);
        }
        if begin == Begin::Durably {
            // This waits until the whole log is on disk.
            self.connection.pragma_update(None, "synchronous", "full")?;
        }
        self.haste.is_on.store(is_at_once, Ordering::Relaxed);
        let transaction = Transaction { open: self, is_durable: begin == Begin::Durably };
        let statement = if begin == Begin::ToRead { "BEGIN" } else { "BEGIN IMMEDIATE" };
        match run(&self.connection, statement) {
            Ok(()) => Ok(Some(transaction)),
            Err(_) if is_at_once => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn has_long_log(&self) -> bool {
        self.haste.long_log.load(Ordering::Relaxed)
    }

    /// Moves the log into the file, as far as nobody reads it. The next commit finds the rest.
    pub(crate) fn shorten_log(&self) {
        self.haste.long_log.store(false, Ordering::Relaxed);
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        self.haste.moved_log.store(true, Ordering::Relaxed);
    }

    /// Calls `see` with each setting that is changed, and with `None` at the end of each transaction.
    #[cfg(test)]
    pub(crate) fn watch_settings(&mut self, mut see: impl FnMut(Option<String>) + Send + 'static) {
        let see = move |context: AuthContext<'_>| {
            match context.action {
                AuthAction::Pragma { pragma_name, pragma_value: Some(value) } => {
                    see(Some(format!("{pragma_name} {value}")));
                }
                AuthAction::Transaction { operation: TransactionOperation::Unknown } => see(None),
                _ => {}
            }
            Authorization::Allow
        };
        self.connection.authorizer(Some(see)).unwrap();
    }

    #[cfg(test)]
    pub(crate) fn pragma(&self, name: &str, value: i64) {
        self.connection.execute_batch(&format!("PRAGMA {name} = {value}")).unwrap();
    }
}

/// Refuses to open a file of which live processes use another log. They are told to check.
fn refuse_another_log(db_path: &DbPath, sessions: &Sessions) -> Result<(), FileError> {
    let other = |logs: Logs| Logs::beside(db_path) != Some(logs);
    let others: Vec<_> = sessions.others().filter(|(_, record)| record.logs.is_some_and(other)).collect();
    others.iter().for_each(|(session, _)| sessions.wake(*session));
    others.first().map_or(Ok(()), |(_, record)| {
        Err(FileError::not_serving(format_args!(
            "process {} writes to a log of this file that was deleted or replaced: nothing is granted until it has noticed, which \
             is at its next request; if it stays so, end it",
            record.pid
        )))
    })
}

/// Refuses to open a file without a log while another process has it open: SQLite keeps a file
/// locked then, and that process writes to a log that was deleted, as was its session. One that is
/// just opening or closing the file is waited for. This opens and closes the file: only without a
/// connection of this process.
fn refuse_users_without_a_log(db_path: &DbPath) -> Result<(), FileError> {
    let failed = |error: io::Error| FileError::io("lock", db_path.path(), &error);
    let file = File::options().read(true).write(true).open(db_path.path()).map_err(failed)?;
    let mut wait = wait_for_others(Arc::default());
    let mut tries = 0;
    while Logs::beside(db_path).is_none() {
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::AGAIN | Errno::ACCESS) if wait(tries) => tries += 1,
            // A user with a log only reads here; a process that creates the tables writes.
            Err(Errno::AGAIN | Errno::ACCESS)
                if fcntl_lock(&file, FlockOperation::NonBlockingLockShared).is_err() =>
            {
                return Err(FileError::busy());
            }
            Err(Errno::AGAIN | Errno::ACCESS) => {
                return Err(FileError::not_serving(format_args!(
                    "another process writes to a log of this file that was deleted: nothing is granted until it has noticed, which \
                     is at its next request; if it stays so, end it (`fuser {}` finds it)",
                    db_path.path().display()
                )));
            }
            Err(error) => return Err(failed(error.into())),
        }
    }
    Ok(())
}

/// Waits while another process sets up the index of the log. SQLite would wait for ten seconds, and
/// not say for whom. This opens and closes the index: only without a connection of this process.
fn wait_for_the_index(db_path: &DbPath) -> Result<(), FileError> {
    let [_, index] = db_path.log();
    let mut wait = wait_for_others(Arc::default());
    let mut tries = 0;
    while is_set_up_now(index) {
        if !wait(tries) {
            return Err(FileError::busy());
        }
        tries += 1;
    }
    Ok(())
}

/// Makes closing the connection neither move the log into the file nor remove it.
fn keep_the_log(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(drop)
}

fn run(connection: &Connection, sql: &str) -> Result<(), rusqlite::Error> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

/// Uses a write-ahead log, so that a commit does not wait for the disk. A power cut may lose
/// commits, but then the leases are void; the file stays intact.
/// <https://www.sqlite.org/pragma.html#pragma_synchronous>
fn write_ahead(connection: &mut Connection, haste: &Arc<PostponedWork>) -> Result<(), FileError> {
    let mut wait = wait_for_others(Arc::default());
    let mut tries = 0;
    loop {
        // If two connections changed the mode, they would wait for each other, so this returns "busy".
        match connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0)) {
            Ok(mode) if mode == "wal" => break,
            Ok(mode) => {
                return Err(FileError::lasting(format_args!(
                    "the file system allows no log next to the file (journal mode {mode}): use another place"
                )));
            }
            Err(error) => {
                let error = FileError::from(error);
                if error.reopen || !wait(tries) {
                    return Err(error);
                }
                tries += 1;
            }
        }
    }
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "journal_size_limit", KEPT_LOG)?;
    let haste = Arc::clone(haste);
    connection.wal_hook(Some(move |log: &mut Wal, pages| {
        if pages < LONG_LOG {
            return Ok(());
        }
        if haste.is_on.load(Ordering::Relaxed) {
            haste.long_log.store(true, Ordering::Relaxed);
            return Ok(());
        }
        // The next commit finds what somebody is reading or moving now.
        let _ = log.checkpoint();
        haste.moved_log.store(true, Ordering::Relaxed);
        Ok(())
    }))?;
    Ok(())
}

/// Waits while another process writes: first a few more tries, because a transaction ends sooner than
/// a thread wakes; then pauses that double from 20 µs to a millisecond, where SQLite would pause for
/// up to 100 ms. After a longer wait, each pause is a part of it: thousands of processes that wait must
/// leave the processors to the one that writes. If the caller must not wait, only the tries, and none
/// after a tenth of a millisecond.
fn wait_for_others(haste: Arc<PostponedWork>) -> impl FnMut(i32) -> bool + Send + 'static {
    const MORE_TRIES: i32 = 20;
    const TRIED_LONG: Duration = Duration::from_micros(100);
    const PART: u32 = 16;
    let mut begun = Instant::now();
    move |tries| {
        if tries == 0 {
            begun = Instant::now();
        }
        let waited = begun.elapsed();
        if waited >= BUSY_LIMIT {
            return false;
        }
        let is_hasty = haste.is_on.load(Ordering::Relaxed);
        match tries - MORE_TRIES {
            _ if is_hasty && (tries >= MORE_TRIES || waited >= TRIED_LONG) => return false,
            ..0 => thread::yield_now(),
            rests => thread::sleep(Duration::from_micros(20 << rests.min(6)).max(waited / PART)),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    fn a_table(path: &Path) -> Open {
        let settle =
            |connection: &Connection| Ok(connection.execute_batch("CREATE TABLE t (n)").map(|()| true)?);
        Open::new(&DbPath::new(path), &Sessions::of_file(path), settle).unwrap()
    }

    /// Regression: after a reboot, the first commands on a file of a million keys ended with "no answer",
    /// and that one should see that the file runs.
    #[test]
    fn a_caller_learns_what_takes_long_after_a_reboot() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("leases.db");
        let error = Open::new(&DbPath::new(&path), &Sessions::of_file(&path), |_| Ok(false)).unwrap_err();
        let fault = error.of("file:/x");
        assert!(!fault.is_lasting() && fault.reason.contains("before the restart"), "{fault}");
    }

    #[test]
    fn another_limit_does_not_prepare_the_statement_again() {
        let directory = tempfile::tempdir().unwrap();
        let open = a_table(&directory.path().join("leases.db"));
        let transaction = open.begin(Begin::ToRead, Patience::Waits).unwrap().unwrap();
        let mut statement = transaction.prepare_cached("SELECT n FROM t ORDER BY n LIMIT ?1").unwrap();
        for limit in [1, 100, 2] {
            statement.query([limit]).unwrap().next().unwrap();
        }
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
    }

    #[test]
    fn a_hurried_close_leaves_a_long_log_and_nobody_restarts_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("leases.db");
        let open = a_table(&path);
        let write = |bytes: i64, patience| {
            let Some(transaction) = open.begin(Begin::ToWrite, patience).unwrap() else { return false };
            transaction.execute("INSERT INTO t VALUES (zeroblob(?1))", [bytes]).unwrap();
            transaction.commit().unwrap();
            true
        };
        assert!(write(4_200_000, Patience::AtOnce));
        let size = || std::fs::metadata(&path).unwrap().len();
        assert!(open.has_long_log() && size() < 1_000_000, "{}", size());
        assert!(!write(1, Patience::AtOnce));
        open.shorten_log();
        assert!(!open.has_long_log() && size() > 4_000_000, "{}", size());
        assert!(!write(1, Patience::AtOnce), "the next commit waits for the disk");
        write(1, Patience::Waits);
        assert!(write(1, Patience::AtOnce));
        // If the caller may wait, it is moved at once.
        write(4_200_000, Patience::Waits);
        assert!(!open.has_long_log() && size() > 8_000_000, "{}", size());
    }

    /// Regression: it kept its greatest length until the last process closed the file.
    #[test]
    fn a_log_that_grew_while_somebody_read_becomes_short_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("leases.db");
        let open = a_table(&path);
        let reader = Connection::open(&path).unwrap();
        reader.execute_batch("BEGIN; SELECT n FROM t").unwrap();
        let write = |bytes: i64| {
            let transaction = open.begin(Begin::ToWrite, Patience::Waits).unwrap().unwrap();
            transaction.execute("INSERT INTO t VALUES (zeroblob(?1))", [bytes]).unwrap();
            transaction.commit().unwrap();
        };
        (0..3).for_each(|_| write(8_000_000));
        let size = || std::fs::metadata(directory.path().join("leases.db-wal")).unwrap().len();
        assert!(size() > 24_000_000, "{}", size());
        reader.execute_batch("COMMIT").unwrap();
        // The first one moves it into the file, and the second one begins it anew.
        (0..2).for_each(|_| write(1));
        assert!(size() <= 16 << 20, "{}", size());
    }

    #[test]
    fn a_hurried_caller_tries_again_at_once_and_not_for_long() {
        let haste = Arc::new(PostponedWork { is_on: AtomicBool::new(true), ..PostponedWork::default() });
        let mut wait = wait_for_others(Arc::clone(&haste));
        // Only a machine that is out of breath interrupts all of them.
        assert!((0..100).any(|_| wait(0)));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(100) {}
        assert!(!wait(1));
        haste.is_on.store(false, Ordering::Relaxed);
        assert!(wait(1) && wait(20));
    }

    /// Regression: it tried every millisecond however long it had waited. Of 1,500 processes that began to
    /// wait at once, the tries left so little to those that wrote that a hundred ended with 69.
    #[test]
    fn the_longer_a_caller_has_waited_the_less_often_it_tries() {
        let mut wait = wait_for_others(Arc::default());
        let begun = Instant::now();
        let tries = (0..).take_while(|tries| wait(*tries)).count();
        assert!(begun.elapsed() >= BUSY_LIMIT && tries < 150, "{tries}");
    }

    #[test]
    fn a_log_or_a_file_that_is_moved_is_missed_though_the_directory_was_looked_at() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("leases.db");
        let db_path = DbPath::new(&path);
        let [sessions, nobody] = [(); 2].map(|()| Sessions::of_file(&path));
        sessions.enter(1).unwrap();
        let mut open = a_table(&path);
        for name in ["leases.db-wal", "leases.db-shm", "leases.db"] {
            let (there, away) = (directory.path().join(name), directory.path().join("away"));
            let begun = Instant::now();
            while open.checked.is_none() {
                assert!(open.is_current(&db_path, &sessions) && begun.elapsed() < Duration::from_secs(10));
            }
            assert!(open.is_current(&db_path, &sessions));
            std::fs::rename(&there, &away).unwrap();
            assert!(!open.is_current(&db_path, &sessions), "{name}");
            std::fs::copy(&away, &there).unwrap();
            assert!(!open.is_current(&db_path, &sessions), "{name} is another file now");
            std::fs::rename(&away, &there).unwrap();
        }
        while open.checked.is_none() {
            assert!(open.is_current(&db_path, &sessions));
        }
        assert!(open.is_current(&db_path, &nobody) && open.checked.is_none());
        while open.checked.is_none() {
            assert!(open.is_current(&db_path, &sessions));
        }
        // As if another log were mounted there, which does not change the directory.
        open.logs = Logs::read("1:2 3:4").unwrap();
        assert!(open.is_current(&db_path, &sessions));
        open.checked = open.checked.map(|(state, at)| (state, at - Duration::from_secs(1)));
        assert!(!open.is_current(&db_path, &sessions));
    }

    #[test]
    fn an_uncommitted_transaction_is_rolled_back() {
        let directory = tempfile::tempdir().unwrap();
        let open = a_table(&directory.path().join("leases.db"));
        for is_committed in [false, true] {
            let transaction = open.begin(Begin::Durably, Patience::Waits).unwrap().unwrap();
            transaction.execute("INSERT INTO t VALUES (1)", []).unwrap();
            if is_committed {
                transaction.commit().unwrap();
            }
        }
        let transaction = open.begin(Begin::ToRead, Patience::Waits).unwrap().unwrap();
        let written: i64 = transaction.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(written, 1);
    }
}
