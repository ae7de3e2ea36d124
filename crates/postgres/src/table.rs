//! The tables: reading the records of some keys, and writing back the changes.
//!
//! One row contains everything about a key except its waiters and its shares. Only a part of a
//! queue is read: the first few waiters, the requester, and the last waiter.

pub(crate) mod row;
mod save;
mod wait_queue;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_core::{
    BreakNote, BreakRecord, Channel, Content, Family, Holder, Key, LastFence, Lock, Mark, Marked, Records,
    Share, Stamp, Ticket, WaitQueue,
};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use self::row::Columns;
use crate::channel;
use crate::fault::TransactionError;
use crate::sql::{Parameter, Sql};

pub(crate) use self::save::{Changes, save};
pub(crate) use self::wait_queue::ticket;

/// The stored records of some keys, and when they were read.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) records: Records,
    /// The server's clock, when the rows were locked.
    pub(crate) now: Stamp,
    /// Channels on which certainly nobody listens.
    pub(crate) unsubscribed: BTreeSet<Channel>,
}

/// A requester of a key: because of its place in the queue, more than the head is read.
#[derive(Clone, Debug)]
pub(crate) struct Requester {
    pub(crate) key: Key,
    pub(crate) holder: Holder,
    /// Its ticket.
    pub(crate) ticket: Option<Ticket>,
}

/// The records to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection<'a> {
    /// In byte order, without duplicates.
    pub(crate) keys: &'a [Key],
    pub(crate) requesters: &'a [Requester],
    /// The number of first waiters to read.
    pub(crate) first: i64,
    pub(crate) marks: bool,
    /// True if the transaction must find out which processes listen.
    pub(crate) subscriptions: bool,
}

/// Reads the records of some keys, including ended ones, in one round trip.
pub(crate) async fn load(
    client: &Client,
    sql: &Sql,
    selection: Selection<'_>,
) -> Result<Loaded, TransactionError> {
    let keys = || Parameter::each(selection.keys, Type::BYTEA_ARRAY, Key::as_bytes);
    let about = [keys()];
    let requesters = selection.requesters;
    let waiters = [
        keys(),
        Parameter::one(selection.first, Type::INT8),
        Parameter::each(requesters, Type::BYTEA_ARRAY, |requester| requester.key.as_bytes()),
        Parameter::each(requesters, Type::BYTEA_ARRAY, |requester| bytes(requester.holder)),
        Parameter::each(requesters, Type::INT8_ARRAY, |requester| requester.ticket.map(number)),
        Parameter::one(selection.subscriptions, Type::BOOL),
    ];
    let (about, waiters) = (Parameter::list(&about), Parameter::list(&waiters));
    let marks =
        async { if selection.marks { client.query_typed(&sql.marks, &about).await } else { Ok(Vec::new()) } };
    let (leases, waiters, shares, unresponsive, marks) = tokio::join!(
        biased;
        client.query_typed(&sql.leases, &about),
        client.query_typed(&sql.waiters, &waiters),
        client.query_typed(&sql.shares, &about),
        client.query_typed(&sql.unresponsive, &about),
        marks,
    );
    read([&leases?, &waiters?, &shares?, &unresponsive?, &marks?], selection)
}

fn read(
    [leases, waiters, shares, unresponsive, marks]: [&[Row]; 5],
    selection: Selection<'_>,
) -> Result<Loaded, TransactionError> {
    let first = leases.first().ok_or_else(|| TransactionError::damaged("the server's clock says nothing"))?;
    let now = Columns(first).stamp(0)?;
    let mut loaded = Loaded { records: Records::default(), now, unsubscribed: BTreeSet::new() };
    let mut counts = BTreeMap::new();
    for row in leases {
        let row = Columns(row);
        if let Some(key) = row.maybe_key(1)? {
            lease(&row, &key, &mut loaded.records)?;
            if let Some(waiters) = row.get::<Option<i64>>(9)? {
                counts.insert(key, waiters);
            }
        }
    }
    wait_queue::read(waiters, &counts, selection.first, &mut loaded)?;
    for row in unresponsive {
        let row = Columns(row);
        if let Some(queue) = loaded.records.queues.get_mut(&row.key(0)?) {
            queue.set_unresponsive(channel::of_number(row.get(1)?));
        }
    }
    for row in shares {
        let row = Columns(row);
        let (key, holder) = (row.key(0)?, row.holder(1)?);
        let weight = u32::try_from(row.get::<i32>(2)?).map_err(TransactionError::damaged)?;
        let share = Share::new(weight, row.maybe_fence(3)?, row.label(4)?, row.stamp(5)?);
        let share = share.unclaimed_at(row.get::<Option<i64>>(6)?.map(channel::of_number));
        loaded.records.shares.entry(key).or_default().put(holder, share);
    }
    for row in marks {
        let row = Columns(row);
        let (key, Marked { mark: done, .. }) = mark(&row)?;
        let ends = row.stamp(6)?;
        loaded.records.marks.extend(done.map(|done| (key, (done, ends))));
    }
    Ok(loaded)
}

/// A transaction that has checked the fence of a share keeps its row locked, also past the end of the
/// share. Until it ends, nothing may be granted in its place. So the share counts as held for this
/// long from now: to remove it, a request of another holder would have to wait for that transaction.
const CHECKED_FOR: Duration = Duration::from_secs(1);

/// Lets shares that have ended count as held if another transaction has locked their rows. The rows of
/// their keys must be locked.
pub(crate) async fn keep_checked(
    client: &Client,
    sql: &Sql,
    loaded: &mut Loaded,
) -> Result<(), TransactionError> {
    let Loaded { records, now, .. } = loaded;
    let shares = records.shares.iter().flat_map(|(key, shares)| shares.all().map(move |it| (key, it)));
    let ended = shares.filter(|(_, (_, share))| share.ends <= *now);
    let ended: Vec<_> = ended.map(|(key, (holder, _))| (key.clone(), holder)).collect();
    if ended.is_empty() {
        return Ok(());
    }
    let parameters = [
        Parameter::each(&ended, Type::BYTEA_ARRAY, |(key, _)| key.as_bytes()),
        Parameter::each(&ended, Type::BYTEA_ARRAY, |(_, holder)| bytes(*holder)),
    ];
    let mut unlocked = BTreeSet::new();
    for row in client.query_typed(&sql.unlocked_shares, &Parameter::list(&parameters)).await? {
        let row = Columns(&row);
        unlocked.insert((row.key(0)?, row.holder(1)?));
    }
    let until = *now + CHECKED_FOR;
    for share in ended.iter().filter(|share| !unlocked.contains(*share)) {
        let (key, holder) = share;
        if let Some(shares) = records.shares.get_mut(key) {
            shares.change(*holder, |share| share.ends = until);
        }
        let lock = records.locks.get_mut(key);
        if let Some(marker) = lock.filter(|lock| matches!(lock.content, Content::Marker(_))) {
            marker.ends = marker.ends.max(Some(until));
        }
    }
    Ok(())
}

/// Reads a mark, possibly an ended one, and the clock of the server.
pub(crate) fn mark(row: &Columns<'_>) -> Result<(Key, Marked), TransactionError> {
    let mark = Mark::new(row.stamp(1)?, row.fence(2)?, row.label(3)?);
    let mark = match row.maybe_stamp(4)? {
        Some(period) => mark.every(Duration::from_micros(period.as_micros())),
        None => mark,
    };
    Ok((row.key(0)?, Marked { mark: Some(mark), now: row.stamp(5)? }))
}

/// Reads the record of a break.
pub(crate) fn broken(row: &Columns<'_>) -> Result<BreakRecord, TransactionError> {
    let note = BreakNote { by: row.label(4)?, reason: row.label(5)? };
    Ok(BreakRecord::new(row.key(0)?, row.stamp(1)?, row.fence(2)?, row.label(3)?, note))
}

/// Reads the row of a key.
fn lease(row: &Columns<'_>, key: &Key, records: &mut Records) -> Result<(), TransactionError> {
    let fence = row.maybe_fence(7)?;
    let marker = row.get::<Option<&str>>(6)?;
    if let Some(holder) = row.maybe_holder(2)? {
        if marker.is_some() {
            return Err(TransactionError::damaged("a key is held both exclusively and together"));
        }
        let content = Content::Lease {
            holder,
            fence,
            label: row.label(3)?,
            awaited: row.get::<Option<bool>>(5)? == Some(true),
        };
        records.locks.insert(key.clone(), Lock::new(content, Some(row.stamp(4)?)));
    } else if let Some(marker) = marker {
        let family = Family::read(marker)
            .ok_or_else(|| TransactionError::damaged(format_args!("a key is held {marker:?}")))?;
        records.locks.insert(key.clone(), Lock::new(Content::Marker(family), Some(row.stamp(4)?)));
    }
    if let Some(fence) = fence {
        records.fences.insert(key.clone(), LastFence::new(fence, row.stamp(8)?));
    }
    if row.get::<Option<i64>>(9)?.is_some() {
        let mut queue = WaitQueue::default();
        if let Some(holder) = row.maybe_holder(10)? {
            queue.hand_to(holder, row.get::<Option<i64>>(11)?.map(channel::of_number));
        }
        if let Some(ends) = row.maybe_stamp(12)? {
            queue.keep_until(ends);
        }
        records.queues.insert(key.clone(), queue);
    }
    Ok(())
}

pub(crate) fn has_row(records: &Records, key: &Key) -> bool {
    records.locks.contains_key(key)
        || records.fences.contains_key(key)
        || records.queues.contains_key(key)
        || records.shares.contains_key(key)
}

/// A point in time as one of the server's signed numbers; its end of time is earlier, but as
/// unreachable.
pub(crate) fn micros(stamp: Stamp) -> i64 {
    i64::try_from(stamp.as_micros()).unwrap_or(i64::MAX)
}

pub(crate) fn bytes(holder: Holder) -> Vec<u8> {
    holder.bits().to_be_bytes().into()
}

/// A ticket in the same form.
fn number(ticket: Ticket) -> i64 {
    i64::try_from(ticket.get()).unwrap_or(i64::MAX)
}
