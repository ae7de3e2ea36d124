//! A row that is taken and let go, with nothing of what a lock is besides.

use leasehold_core::{Holder, Key, Stamp};
use rusqlite::{Connection, params};

use super::micros;
use crate::trouble::Trouble;

/// Writes the row of a key that has none; says whether it did. If nobody removes it, it ends as a lock does that hangs on no life.
pub(crate) fn take(connection: &Connection, key: &Key, holder: Holder, ends: Stamp) -> Result<bool, Trouble> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO record (key, holder, ends, awaited) VALUES (?1, ?2, ?3, 0) ON CONFLICT DO NOTHING",
    )?;
    Ok(insert.execute(params![key.as_bytes(), bytes(holder), micros(ends)])? == 1)
}

/// Removes it; says whether it was there.
pub(crate) fn let_go(connection: &Connection, key: &Key, holder: Holder) -> Result<bool, Trouble> {
    let mut delete = connection.prepare_cached("DELETE FROM record WHERE key = ?1 AND holder = ?2")?;
    Ok(delete.execute(params![key.as_bytes(), bytes(holder)])? == 1)
}

fn bytes(holder: Holder) -> [u8; 16] {
    holder.bits().to_be_bytes()
}
