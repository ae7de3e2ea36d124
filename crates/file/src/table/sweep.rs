//! Removes ended records, a few rows at a time.

use leasehold_core::Stamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{execute, micros, share, wait_queue};
use crate::error::FileError;

/// Removes the ended records of a few rows, and stores where to continue. It runs when a row is
/// added, and each time reads more rows than that one, so ended records cannot pile up.
pub(super) fn sweep(connection: &Connection, now: Stamp) -> Result<(), FileError> {
    /// More than one, so that the sweep gains on the added rows; few, so that requests stay fast.
    const ROWS: usize = 8;
    let now = micros(now);
    let hand: Option<Vec<u8>> = connection
        .prepare_cached("SELECT value FROM meta WHERE name = 'hand'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let mut statement = connection.prepare_cached(
        "SELECT key, queue_ends <= ?3, coalesce(ends <= ?3, 1) AND coalesce(fence_ends <= ?3, 1) AND coalesce(queue_ends <= ?3, 1)
         FROM record WHERE key > ?1 ORDER BY key LIMIT ?2",
    )?;
    let looked_at: Vec<(Vec<u8>, Option<bool>, bool)> = statement
        .query_map(params![hand.unwrap_or_default(), ROWS as i64, now], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?
        .collect::<Result<_, _>>()?;
    for (key, line_ended, all_ended) in &looked_at {
        if *line_ended == Some(true) {
            wait_queue::forget(connection, key)?;
        }
        if *all_ended {
            execute(connection, "DELETE FROM record WHERE key = ?1", [key])?;
            share::forget(connection, key)?;
        } else if *line_ended == Some(true) {
            execute(
                connection,
                "UPDATE record SET waiters = NULL, handed = NULL, handed_on = NULL, queue_ends = NULL WHERE key = ?1",
                [key],
            )?;
        }
    }
    // No key is empty, so the empty key is before the first row.
    let next = looked_at.last().filter(|_| looked_at.len() == ROWS).map_or(&[][..], |(key, ..)| key);
    execute(connection, "INSERT OR REPLACE INTO meta (name, value) VALUES ('hand', ?1)", [next]).map(drop)
}
