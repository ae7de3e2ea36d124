//! The baseline: a row that is written and removed, without anything else of a lock.

use leasehold_core::{Holder, Key, Stamp};
use rusqlite::{Connection, params};

use super::micros;
use crate::error::FileError;

/// Writes the row of a key that has none; returns true if it did. If nobody removes it, it expires
/// like a lock without a session.
pub(crate) fn acquire(
    connection: &Connection,
    key: &Key,
    holder: Holder,
    ends: Stamp,
) -> Result<bool, FileError> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO record (key, holder, ends, awaited) VALUES (?1, ?2, ?3, 0) ON CONFLICT DO NOTHING",
    )?;
    Ok(insert.execute(params![key.as_bytes(), bytes(holder), micros(ends)])? == 1)
}

/// Removes it; returns true if it was there.
pub(crate) fn release(connection: &Connection, key: &Key, holder: Holder) -> Result<bool, FileError> {
    let mut delete = connection.prepare_cached("DELETE FROM record WHERE key = ?1 AND holder = ?2")?;
    Ok(delete.execute(params![key.as_bytes(), bytes(holder)])? == 1)
}

fn bytes(holder: Holder) -> [u8; 16] {
    holder.bits().to_be_bytes()
}
