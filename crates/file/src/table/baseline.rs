//! The baseline: a row that is written and removed, without anything else of a lock.

use leasehold_core::{Holder, Key, Stamp};
use rusqlite::{Connection, params};

use super::{bytes_of, execute, micros};
use crate::error::FileError;

/// Writes the row of a key that has none, like a lock without a session; returns true if it did.
pub(crate) fn acquire(
    connection: &Connection,
    key: &Key,
    holder: Holder,
    ends: Stamp,
) -> Result<bool, FileError> {
    let insert =
        "INSERT INTO record (key, holder, ends, awaited) VALUES (?1, ?2, ?3, 0) ON CONFLICT DO NOTHING";
    Ok(execute(connection, insert, params![key.as_bytes(), bytes_of(holder), micros(ends)])? == 1)
}

/// Removes it; returns true if it was there.
pub(crate) fn release(connection: &Connection, key: &Key, holder: Holder) -> Result<bool, FileError> {
    let delete = "DELETE FROM record WHERE key = ?1 AND holder = ?2";
    Ok(execute(connection, delete, params![key.as_bytes(), bytes_of(holder)])? == 1)
}
