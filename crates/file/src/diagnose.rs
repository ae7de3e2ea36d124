//! Diagnosis: searches the file and its surroundings for dangers to its locks. Creates nothing.

use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Diagnosis, Finding, Severity};
use nix::unistd::{Gid, Group};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::boot::BootId;
use crate::census::Opening;
use crate::db_path::{DbPath, beside};
use crate::error::FileError;
use crate::logs::Logs;
use crate::schema;
use crate::sessions::Sessions;
use crate::users::Users;

/// SQLite writes some pages at a time, and a log next to the file.
const LEAST_FREE: u64 = 16 << 20;

pub(crate) fn diagnose(path: &Path, name: &Arc<str>) -> Diagnosis {
    let mut brought = Diagnosis::default();
    let findings = &mut brought.findings;
    let db_path = DbPath::new(path);
    match look(&db_path) {
        Err(error) => {
            let reason = error.of(name).reason;
            let finding = Finding::new(Severity::Unsafe, "file", name, reason, "no lock is granted here");
            findings.push(match written_by_others(path) {
                Some((path, mode)) => finding.in_shell(format_args!("chmod {mode:o} {}", quoted(path))),
                // The reason says what to do.
                None => finding,
            });
        }
        Ok(Some(Users::One)) => findings.push(Finding::note(
            "file",
            name,
            "it lies on a disk of this machine, and only its user can write it",
        )),
        Ok(Some(Users::Group { group, .. })) => findings.push(Finding::note(
            "file",
            name,
            format!(
                "it lies on a disk of this machine, and is shared by the users of group {}, each of whom can break any lock in it",
                group_name(group)
            ),
        )),
        Ok(None) => {
            findings.push(Finding::note("file", name, "it is not there yet: the first lock makes it"));
        }
    }
    findings.extend(read_by_others(path, name));
    findings.extend(full(path, name));
    if path.exists() {
        findings.push(leftovers(path, name));
    }
    brought
}

/// The users of the file, if there is one; or why it cannot be used.
fn look(db_path: &DbPath) -> Result<Option<Users>, FileError> {
    let users = db_path.look()?;
    BootId::current()?;
    // One that this process has open is Leasehold's, and a process forked from it cannot use the file.
    if let (Some(file), Some(opening)) = (db_path.file_now(), Opening::begin_at_once())
        && !opening.has_open(file)
        && !opening.inherited(file)
    {
        schema::look(db_path.path())?;
        // A file system that became read-only after an error tells only those who open a file.
        File::options()
            .write(true)
            .open(db_path.path())
            .map_err(|error| FileError::io("write to", db_path.path(), &error))?;
        // That the file is busy now is not a finding.
        look_inside(db_path).or_else(|error| if error.is_shortage() { Ok(()) } else { Err(error) })?;
    }
    Ok(users)
}

/// Reads the tables, without creating a log. Only without a connection of this process.
fn look_inside(db_path: &DbPath) -> Result<(), FileError> {
    // SQLite would finish the creation of the tables that a power cut interrupted.
    if beside(db_path.path(), "-journal").exists() {
        return Ok(());
    }
    let escaped = |byte: &u8| match byte {
        b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(*byte).to_string(),
        other => format!("%{other:02X}"),
    };
    let path: String = db_path.path().as_os_str().as_bytes().iter().map(escaped).collect();
    // A file without a log has no user, and would get a log by being read in another way.
    let (log, as_it_stands) = match Logs::beside(db_path) {
        None => (None, "?immutable=1"),
        log => (log, ""),
    };
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(format!("file:{path}{as_it_stands}"), flags)?;
    connection.busy_timeout(Duration::ZERO)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let read = schema::try_tables(&connection);
    if Logs::beside(db_path) == log { read } else { Ok(()) }
}

/// The file or its directory, if others can write it, and the mode that prevents it.
fn written_by_others(path: &Path) -> Option<(&Path, u32)> {
    let directory = path.parent()?;
    let users = Users::of(&directory.metadata().ok()?);
    let is_open = |path: &Path| {
        let found = path.symlink_metadata().ok()?;
        (!found.is_symlink() && users.own(&found) && found.mode() & users.forbidden() != 0).then_some(found)
    };
    match is_open(directory) {
        // One in which each user may create files must stay so.
        Some(found) if users == Users::One && found.mode() & 0o1000 != 0 => None,
        Some(_) => Some((directory, users.directory_mode())),
        None => is_open(path).map(|_| (path, users.file_mode())),
    }
}

fn group_name(group: u32) -> String {
    let entry = Group::from_gid(Gid::from_raw(group)).ok().flatten();
    entry.map_or_else(|| group.to_string(), |entry| entry.name)
}

fn read_by_others(path: &Path, name: &Arc<str>) -> Option<Finding> {
    let mode = path.metadata().ok()?.mode() & 0o7777;
    let directory = path.parent().and_then(|directory| directory.metadata().ok());
    let users = directory.as_ref().map_or(Users::One, Users::of);
    let is_shared = users != Users::One;
    if mode & if is_shared { 0o004 } else { 0o044 } == 0 {
        return None;
    }
    let closed = directory.is_some_and(|found| found.mode() & if is_shared { 0o001 } else { 0o011 } == 0);
    let what = format!("others can read the file (mode {mode:04o})");
    let why = "who reads it knows the ids of the holders, and all labels";
    (!closed).then(|| {
        Finding::new(Severity::Warning, "file", name, what, why).in_shell(format_args!(
            "chmod {:o} {}",
            users.file_mode(),
            quoted(path)
        ))
    })
}

fn full(path: &Path, name: &Arc<str>) -> Option<Finding> {
    let there = path.ancestors().skip(1).find(|above| above.exists())?;
    let system = rustix::fs::statvfs(there).ok()?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let what = format!("its disk has {free} bytes left");
    let why = "on a full disk no lock can be taken, renewed or released";
    let finding = Finding::new(Severity::Warning, "disk", name, what, why);
    (free < LEAST_FREE).then(|| finding.advice("free some space there"))
}

/// Files that dead processes have left next to the database.
fn leftovers(path: &Path, name: &Arc<str>) -> Finding {
    let dead = Sessions::of_file(path).count_dead();
    let what = match dead {
        0 => "no process that died has left anything".to_owned(),
        _ => format!(
            "{dead} stores of processes that died are still listed: their locks are free, and later users clear them away"
        ),
    };
    Finding::note("processes", name, what)
}

/// A path in the syntax of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}
