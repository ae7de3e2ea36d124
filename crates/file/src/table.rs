//! Records in tables: reading those of some keys, and writing back what changed.

use leasehold_core::{Content, Fence, Holder, Key, Label, LastFence, Lock, Records, Stamp};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::trouble::Trouble;

/// Reads what is written of some keys, whether or not it has ended.
pub(crate) fn load<'a>(
    connection: &Connection,
    keys: impl Iterator<Item = &'a Key>,
) -> Result<Records, Trouble> {
    let mut locks = connection.prepare_cached("SELECT holder, label, ends FROM lock WHERE key = ?1")?;
    let mut fences = connection.prepare_cached("SELECT fence, ends FROM fence WHERE key = ?1")?;
    let mut records = Records::default();
    for key in keys {
        if let Some(lock) = locks.query_row([key.as_bytes()], |row| Ok(lock(row, 0))).optional()? {
            records.locks.insert(key.clone(), lock?);
        }
        if let Some(fence) = fences.query_row([key.as_bytes()], |row| Ok(fence(row, 0))).optional()? {
            records.fences.insert(key.clone(), fence?);
        }
    }
    Ok(records)
}

/// Writes what became of the records of some keys, where anything did. The clock is for the sweep.
pub(crate) fn save<'a>(
    connection: &Connection,
    keys: impl Iterator<Item = &'a Key>,
    before: &Records,
    after: &Records,
    now: Stamp,
) -> Result<(), Trouble> {
    for key in keys {
        let (was, is) = (before.locks.get(key), after.locks.get(key));
        if was != is {
            save_lock(connection, key, is)?;
        }
        let (was, is) = (before.fences.get(key), after.fences.get(key));
        if was != is {
            save_fence(connection, key, is)?;
        }
        if was.is_none() && is.is_some() {
            sweep(connection, now)?;
        }
    }
    Ok(())
}

/// Reads everything.
pub(crate) fn load_all(connection: &Connection) -> Result<Records, Trouble> {
    let mut records = Records::default();
    let mut locks = connection.prepare("SELECT key, holder, label, ends FROM lock")?;
    let mut rows = locks.query([])?;
    while let Some(row) = rows.next()? {
        records.locks.insert(key(row)?, lock(row, 1)?);
    }
    let mut fences = connection.prepare("SELECT key, fence, ends FROM fence")?;
    let mut rows = fences.query([])?;
    while let Some(row) = rows.next()? {
        records.fences.insert(key(row)?, fence(row, 1)?);
    }
    Ok(records)
}

/// A point in time as SQLite's signed numbers have it; the end of time is nearer there, and as far away as ever.
pub(crate) fn micros(stamp: Stamp) -> i64 {
    i64::try_from(stamp.as_micros()).unwrap_or(i64::MAX)
}

fn save_lock(connection: &Connection, key: &Key, lock: Option<&Lock>) -> Result<(), Trouble> {
    let Some(lock) = lock else {
        connection.prepare_cached("DELETE FROM lock WHERE key = ?1")?.execute([key.as_bytes()])?;
        return Ok(());
    };
    let (Content::Lease { holder, label, .. }, Some(ends)) = (&lock.content, lock.ends) else {
        return Err(Trouble::lasting("only leases with an end have a place in the file"));
    };
    connection
        .prepare_cached("INSERT OR REPLACE INTO lock (key, holder, label, ends) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![
            key.as_bytes(),
            holder.bits().to_be_bytes(),
            label.as_ref().map(Label::as_str),
            micros(ends)
        ])?;
    Ok(())
}

fn save_fence(connection: &Connection, key: &Key, last: Option<&LastFence>) -> Result<(), Trouble> {
    let Some(last) = last else {
        connection.prepare_cached("DELETE FROM fence WHERE key = ?1")?.execute([key.as_bytes()])?;
        return Ok(());
    };
    connection
        .prepare_cached("INSERT OR REPLACE INTO fence (key, fence, ends) VALUES (?1, ?2, ?3)")?
        .execute(params![key.as_bytes(), i64::from(last.fence), micros(last.ends)])?;
    Ok(())
}

/// Removes what has ended from a few rows, and remembers in the file where to go on.
///
/// It runs when a row is added, and each time looks at more rows than that one: so in the time in which the live rows are
/// added anew, all rows are looked at several times, and what has ended cannot pile up beside what lives. A lock has no sweep
/// of its own, because the fence of its key outlives it.
fn sweep(connection: &Connection, now: Stamp) -> Result<(), Trouble> {
    /// More than one, so that the sweep gains on the rows that are added; few, so that no request is slow by it.
    const ROWS: usize = 8;
    let hand: Option<Vec<u8>> = connection
        .prepare_cached("SELECT value FROM meta WHERE name = 'hand'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let mut statement =
        connection.prepare_cached("SELECT key, ends FROM fence WHERE key > ?1 ORDER BY key LIMIT ?2")?;
    let looked_at: Vec<(Vec<u8>, i64)> = statement
        .query_map(params![hand.unwrap_or_default(), ROWS as i64], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (key, ends) in &looked_at {
        connection
            .prepare_cached("DELETE FROM lock WHERE key = ?1 AND ends <= ?2")?
            .execute(params![key, micros(now)])?;
        if *ends <= micros(now) {
            connection.prepare_cached("DELETE FROM fence WHERE key = ?1")?.execute([key])?;
        }
    }
    // No key is empty, so an empty hand is before the first row.
    let next = looked_at.last().filter(|_| looked_at.len() == ROWS).map_or(&[][..], |(key, _)| key);
    connection
        .prepare_cached("INSERT OR REPLACE INTO meta (name, value) VALUES ('hand', ?1)")?
        .execute([next])?;
    Ok(())
}

fn key(row: &Row<'_>) -> Result<Key, Trouble> {
    let bytes: Vec<u8> = row.get(0)?;
    Key::new(&bytes).map_err(Trouble::damaged)
}

/// A lock from the columns `holder`, `label`, `ends`.
fn lock(row: &Row<'_>, first: usize) -> Result<Lock, Trouble> {
    let holder = Holder::from_bits(u128::from_be_bytes(row.get(first)?));
    let label: Option<String> = row.get(first + 1)?;
    let label = label.map(|text| Label::read(text.as_bytes()));
    let ends = stamp(row, first + 2)?;
    Ok(Lock::new(Content::Lease { holder, label, awaited: false }, Some(ends)))
}

/// A fence from the columns `fence`, `ends`.
fn fence(row: &Row<'_>, first: usize) -> Result<LastFence, Trouble> {
    let number: i64 = row.get(first)?;
    let fence = u64::try_from(number).ok().and_then(Fence::new);
    let fence = fence.ok_or_else(|| Trouble::damaged(format_args!("a fence is {number}")))?;
    Ok(LastFence::new(fence, stamp(row, first + 1)?))
}

fn stamp(row: &Row<'_>, column: usize) -> Result<Stamp, Trouble> {
    let number: i64 = row.get(column)?;
    let micros =
        u64::try_from(number).map_err(|_| Trouble::damaged(format_args!("a lease ends at {number}")))?;
    Ok(Stamp::from_micros(micros))
}
