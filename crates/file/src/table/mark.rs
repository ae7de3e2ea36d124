//! The marks of jobs.

use std::time::Duration;

use leasehold_core::{Key, Label, Mark, Records, Stamp};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{execute, fence_of, key, label, micros, stamp, with_prefix};
use crate::error::FileError;

/// Reads the marks of some keys, including ended ones.
pub(crate) fn load<'a>(
    connection: &Connection,
    keys: impl Iterator<Item = &'a Key>,
    records: &mut Records,
) -> Result<(), FileError> {
    let mut select =
        connection.prepare_cached("SELECT key, at, fence, label, ends, period FROM mark WHERE key = ?1")?;
    for key in keys {
        if let Some(mark) = select.query_row([key.as_bytes()], |row| Ok(read(row))).optional()? {
            let (key, mark) = mark?;
            records.marks.insert(key, mark);
        }
    }
    Ok(())
}

/// Reads the marks of the keys with this prefix, including ended ones.
pub(crate) fn load_from(
    connection: &Connection,
    prefix: &[u8],
    records: &mut Records,
) -> Result<(), FileError> {
    let select = "SELECT key, at, fence, label, ends, period FROM mark WHERE key >= ?1 ORDER BY key";
    records.marks.extend(with_prefix(connection, select, prefix, read)?);
    Ok(())
}

pub(crate) fn forget(connection: &Connection, key: &Key) -> Result<(), FileError> {
    execute(connection, "DELETE FROM mark WHERE key = ?1", [key.as_bytes()]).map(drop)
}

/// Writes new marks, and removes those that have ended by the wall clock.
pub(crate) fn save(
    connection: &Connection,
    before: &Records,
    after: &Records,
    wall: Stamp,
) -> Result<(), FileError> {
    let new = after.marks.iter().filter(|(key, mark)| before.marks.get(*key) != Some(*mark));
    for (key, (mark, ends)) in new {
        let row = params![
            key.as_bytes(),
            micros(mark.at),
            i64::from(mark.fence),
            mark.label.as_ref().map(Label::as_str),
            micros(*ends),
            mark.period.map(|period| i64::try_from(period.as_micros()).unwrap_or(i64::MAX)),
        ];
        let insert = "INSERT OR REPLACE INTO mark (key, at, fence, label, ends, period) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        execute(connection, insert, row)?;
        execute(connection, "DELETE FROM mark WHERE ends <= ?1", [micros(wall)])?;
    }
    Ok(())
}

fn read(row: &Row<'_>) -> Result<(Key, (Mark, Stamp)), FileError> {
    let fence = fence_of(row.get(2)?, "a mark's fence")?;
    let mark = Mark::new(stamp(row.get(1)?)?, fence, label(row, 3)?);
    let mark = match row.get::<_, Option<i64>>(5)? {
        Some(micros) => mark.every(Duration::from_micros(stamp(micros)?.as_micros())),
        None => mark,
    };
    Ok((key(row, 0)?, (mark, stamp(row.get(4)?)?)))
}
