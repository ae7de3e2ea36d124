//! The tables of the file, their versions, and the effect of a reboot.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use leasehold_core::{LastFence, Stamp, Ttl};
use rusqlite::{Connection, OptionalExtension as _, ToSql, params};

use crate::boot::BootId;
use crate::db_path::beside;
use crate::error::FileError;
use crate::sessions::Sessions;
use crate::table::{micros, stamp};

/// "LEAS", in the field in which SQLite keeps the id of an application.
const APPLICATION: u32 = 0x4c45_4153;

/// The version of the tables. A program refuses a file of another version and leaves it unchanged.
const VERSION: u32 = 5;

/// All `ends` are microseconds of the clock that starts at boot. `session` is the session on which
/// a lock or a place in the queue depends. `waiters` is the length of the queue, if there is one,
/// and `shares` is the number of holders that share the key; each has a row in `share`.
///
/// `at` and `ends` of a mark are microseconds since 1970, because marks survive a reboot. Its
/// `period` is in microseconds too. `broken` is the last break of each key; its times are like those
/// of marks.
const TABLES: &str = "
    CREATE TABLE record (
        key BLOB PRIMARY KEY,
        holder BLOB CHECK (length(holder) = 16), label TEXT, ends INTEGER, awaited INTEGER, session BLOB,
        fence INTEGER, fence_ends INTEGER,
        waiters INTEGER, handed BLOB CHECK (length(handed) = 16), handed_on BLOB, queue_ends INTEGER,
        marker TEXT, shares INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE waiter (
        key BLOB NOT NULL, ticket INTEGER NOT NULL, holder BLOB NOT NULL CHECK (length(holder) = 16), label TEXT,
        mode TEXT NOT NULL, ttl INTEGER NOT NULL, channel BLOB, wants_more INTEGER NOT NULL, session BLOB,
        PRIMARY KEY (key, ticket, holder)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX waiter_by_holder ON waiter (holder, key);
    CREATE TABLE struck (
        key BLOB NOT NULL, channel BLOB NOT NULL, PRIMARY KEY (key, channel)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE share (
        key BLOB NOT NULL, holder BLOB NOT NULL CHECK (length(holder) = 16), weight INTEGER NOT NULL, fence INTEGER,
        label TEXT, ends INTEGER NOT NULL, unclaimed BLOB, session BLOB,
        PRIMARY KEY (key, holder)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE mark (
        key BLOB PRIMARY KEY, at INTEGER NOT NULL, fence INTEGER NOT NULL, label TEXT, ends INTEGER NOT NULL,
        period INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX mark_by_end ON mark (ends);
    CREATE TABLE broken (
        key BLOB PRIMARY KEY, at INTEGER NOT NULL, fence INTEGER NOT NULL, held_by TEXT, broken_by TEXT, reason TEXT,
        ends INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX broken_by_end ON broken (ends);
    CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
";

/// Reads the head of a file directly: one that is not Leasehold's must stay unchanged, and SQLite
/// may write to a file that it merely opens. This opens and closes the file: only without a
/// connection of this process.
pub(crate) fn look(path: &Path) -> Result<(), FileError> {
    let mut head = Vec::with_capacity(100);
    File::open(path)
        .and_then(|file| file.take(100).read_to_end(&mut head))
        .map_err(|error| FileError::io("read", path, &error))?;
    if head.is_empty() {
        return Ok(());
    }
    // A power cut interrupted the creation of the tables; SQLite can repair that.
    if head.iter().all(|byte| *byte == 0) && beside(path, "-journal").exists() {
        return Ok(());
    }
    // <https://www.sqlite.org/fileformat.html>, section 1.3.
    let word = |at: usize| head.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
    if !head.starts_with(b"SQLite format 3\0") {
        return Err(foreign());
    }
    judge(word(68).unwrap_or(0), word(60).unwrap_or(0))
}

/// A database in memory that contains what an empty file does.
pub(crate) fn empty() -> Result<Connection, FileError> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch(TABLES)?;
    Ok(connection)
}

/// Within a transaction: creates the tables in an empty file, refuses a file that is not ours, and
/// voids the leases of another boot. Returns false if it must be called again, in another
/// transaction: others wait meanwhile, so only so many rows are changed in one.
pub(crate) fn settle(
    connection: &Connection,
    boot: &BootId,
    now: Stamp,
    sessions: &Sessions,
) -> Result<bool, FileError> {
    if is_empty(connection)? {
        connection.pragma_update(None, "application_id", APPLICATION)?;
        connection.execute_batch(TABLES)?;
        connection.pragma_update(None, "user_version", VERSION)?;
    }
    judge(number(connection, "application_id")?, number(connection, "user_version")?)?;
    let written: Option<String> = connection
        .query_row("SELECT value FROM meta WHERE name = 'boot'", [], |row| row.get(0))
        .optional()?;
    if written.as_deref() == Some(boot.as_str()) {
        return Ok(true);
    }
    if written.is_some() {
        refuse_another_boot(boot, sessions)?;
    }
    // The old clock is gone. A new term of a fence is never too short.
    let fences_end = now + LastFence::kept_for(Ttl::MIN);
    let fences_end = micros(fences_end);
    connection.execute_batch("DELETE FROM waiter; DELETE FROM struck; DELETE FROM share")?;
    let (from, to) = rows_to_void(connection, boot)?;
    let is_last = to.is_none();
    let range = "key > ?1 AND key <= coalesce(?2, (SELECT max(key) FROM record))";
    let delete = format!("DELETE FROM record WHERE {range} AND fence IS NULL");
    connection.execute(&delete, params![from, to])?;
    let void = format!(
        "UPDATE record SET holder = NULL, label = NULL, ends = NULL, awaited = NULL, session = NULL, fence_ends = ?3,
             waiters = NULL, handed = NULL, handed_on = NULL, queue_ends = NULL, marker = NULL, shares = NULL
         WHERE {range}"
    );
    connection.execute(&void, params![from, to, fences_end])?;
    let note = |name: &str, value: &dyn ToSql| {
        connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)", params![name, value])
    };
    if is_last {
        connection.execute("DELETE FROM meta WHERE name IN ('voids', 'voided_to')", [])?;
        note("boot", &boot.as_str())?;
        note("voided", &micros(now))?;
    } else {
        note("voids", &boot.as_str())?;
        note("voided_to", &to)?;
    }
    Ok(is_last)
}

/// The rows to void in this transaction: those behind the first key, up to the second if there is one.
fn rows_to_void(connection: &Connection, boot: &BootId) -> Result<(Vec<u8>, Option<Vec<u8>>), FileError> {
    /// As many as take some tens of milliseconds.
    const ROWS: i64 = 20_000;
    let last: Option<Vec<u8>> = connection
        .query_row(
            "SELECT value FROM meta WHERE name = 'voided_to' AND ?1 = (SELECT value FROM meta WHERE name = 'voids')",
            [boot.as_str()],
            |row| row.get(0),
        )
        .optional()?;
    // No key is empty, so the empty key is before the first row.
    let from = last.unwrap_or_default();
    let to = connection
        .query_row(
            "SELECT key FROM record WHERE key > ?1 ORDER BY key LIMIT 1 OFFSET ?2",
            params![from, ROWS - 1],
            |row| row.get(0),
        )
        .optional()?;
    Ok((from, to))
}

/// Refuses to void leases while a live process uses the file under another boot id: the kernel that
/// holds its session's lock was not rebooted. LXC and systemd-nspawn give each container its own
/// boot id.
fn refuse_another_boot(boot: &BootId, sessions: &Sessions) -> Result<(), FileError> {
    let other = sessions.others().find_map(|(_, record)| {
        let theirs = record.boot.filter(|theirs| theirs != boot)?;
        Some((record.pid, theirs))
    });
    other.map_or(Ok(()), |(pid, theirs)| {
        Err(FileError::lasting(format_args!(
            "process {pid} uses the file under boot id {theirs}, and here it is {boot} although the kernel is the same one: one of the \
             two is in a container that was given a boot id of its own: unmount /proc/sys/kernel/random/boot_id there, or give the \
             container a store of its own"
        )))
    })
}

/// Reads something of each table, as far as there are any, to find damage that every request would meet.
pub(crate) fn try_tables(connection: &Connection) -> Result<(), FileError> {
    if is_empty(connection)? {
        return Ok(());
    }
    judge(number(connection, "application_id")?, number(connection, "user_version")?)?;
    voided(connection)?;
    for table in ["record", "waiter", "struck", "share", "mark", "broken"] {
        for end in ["min", "max"] {
            connection.query_row(&format!("SELECT {end}(key) FROM {table}"), [], |_| Ok(()))?;
        }
    }
    Ok(())
}

/// When leases may last have been forgotten: by a new file, or after a reboot.
pub(crate) fn voided(connection: &Connection) -> Result<Option<Stamp>, FileError> {
    let voided: Option<i64> = connection
        .prepare_cached("SELECT value FROM meta WHERE name = 'voided'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    voided.map(stamp).transpose()
}

fn judge(application: u32, version: u32) -> Result<(), FileError> {
    match version {
        _ if application != APPLICATION => Err(foreign()),
        VERSION => Ok(()),
        ..VERSION => Err(FileError::lasting(format_args!(
            "the file is of format {version}, which no released program has made, and this program knows format {VERSION}: when no \
             lock is held in it, delete it together with its -wal and -shm"
        ))),
        _ => Err(FileError::lasting(format_args!(
            "the file is of format {version}, and this program knows format {VERSION}: replace this program with a newer one, or \
             use another file"
        ))),
    }
}

fn foreign() -> FileError {
    FileError::lasting("the file is not Leasehold's, and was left as it is: use another path")
}

fn is_empty(connection: &Connection) -> Result<bool, FileError> {
    let entries: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(entries == 0 && number(connection, "application_id")? == 0 && number(connection, "user_version")? == 0)
}

fn number(connection: &Connection, pragma: &str) -> Result<u32, FileError> {
    let number: i32 = connection.pragma_query_value(None, pragma, |row| row.get(0))?;
    Ok(number.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: all rows were changed in one transaction. With a million of them it took longer
    /// than a command waits, and each command left all of them to the next.
    #[test]
    fn each_transaction_after_a_reboot_voids_some_rows_and_the_next_goes_on_behind_them() {
        let directory = tempfile::tempdir().unwrap();
        let sessions = Sessions::of_file(&directory.path().join("leases.db"));
        let connection = Connection::open_in_memory().unwrap();
        let settles = |boot: &str, at: u64| {
            let changes = connection.total_changes();
            let is_settled =
                settle(&connection, &BootId::new(boot), Stamp::from_micros(at), &sessions).unwrap();
            assert!(connection.total_changes() - changes < 21_000);
            is_settled
        };
        assert!(settles("one", 1));
        let rows = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 50000)
            INSERT INTO record (key, holder, ends, awaited, fence, fence_ends)
            SELECT CAST(printf('%05d', n) AS BLOB), zeroblob(16), 9, 0, CASE WHEN n < 50000 THEN n END, 9 FROM n";
        connection.execute_batch(rows).unwrap();
        let voided = |fences_end: Stamp| {
            let count = "SELECT count(*) FROM record WHERE holder IS NULL AND fence_ends = ?1";
            connection.query_row(count, [micros(fences_end)], |row| row.get::<_, i64>(0)).unwrap()
        };
        let kept_until = |at| Stamp::from_micros(at) + LastFence::kept_for(Ttl::MIN);
        assert!(!settles("two", 2) && voided(kept_until(2)) == 20_000);
        assert!(!settles("two", 2) && voided(kept_until(2)) == 40_000);
        // The clock starts again with each boot.
        assert!(!settles("three", 1) && !settles("three", 1) && settles("three", 1));
        assert_eq!(voided(kept_until(1)), 49_999);
        assert!(settles("three", 5) && voided(kept_until(1)) == 49_999);
        let left = "SELECT count(*) FROM record, meta WHERE fence IS NULL OR name IN ('voids', 'voided_to')";
        assert_eq!(connection.query_row(left, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    }
}
