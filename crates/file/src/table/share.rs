//! The shares of a key: one row for each holder.

use std::collections::BTreeMap;

use leasehold_core::{Channel, Holder, Key, Label, Records, Share, Shares, Stamp};
use rusqlite::{Connection, params};

use super::{Requester, StoredRecords, bytes_of, channel, execute, fence, holder_of, label, micros, stamp};
use crate::error::FileError;
use crate::sessions::Session;

/// Reads all shares of a key. There are as many as processes of one machine use it at a time.
pub(super) fn load(
    connection: &Connection,
    key: &Key,
    sessions: &mut BTreeMap<(Key, Holder), Session>,
) -> Result<Shares, FileError> {
    let mut select = connection.prepare_cached(
        "SELECT holder, weight, fence, label, ends, unclaimed, session FROM share WHERE key = ?1",
    )?;
    let mut rows = select.query([key.as_bytes()])?;
    let mut shares = Shares::default();
    while let Some(row) = rows.next()? {
        let holder = holder_of(row.get(0)?);
        let share = Share::new(row.get(1)?, fence(row, 2)?, label(row, 3)?, stamp(row.get(4)?)?);
        shares.put(holder, share.unclaimed_at(channel(row, 5)?));
        if let Some(session) = row.get(6)? {
            sessions.insert((key.clone(), holder), Session::from_bytes(session));
        }
    }
    Ok(shares)
}

/// Writes the changes of a key's shares, and returns whether their number has changed.
pub(super) fn save(
    connection: &Connection,
    key: &Key,
    before: &StoredRecords,
    after: &Records,
    requester: Option<Requester<'_>>,
    now: Stamp,
) -> Result<bool, FileError> {
    let (was, is) = (before.records.shares.get(key), after.shares.get(key));
    let had = |holder| was.and_then(|shares| shares.of(holder));
    for (holder, _) in was.into_iter().flat_map(Shares::all) {
        if is.and_then(|shares| shares.of(holder)).is_none() {
            let delete = "DELETE FROM share WHERE key = ?1 AND holder = ?2";
            execute(connection, delete, params![key.as_bytes(), bytes_of(holder)])?;
        }
    }
    for (holder, share) in is.into_iter().flat_map(Shares::all) {
        let part = (key.clone(), holder);
        let session_before = before.sharing.get(&part);
        let session = match requester.filter(|requester| requester.holder == holder) {
            // A share that has ended depends on no process any more, whoever asks.
            Some(_) if share.ends <= now && had(holder) == Some(share) => session_before.copied(),
            Some(requester) => requester.session,
            // A share that had ended is not the one that its holder has been handed now.
            None if had(holder).is_some_and(|had| now < had.ends || had == share) => session_before.copied(),
            None => before.waiting.get(&part).copied(),
        };
        if had(holder) != Some(share) || session.as_ref() != session_before {
            write(connection, key, holder, share, session)?;
        }
    }
    Ok(was.map_or(0, |shares| shares.all().len()) != is.map_or(0, |shares| shares.all().len()))
}

pub(super) fn forget(connection: &Connection, key: &[u8]) -> Result<(), FileError> {
    execute(connection, "DELETE FROM share WHERE key = ?1", [key]).map(drop)
}

fn write(
    connection: &Connection,
    key: &Key,
    holder: Holder,
    share: &Share,
    session: Option<Session>,
) -> Result<(), FileError> {
    let row = params![
        key.as_bytes(),
        bytes_of(holder),
        share.weight,
        share.fence.map(i64::from),
        share.label.as_ref().map(Label::as_str),
        micros(share.ends),
        share.unclaimed.as_ref().map(Channel::as_bytes),
        session.as_ref().map(Session::as_bytes),
    ];
    let insert = "INSERT OR REPLACE INTO share (key, holder, weight, fence, label, ends, unclaimed, session)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    execute(connection, insert, row).map(drop)
}
