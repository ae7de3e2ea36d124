//! The queue of a key: only the waiters that a request needs are read and written.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::{
    Channel, Holder, Key, Label, Mode, QueueChanges, QueueEntry, Records, Stamp, Ticket, Ttl, WaitQueue,
};
use rusqlite::{Connection, Row, params};

use super::{Requester, StoredRecords, bytes_of, channel, execute, holder_of, label};
use crate::error::FileError;
use crate::sessions::Session;

type QueueSlot = (Ticket, Holder);

/// The columns of a row as [`queue_entry`] expects them, before the rest of a statement.
macro_rules! select_waiter {
    ($rest:literal) => {
        concat!("SELECT ticket, holder, label, mode, ttl, channel, wants_more, session FROM waiter ", $rest)
    };
}

/// Reads the first waiters, the requester, and the last waiter; the others are numbers between
/// them. The waiters before the requester are counted, which takes longer the further back it is;
/// but a new waiter is last, and of the others only one per process asks again, every few seconds.
pub(super) fn load(
    connection: &Connection,
    key: &Key,
    waiters: usize,
    requester: Option<Requester<'_>>,
    first: usize,
    sessions: &mut BTreeMap<(Key, Holder), Session>,
) -> Result<WaitQueue, FileError> {
    let mut queue = WaitQueue::default();
    let mut entry_of = |(ticket, waiter, session): QueueRow| {
        let holder = waiter.holder;
        if let Some(session) = session {
            sessions.insert((key.clone(), holder), session);
        }
        queue.join(waiter, Some(ticket), Stamp::from_micros(0));
        (ticket, holder)
    };
    let mut head_ends = None;
    if waiters > 0 {
        let mut head =
            connection.prepare_cached(select_waiter!("WHERE key = ?1 ORDER BY ticket, holder LIMIT ?2"))?;
        let mut rows = head.query(params![key.as_bytes(), i64::try_from(first).unwrap_or(i64::MAX)])?;
        while let Some(row) = rows.next()? {
            head_ends = Some(entry_of(queue_entry(row)?));
        }
    }
    if let Some(head_ends) = head_ends.filter(|_| waiters > first) {
        let last = connection
            .prepare_cached(select_waiter!("WHERE key = ?1 ORDER BY ticket DESC, holder DESC LIMIT 1"))?
            .query_row([key.as_bytes()], |row| Ok(queue_entry(row)))??;
        let last = entry_of(last);
        let mut hidden = (waiters - first) as u64 - u64::from(last > head_ends);
        let less = |hidden: u64, seen| {
            let damaged = || FileError::damaged("a queue has more waiters than it counts");
            hidden.checked_sub(seen).ok_or_else(damaged)
        };
        if let Some(requester) = requester {
            let mut own = connection.prepare_cached(select_waiter!("WHERE holder = ?2 AND key = ?1"))?;
            let mut rows = own.query(params![key.as_bytes(), bytes_of(requester.holder)])?;
            let own = rows.next()?.map(queue_entry).transpose()?.map(entry_of);
            let between = |slot: &QueueSlot| *slot > head_ends && *slot < last;
            hidden = less(hidden, own.as_ref().is_some_and(between).into())?;
            let claimed =
                requester.ticket.filter(|(at, _)| at == key).map(|(_, ticket)| (*ticket, requester.holder));
            if let Some(slot) = own.or(claimed).filter(between).filter(|_| requester.counts) {
                let before = count_between(connection, key, head_ends, slot)?;
                hidden = less(hidden, before)?;
                queue.leave_out(before, slot);
            }
        }
        queue.leave_out(hidden, last);
    }
    let mut unresponsive = connection.prepare_cached("SELECT channel FROM struck WHERE key = ?1")?;
    let mut rows = unresponsive.query([key.as_bytes()])?;
    while let Some(row) = rows.next()? {
        queue.set_unresponsive(Channel::new(row.get::<_, Vec<u8>>(0)?));
    }
    Ok(queue)
}

/// Writes the waiters that joined, and removes those that left.
pub(super) fn save(
    connection: &Connection,
    key: &Key,
    before: &StoredRecords,
    after: &Records,
    requester: Option<Requester<'_>>,
    now: Stamp,
) -> Result<(), FileError> {
    let mut changes = QueueChanges::between(key, &before.records, after, now);
    if changes.is_forgotten {
        forget(connection, key.as_bytes())?;
    }
    for (ticket, holder) in changes.gone {
        let delete = "DELETE FROM waiter WHERE key = ?1 AND ticket = ?2 AND holder = ?3";
        execute(connection, delete, params![key.as_bytes(), number(ticket), bytes_of(holder)])?;
    }
    // The requester depends on the session from which it asks now.
    let asks = |holder| requester.filter(|requester| requester.holder == holder);
    let mut waiters = after.queues.get(key).into_iter().flat_map(WaitQueue::waiters);
    let own = waiters.find(|(_, waiter)| asks(waiter.holder).is_some());
    changes.new.extend(own.filter(|own| !changes.new.contains(own)));
    for (ticket, waiter) in changes.new {
        let session = match asks(waiter.holder) {
            Some(requester) => requester.session,
            None => before.waiting.get(&(key.clone(), waiter.holder)).copied(),
        };
        write(connection, key, ticket, waiter, session)?;
    }
    for responsive in changes.responsive {
        let delete = "DELETE FROM struck WHERE key = ?1 AND channel = ?2";
        execute(connection, delete, params![key.as_bytes(), responsive.as_bytes()])?;
    }
    for unresponsive in changes.unresponsive {
        let insert = "INSERT OR REPLACE INTO struck (key, channel) VALUES (?1, ?2)";
        execute(connection, insert, params![key.as_bytes(), unresponsive.as_bytes()])?;
    }
    Ok(())
}

pub(super) fn forget(connection: &Connection, key: &[u8]) -> Result<(), FileError> {
    execute(connection, "DELETE FROM waiter WHERE key = ?1", [key])?;
    execute(connection, "DELETE FROM struck WHERE key = ?1", [key]).map(drop)
}

fn count_between(
    connection: &Connection,
    key: &Key,
    from: QueueSlot,
    to: QueueSlot,
) -> Result<u64, FileError> {
    let count: i64 = connection
        .prepare_cached(
            "SELECT count(*) FROM waiter
             WHERE key = ?1 AND (ticket, holder) > (?2, ?3) AND (ticket, holder) < (?4, ?5)",
        )?
        .query_row(
            params![key.as_bytes(), number(from.0), bytes_of(from.1), number(to.0), bytes_of(to.1)],
            |row| row.get(0),
        )?;
    Ok(count.unsigned_abs())
}

fn write(
    connection: &Connection,
    key: &Key,
    ticket: Ticket,
    waiter: &QueueEntry,
    session: Option<Session>,
) -> Result<(), FileError> {
    let row = params![
        key.as_bytes(),
        number(ticket),
        bytes_of(waiter.holder),
        waiter.label.as_ref().map(Label::as_str),
        waiter.mode.to_string(),
        number(Ticket::new(waiter.ttl.as_millis())),
        waiter.channel.as_ref().map(Channel::as_bytes),
        waiter.wants_more,
        session.as_ref().map(Session::as_bytes),
    ];
    let insert =
        "INSERT OR REPLACE INTO waiter (key, ticket, holder, label, mode, ttl, channel, wants_more, session)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    execute(connection, insert, row).map(drop)
}

type QueueRow = (Ticket, QueueEntry, Option<Session>);

fn queue_entry(row: &Row<'_>) -> Result<QueueRow, FileError> {
    let (ticket, ttl): (i64, i64) = (row.get(0)?, row.get(4)?);
    let mode: String = row.get(3)?;
    let mode =
        Mode::read(&mode).ok_or_else(|| FileError::damaged(format_args!("somebody waits in mode {mode}")))?;
    let ttl = u64::try_from(ttl).ok().and_then(|ttl| Ttl::new(Duration::from_millis(ttl)).ok());
    let ttl = ttl.ok_or_else(|| FileError::damaged("the ttl of a waiter is out of bounds"))?;
    let (holder, wants_more) = (holder_of(row.get(1)?), row.get(6)?);
    let waiter = QueueEntry::new(holder, label(row, 2)?, mode, ttl, channel(row, 5)?, wants_more);
    let session: Option<[u8; 8]> = row.get(7)?;
    Ok((Ticket::new(ticket.unsigned_abs()), waiter, session.map(Session::from_bytes)))
}

/// A ticket as one of SQLite's signed numbers.
fn number(ticket: Ticket) -> i64 {
    i64::try_from(ticket.get()).unwrap_or(i64::MAX)
}
