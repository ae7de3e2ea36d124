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
        connection.execute_batch(TABLES)?;
        connection.pragma_update(None, "user_version", VERSION)?;
    }
    judge(number(connection, "application_id")?, number(connection, "user_version")?)?;
    let written: Option<String> = connection
        .query_row("SELECT value FROM meta WHERE name = 'boot'", [], |row| row.get(0))
        .optional()?;
    if written.as_deref() == Some(boot.as_str()) {
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
