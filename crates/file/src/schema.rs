//! The tables of the file, their versions, and the effect of a reboot.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use leasehold_core::{LastFence, Stamp, Ttl};
use rusqlite::{Connection, OptionalExtension as _};

use crate::boot::BootId;
use crate::db_path::beside;
use crate::error::FileError;
use crate::sessions::Sessions;
use crate::table::{micros, stamp};

/// "LEAS", in the field in which SQLite keeps the id of an application.
const APPLICATION: u32 = 0x4c45_4153;

/// The version of the tables. A program refuses a file of a later version and leaves it unchanged.
const VERSION: u32 = 5;

/// The version of a file without tables.
const EMPTY: u32 = 0;

/// The version before queues, whose locks and fences are kept.
const WITHOUT_QUEUES: u32 = 1;

/// The version before shares. A program that has such a file open knows the table by its old name:
/// it must fail there, because it would consider a shared key free.
const WITHOUT_SHARES: u32 = 2;

/// The version before break records, whose marks have no period.
const WITHOUT_BREAKS: u32 = 3;

/// The version in which some columns had other names.
const OTHER_NAMES: u32 = 4;

/// All `ends` are microseconds of the clock that starts at boot. `session` is the session on which
/// a lock or a place in the queue depends. `waiters` is the length of the queue, if there is one,
/// and `shares` is the number of holders that share the key.
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
    CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
";

/// `at` and `ends` of a mark are microseconds since 1970, because marks survive a reboot. Its
/// `period` is in microseconds too.
const MARKS: &str = "
    CREATE TABLE mark (
        key BLOB PRIMARY KEY, at INTEGER NOT NULL, fence INTEGER NOT NULL, label TEXT, ends INTEGER NOT NULL,
        period INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX mark_by_end ON mark (ends);
";

/// The last break of each key; its times are like those of marks.
const BREAKS: &str = "
    CREATE TABLE broken (
        key BLOB PRIMARY KEY, at INTEGER NOT NULL, fence INTEGER NOT NULL, held_by TEXT, broken_by TEXT, reason TEXT,
        ends INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX broken_by_end ON broken (ends);
";

const ADD_PERIODS: &str = "ALTER TABLE mark ADD COLUMN period INTEGER;";

/// The holders that share a key.
const SHARES: &str = "
    CREATE TABLE share (
        key BLOB NOT NULL, holder BLOB NOT NULL CHECK (length(holder) = 16), weight INTEGER NOT NULL, fence INTEGER,
        label TEXT, ends INTEGER NOT NULL, unclaimed BLOB, session BLOB,
        PRIMARY KEY (key, holder)
    ) STRICT, WITHOUT ROWID;
";

const TAKE_OVER: &str = "
    INSERT INTO record (key, holder, label, ends, awaited, fence, fence_ends)
        SELECT key, lock.holder, lock.label, lock.ends, iif(lock.holder IS NULL, NULL, 0), fence.fence, fence.ends
        FROM fence LEFT JOIN lock USING (key);
    DROP TABLE lock;
    DROP TABLE fence;
    DELETE FROM meta WHERE name = 'hand';
";

const RENAME: &str = "
    ALTER TABLE record RENAME COLUMN life TO session;
    ALTER TABLE record RENAME COLUMN line_ends TO queue_ends;
    ALTER TABLE waiter RENAME COLUMN life TO session;
";

const RENAME_IN_SHARES: &str = "ALTER TABLE share RENAME COLUMN life TO session;";

const MAKE_ROOM_FOR_SHARES: &str = "
    ALTER TABLE entry RENAME TO record;
    ALTER TABLE record ADD COLUMN marker TEXT;
    ALTER TABLE record ADD COLUMN shares INTEGER;
";

/// Reads the head of a file directly, because SQLite may write to a file that it merely opens: it
/// rolls back unfinished writes. A file that is not Leasehold's must stay unchanged.
///
/// It opens and closes the file: do not call it while a connection of this process has it open.
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

/// Within a transaction: creates the tables in an empty file, refuses a file that is not ours, and
/// voids the leases of another boot.
pub(crate) fn settle(
    connection: &Connection,
    boot: &BootId,
    now: Stamp,
    sessions: &Sessions,
) -> Result<(), FileError> {
    if is_empty(connection)? {
        connection.pragma_update(None, "application_id", APPLICATION)?;
        create(connection, EMPTY)?;
    }
    let version = number(connection, "user_version")?;
    judge(number(connection, "application_id")?, version)?;
    create(connection, version)?;
    let written: Option<String> = connection
        .query_row("SELECT value FROM meta WHERE name = 'boot'", [], |row| row.get(0))
        .optional()?;
    if written.as_deref() == Some(boot.as_str()) {
        // A program that did not record this may have recreated the file.
        connection
            .execute("INSERT OR IGNORE INTO meta (name, value) VALUES ('voided', ?1)", [micros(now)])?;
        return Ok(());
    }
    if written.is_some() {
        refuse_another_boot(boot, sessions)?;
    }
    // The old clock is gone, so the remaining time of a fence is unknown; a new term is never too
    // short.
    let fences_end = now + LastFence::kept_for(Ttl::MIN);
    connection.execute_batch(
        "DELETE FROM waiter; DELETE FROM struck; DELETE FROM share; DELETE FROM record WHERE fence IS NULL",
    )?;
    connection.execute(
        "UPDATE record SET holder = NULL, label = NULL, ends = NULL, awaited = NULL, session = NULL, fence_ends = ?1,
             waiters = NULL, handed = NULL, handed_on = NULL, queue_ends = NULL, marker = NULL, shares = NULL",
        [micros(fences_end)],
    )?;
    connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('boot', ?1)", [boot.as_str()])?;
    connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('voided', ?1)", [micros(now)])?;
    Ok(())
}

/// Creates the tables that a file of this version lacks.
fn create(connection: &Connection, version: u32) -> Result<(), FileError> {
    let lacking: &[&str] = match version {
        EMPTY => &[TABLES, SHARES, MARKS, BREAKS],
        WITHOUT_QUEUES => &[TABLES, SHARES, TAKE_OVER, MARKS, BREAKS],
        WITHOUT_SHARES => &[MAKE_ROOM_FOR_SHARES, RENAME, SHARES, MARKS, BREAKS],
        WITHOUT_BREAKS => &[RENAME, RENAME_IN_SHARES, ADD_PERIODS, BREAKS],
        OTHER_NAMES => &[RENAME, RENAME_IN_SHARES],
        _ => return Ok(()),
    };
    lacking.iter().try_for_each(|tables| connection.execute_batch(tables))?;
    connection.pragma_update(None, "user_version", VERSION)?;
    Ok(())
}

/// Refuses to void leases while a live process uses the file under another boot id: the kernel that
/// holds its session's lock is this one, and was not rebooted in between. LXC and systemd-nspawn
/// give each container its own boot id.
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

/// When leases may last have been forgotten: the file was created, or leases of another boot were
/// voided.
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
        WITHOUT_QUEUES..=VERSION => Ok(()),
        _ => Err(FileError::lasting(format_args!(
            "the file is of format {version}, and this program knows format {VERSION}: update the program, or use another file"
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
