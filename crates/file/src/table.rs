//! The tables: reading the records of some keys, and writing back the changes.
//!
//! One row contains everything about a key except its waiters, and if it is shared its holders.
//! Only a part of a queue is read: the first few waiters, the requester, and the last waiter.

pub(crate) mod broken;
pub(crate) mod mark;
mod share;
mod sweep;
mod wait_queue;

use std::collections::{BTreeMap, BTreeSet};

use leasehold_core::{
    Channel, Content, Family, Fence, Holder, Key, Label, LastFence, Lock, Records, Stamp, Ticket, WaitQueue,
};
use rusqlite::{Connection, Params, Row, params, params_from_iter};

use crate::error::FileError;
use crate::sessions::Session;

/// The stored records of some keys, and the sessions on which they depend.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredRecords {
    pub(crate) records: Records,
    /// The session on which the lock of a key depends, if any.
    pub(crate) sessions: BTreeMap<Key, Session>,
    /// The same for shares.
    sharing: BTreeMap<(Key, Holder), Session>,
    /// The same for waiters.
    waiting: BTreeMap<(Key, Holder), Session>,
    /// The keys of which a share ended with its holder's session, whatever is stored about it.
    voided: BTreeSet<Key>,
}

impl StoredRecords {
    /// The session on which this holder's part of a key depends.
    pub(crate) fn session_of(&self, key: &Key, holder: Holder) -> Option<Session> {
        self.sharing.get(&(key.clone(), holder)).or_else(|| self.sessions.get(key)).copied()
    }

    /// The stored records, with everything that depends on a dead session as ended.
    pub(crate) fn without(mut self, is_dead: impl Fn(Session) -> bool, now: Stamp) -> Self {
        for (key, session) in &self.sessions {
            let Some(lock) = self.records.locks.get_mut(key) else { continue };
            if lock.ends.is_none_or(|ends| now < ends) && is_dead(*session) {
                lock.ends = Some(Stamp::from_micros(0));
            }
        }
        // One process may have many shares.
        let mut known = BTreeMap::new();
        for ((key, holder), session) in &self.sharing {
            if *known.entry(*session).or_insert_with(|| is_dead(*session)) {
                self.records.end_share(key, *holder);
                self.voided.insert(key.clone());
            }
        }
        self
    }
}

/// The requester: because of its place in the queue, more than the head is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester<'a> {
    pub(crate) holder: Holder,
    pub(crate) ticket: Option<&'a (Key, Ticket)>,
    /// True if it needs the number of waiters before it.
    pub(crate) counts: bool,
    /// The session on which its grants depend.
    pub(crate) session: Option<Session>,
}

/// The columns of a row as [`read`] expects them, before the rest of a statement.
macro_rules! select_record {
    ($rest:literal) => {
        concat!(
            "SELECT holder, label, ends, awaited, session, fence, fence_ends, waiters, handed, handed_on, queue_ends, marker, shares ",
            $rest
        )
    };
}

/// Reads the records of some keys, including ended ones, with this many of the first waiters.
pub(crate) fn load<'a>(
    connection: &Connection,
    keys: impl Iterator<Item = &'a Key>,
    requester: Option<Requester<'_>>,
    first: usize,
) -> Result<StoredRecords, FileError> {
    let mut select = connection.prepare_cached(select_record!("FROM record WHERE key = ?1"))?;
    let mut written = StoredRecords::default();
    for key in keys {
        let mut rows = select.query([key.as_bytes()])?;
        if let Some(row) = rows.next()? {
            read(connection, row, key, requester, first, &mut written)?;
        }
    }
    Ok(written)
}

pub(crate) fn load_all(connection: &Connection) -> Result<StoredRecords, FileError> {
    let mut written = StoredRecords::default();
    let mut select = connection.prepare(select_record!(", key FROM record"))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        read(connection, row, &key(row, 13)?, None, usize::MAX, &mut written)?;
    }
    mark::load_from(connection, b"", &mut written.records)?;
    broken::load_from(connection, b"", &mut written.records)?;
    Ok(written)
}

/// Writes the changes of some keys' records, if there are any. The clock is for ended records.
pub(crate) fn save<'a>(
    connection: &Connection,
    keys: impl Iterator<Item = &'a Key>,
    before: &StoredRecords,
    after: &Records,
    requester: Option<Requester<'_>>,
    now: Stamp,
) -> Result<(), FileError> {
    for key in keys {
        let changes_lock =
            before.voided.contains(key) || before.records.locks.get(key) != after.locks.get(key);
        let changes_fence = before.records.fences.get(key) != after.fences.get(key);
        let stands = requester.filter(|requester| {
            after.queues.get(key).is_some_and(|queue| queue.ticket(requester.holder).is_some())
        });
        // A requester from another session than before depends on the new one from now on.
        let moves = stands.is_some_and(|requester| {
            before.waiting.get(&(key.clone(), requester.holder)).copied() != requester.session
        });
        let changes_queue = moves || before.records.queues.get(key) != after.queues.get(key);
        if changes_queue {
            wait_queue::save(connection, key, before, after, requester, now)?;
        }
        let changes_shares = share::save(connection, key, before, after, requester, now)?;
        let session = after.locks.get(key).and_then(|lock| session_of(key, lock, before, requester, now));
        let changes_session = session.as_ref() != before.sessions.get(key);
        if changes_lock || changes_fence || changes_queue || changes_shares || changes_session {
            let is_new = !has_row(&before.records, key);
            save_row(connection, key, after, session)?;
            if is_new && has_row(after, key) {
                sweep::sweep(connection, now)?;
            }
        }
    }
    Ok(())
}

/// The keys with rows that depend on these sessions. This reads all rows, once for all of the sessions.
pub(crate) fn keys_of(connection: &Connection, sessions: &[Session]) -> Result<Vec<Vec<u8>>, FileError> {
    let select = |table| format!("SELECT key FROM {table} WHERE session IN ({})", numbered(sessions));
    let mut select = connection.prepare(&SESSIONS.map(select).join(" UNION "))?;
    let keys =
        select.query_map(params_from_iter(sessions.iter().map(Session::as_bytes)), |row| row.get(0))?;
    Ok(keys.collect::<Result<_, _>>()?)
}

/// Replaces the names of dead sessions by that of nobody in all rows of these keys.
pub(crate) fn end_with(
    connection: &Connection,
    keys: &[Vec<u8>],
    sessions: &[Session],
) -> Result<(), FileError> {
    let (nobody, key) = (sessions.len() + 1, sessions.len() + 2);
    for table in SESSIONS {
        let names = numbered(sessions);
        let update =
            format!("UPDATE {table} SET session = ?{nobody} WHERE key = ?{key} AND session IN ({names})");
        let mut update = connection.prepare(&update)?;
        for key in keys {
            let names = sessions.iter().chain([&Session::NOBODY]).map(|name| &name.as_bytes()[..]);
            update.execute(params_from_iter(names.chain([&key[..]])))?;
        }
    }
    Ok(())
}

/// The tables whose rows depend on sessions.
const SESSIONS: [&str; 3] = ["record", "share", "waiter"];

/// The parameters of a statement whose first ones are these sessions.
fn numbered(sessions: &[Session]) -> String {
    (1..=sessions.len()).map(|number| format!("?{number}")).collect::<Vec<_>>().join(", ")
}

/// Runs a statement that is prepared only once; returns how many rows it changed.
pub(crate) fn execute(
    connection: &Connection,
    statement: &str,
    params: impl Params,
) -> Result<usize, FileError> {
    Ok(connection.prepare_cached(statement)?.execute(params)?)
}

/// Reads the rows whose key, in the first column, has this prefix, with which the selected keys begin.
pub(crate) fn with_prefix<T>(
    connection: &Connection,
    select: &str,
    prefix: &[u8],
    read: impl Fn(&Row<'_>) -> Result<T, FileError>,
) -> Result<Vec<T>, FileError> {
    let mut select = connection.prepare_cached(select)?;
    let mut rows = select.query([prefix])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        // All keys with the prefix are adjacent, so the first other key ends the list.
        if !row.get::<_, Vec<u8>>(0)?.starts_with(prefix) {
            break;
        }
        found.push(read(row)?);
    }
    Ok(found)
}

/// A point in time as one of SQLite's signed numbers.
pub(crate) fn micros(stamp: Stamp) -> i64 {
    i64::try_from(stamp.as_micros()).unwrap_or(i64::MAX)
}

/// The session on which a lock depends: of its requester, or of the waiter to which it was handed.
fn session_of(
    key: &Key,
    lock: &Lock,
    before: &StoredRecords,
    requester: Option<Requester<'_>>,
    now: Stamp,
) -> Option<Session> {
    let Content::Lease { holder, .. } = &lock.content else { return None };
    if let Some(requester) = requester.filter(|requester| requester.holder == *holder) {
        return requester.session;
    }
    // A lease that had ended is not the one that its holder has been handed now.
    match before.records.lock(key, now).map(|lock| &lock.content) {
        Some(Content::Lease { holder: held_before, .. }) if held_before == holder => {
            before.sessions.get(key).copied()
        }
        _ => before.waiting.get(&(key.clone(), *holder)).copied(),
    }
}

fn has_row(records: &Records, key: &Key) -> bool {
    records.locks.contains_key(key)
        || records.fences.contains_key(key)
        || records.queues.contains_key(key)
        || records.shares.contains_key(key)
}

fn save_row(
    connection: &Connection,
    key: &Key,
    records: &Records,
    session: Option<Session>,
) -> Result<(), FileError> {
    if !has_row(records, key) {
        return execute(connection, "DELETE FROM record WHERE key = ?1", [key.as_bytes()]).map(drop);
    }
    let (mut holder, mut label, mut ends, mut awaited, mut marker) = (None, None, None, None, None);
    match records.locks.get(key).map(|lock| (&lock.content, lock.ends)) {
        None => {}
        Some((Content::Lease { holder: held_by, label: says, awaited: told, .. }, Some(until))) => {
            (holder, ends, awaited) = (Some(bytes_of(*held_by)), Some(micros(until)), Some(*told));
            label = says.as_ref().map(Label::as_str);
        }
        Some((Content::Marker(family), Some(until))) => {
            (marker, ends) = (Some(family.to_string()), Some(micros(until)));
        }
        Some(_) => return Err(FileError::lasting("only leases with an end have a place in the file")),
    }
    let fence = records.fences.get(key);
    let queue = records.queues.get(key);
    let handed = queue.and_then(WaitQueue::unclaimed);
    let row = params![
        key.as_bytes(),
        holder,
        label,
        ends,
        awaited,
        session.as_ref().map(Session::as_bytes),
        fence.map(|last| i64::from(last.fence)),
        fence.map(|last| micros(last.ends)),
        queue.map(|queue| queue.len() as i64),
        handed.map(|handed| bytes_of(handed.holder)),
        handed.and_then(|handed| handed.channel.as_ref()).map(Channel::as_bytes),
        queue.and_then(WaitQueue::ends).map(micros),
        marker,
        records.shares.get(key).map(|shares| shares.all().len() as i64),
    ];
    let insert =
        "INSERT OR REPLACE INTO record (key, holder, label, ends, awaited, session, fence, fence_ends,
             waiters, handed, handed_on, queue_ends, marker, shares)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
    execute(connection, insert, row).map(drop)
}

/// Reads a row and its further records.
fn read(
    connection: &Connection,
    row: &Row<'_>,
    key: &Key,
    requester: Option<Requester<'_>>,
    first: usize,
    written: &mut StoredRecords,
) -> Result<(), FileError> {
    let fence = fence(row, 5)?;
    if let Some(holder) = row.get::<_, Option<_>>(0)?.map(holder_of) {
        let (label, ends, awaited) = (label(row, 1)?, stamp(row.get(2)?)?, row.get(3)?);
        let lock = Lock::new(Content::Lease { holder, fence, label, awaited }, Some(ends));
        written.records.locks.insert(key.clone(), lock);
        if let Some(session) = row.get(4)? {
            written.sessions.insert(key.clone(), Session::from_bytes(session));
        }
    }
    if let Some(fence) = fence {
        written.records.fences.insert(key.clone(), LastFence::new(fence, stamp(row.get(6)?)?));
    }
    if let Some(waiters) = row.get::<_, Option<i64>>(7)? {
        let waiters = usize::try_from(waiters)
            .map_err(|_| FileError::damaged(format_args!("{waiters} waiters in a queue")))?;
        let mut queue = wait_queue::load(connection, key, waiters, requester, first, &mut written.waiting)?;
        if let Some(holder) = row.get::<_, Option<_>>(8)?.map(holder_of) {
            queue.hand_to(holder, channel(row, 9)?);
        }
        if let Some(ends) = row.get(10)? {
            queue.keep_until(stamp(ends)?);
        }
        written.records.queues.insert(key.clone(), queue);
    }
    if let Some(marker) = row.get::<_, Option<String>>(11)? {
        let family = Family::read(&marker)
            .ok_or_else(|| FileError::damaged(format_args!("a key is held {marker}")))?;
        let lock = Lock::new(Content::Marker(family), Some(stamp(row.get(2)?)?));
        written.records.locks.insert(key.clone(), lock);
    }
    if row.get::<_, Option<i64>>(12)?.is_some() {
        let shares = share::load(connection, key, &mut written.sharing)?;
        written.records.shares.insert(key.clone(), shares);
    }
    Ok(())
}

pub(crate) fn key(row: &Row<'_>, column: usize) -> Result<Key, FileError> {
    let bytes: Vec<u8> = row.get(column)?;
    Key::new(bytes).map_err(FileError::damaged)
}

pub(crate) fn bytes_of(holder: Holder) -> [u8; 16] {
    holder.bits().to_be_bytes()
}

fn holder_of(bytes: [u8; 16]) -> Holder {
    Holder::from_bits(u128::from_be_bytes(bytes))
}

fn label(row: &Row<'_>, column: usize) -> Result<Option<Label>, FileError> {
    let text: Option<String> = row.get(column)?;
    Ok(text.map(|text| Label::read(text.as_bytes())))
}

fn channel(row: &Row<'_>, column: usize) -> Result<Option<Channel>, FileError> {
    let name: Option<Vec<u8>> = row.get(column)?;
    Ok(name.map(Channel::new))
}

fn fence(row: &Row<'_>, column: usize) -> Result<Option<Fence>, FileError> {
    let number: Option<i64> = row.get(column)?;
    number.map(|number| fence_of(number, "a fence")).transpose()
}

fn fence_of(number: i64, which: &str) -> Result<Fence, FileError> {
    let fence = u64::try_from(number).ok().and_then(Fence::new);
    fence.ok_or_else(|| FileError::damaged(format_args!("{which} is {number}")))
}

pub(crate) fn stamp(number: i64) -> Result<Stamp, FileError> {
    let micros =
        u64::try_from(number).map_err(|_| FileError::damaged(format_args!("a lease ends at {number}")))?;
    Ok(Stamp::from_micros(micros))
}
