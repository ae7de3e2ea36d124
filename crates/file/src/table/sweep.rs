//! What has ended is removed, a few rows at a time.

use leasehold_core::Stamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{line, micros, share};
use crate::trouble::Trouble;

/// Removes what has ended from a few rows, and remembers in the file where to go on.
///
/// It runs when a row is added, and each time looks at more rows than that one: so in the time in which the live rows are
/// added anew, all rows are looked at several times, and what has ended cannot pile up beside what lives.
pub(super) fn sweep(connection: &Connection, now: Stamp) -> Result<(), Trouble> {
    /// More than one, so that the sweep gains on the rows that are added; few, so that no request is slow by it.
    const ROWS: usize = 8;
    let now = micros(now);
    let hand: Option<Vec<u8>> = connection
        .prepare_cached("SELECT value FROM meta WHERE name = 'hand'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let mut statement = connection.prepare_cached(
        "SELECT key, line_ends <= ?3, coalesce(ends <= ?3, 1) AND coalesce(fence_ends <= ?3, 1) AND coalesce(line_ends <= ?3, 1)
         FROM record WHERE key > ?1 ORDER BY key LIMIT ?2",
    )?;
    let looked_at: Vec<(Vec<u8>, Option<bool>, bool)> = statement
        .query_map(params![hand.unwrap_or_default(), ROWS as i64, now], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?
        .collect::<Result<_, _>>()?;
    for (key, line_ended, all_ended) in &looked_at {
        if *line_ended == Some(true) {
            line::forget(connection, key)?;
        }
        if *all_ended {
            connection.prepare_cached("DELETE FROM record WHERE key = ?1")?.execute([key])?;
            share::forget(connection, key)?;
        } else if *line_ended == Some(true) {
            connection
                .prepare_cached(
                    "UPDATE record SET waiters = NULL, handed = NULL, handed_on = NULL, line_ends = NULL WHERE key = ?1",
                )?
                .execute([key])?;
        }
    }
    // No key is empty, so an empty hand is before the first row.
    let next = looked_at.last().filter(|_| looked_at.len() == ROWS).map_or(&[][..], |(key, ..)| key);
    connection
        .prepare_cached("INSERT OR REPLACE INTO meta (name, value) VALUES ('hand', ?1)")?
        .execute([next])?;
    Ok(())
}
