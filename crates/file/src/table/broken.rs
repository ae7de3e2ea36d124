//! The records of broken leases.

use leasehold_core::{BreakNote, BreakRecord, Fence, Key, Label, Records, Stamp};
use rusqlite::{Connection, Row, params};

use super::{micros, stamp};
use crate::error::FileError;

/// Reads the breaks of the keys with this prefix, including ended ones.
pub(crate) fn load_from(
    connection: &Connection,
    prefix: &[u8],
    records: &mut Records,
) -> Result<(), FileError> {
    let mut select = connection.prepare_cached(
        "SELECT key, at, fence, held_by, broken_by, reason, ends FROM broken WHERE key >= ?1 ORDER BY key",
    )?;
    let mut rows = select.query([prefix])?;
    while let Some(row) = rows.next()? {
        let (broken, ends) = read(row)?;
        // All keys with the prefix are adjacent.
        if !broken.key.as_bytes().starts_with(prefix) {
            break;
        }
        records.breaks.insert(broken.key.clone(), (broken, ends));
    }
    Ok(())
}

/// Writes a new break, if there is one, and removes those that have ended by the wall clock.
pub(crate) fn save(connection: &Connection, after: &Records, wall: Stamp) -> Result<(), FileError> {
    for (broken, ends) in after.breaks.values() {
        let said = |label: &Option<Label>| label.as_ref().map(|label| label.as_str().to_owned());
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO broken (key, at, fence, held_by, broken_by, reason, ends)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                broken.key.as_bytes(),
                micros(broken.at),
                i64::from(broken.fence),
                said(&broken.held_by),
                said(&broken.note.by),
                said(&broken.note.reason),
                micros(*ends),
            ])?;
        connection.prepare_cached("DELETE FROM broken WHERE ends <= ?1")?.execute([micros(wall)])?;
    }
    Ok(())
}

fn read(row: &Row<'_>) -> Result<(BreakRecord, Stamp), FileError> {
    let key: Vec<u8> = row.get(0)?;
    let number: i64 = row.get(2)?;
    let fence = u64::try_from(number).ok().and_then(Fence::new);
    let fence = fence.ok_or_else(|| FileError::damaged(format_args!("the fence of a break is {number}")))?;
    let label = |at: usize| -> Result<Option<Label>, FileError> {
        let text: Option<String> = row.get(at)?;
        Ok(text.map(|text| Label::read(text.as_bytes())))
    };
    let note = BreakNote { by: label(4)?, reason: label(5)? };
    let key = Key::new(&key).map_err(FileError::damaged)?;
    Ok((BreakRecord::new(key, stamp(row.get(1)?)?, fence, label(3)?, note), stamp(row.get(6)?)?))
}
