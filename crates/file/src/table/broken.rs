//! The records of broken leases.

use leasehold_core::{BreakNote, BreakRecord, Key, Label, Records, Stamp};
use rusqlite::{Connection, Row, params};

use super::{execute, fence_of, key, label, micros, stamp, with_prefix};
use crate::error::FileError;

/// The columns of a row as [`read`] expects them, before the rest of a statement.
macro_rules! select_break {
    ($rest:literal) => {
        concat!("SELECT key, at, fence, held_by, broken_by, reason, ends FROM broken ", $rest)
    };
}

/// Reads the break of a key, including an ended one.
pub(crate) fn load(connection: &Connection, key: &Key, records: &mut Records) -> Result<(), FileError> {
    let mut select = connection.prepare_cached(select_break!("WHERE key = ?1"))?;
    let mut rows = select.query([key.as_bytes()])?;
    if let Some(row) = rows.next()? {
        records.breaks.insert(key.clone(), read(row)?);
    }
    Ok(())
}

/// Reads the breaks of the keys with this prefix, including ended ones.
pub(crate) fn load_from(
    connection: &Connection,
    prefix: &[u8],
    records: &mut Records,
) -> Result<(), FileError> {
    let select = select_break!("WHERE key >= ?1 ORDER BY key");
    let breaks = with_prefix(connection, select, prefix, read)?;
    records.breaks.extend(breaks.into_iter().map(|(broken, ends)| (broken.key.clone(), (broken, ends))));
    Ok(())
}

/// Writes a new break, if there is one, and removes those that have ended by the wall clock.
pub(crate) fn save(connection: &Connection, after: &Records, wall: Stamp) -> Result<(), FileError> {
    for (broken, ends) in after.breaks.values() {
        let row = params![
            broken.key.as_bytes(),
            micros(broken.at),
            i64::from(broken.fence),
            broken.held_by.as_ref().map(Label::as_str),
            broken.note.by.as_ref().map(Label::as_str),
            broken.note.reason.as_ref().map(Label::as_str),
            micros(*ends),
        ];
        let insert = "INSERT OR REPLACE INTO broken (key, at, fence, held_by, broken_by, reason, ends)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        execute(connection, insert, row)?;
        execute(connection, "DELETE FROM broken WHERE ends <= ?1", [micros(wall)])?;
    }
    Ok(())
}

fn read(row: &Row<'_>) -> Result<(BreakRecord, Stamp), FileError> {
    let (key, at) = (key(row, 0)?, stamp(row.get(1)?)?);
    let fence = fence_of(row.get(2)?, "the fence of a break")?;
    let note = BreakNote { by: label(row, 4)?, reason: label(row, 5)? };
    Ok((BreakRecord::new(key, at, fence, label(row, 3)?, note), stamp(row.get(6)?)?))
}
