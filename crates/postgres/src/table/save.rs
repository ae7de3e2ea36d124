//! Writes the changes of some keys' records, if there are any.

use leasehold_core::{
    BreakRecord, Channel, Content, Holder, Key, Label, LastFence, Lock, Mark, Nonce, QueueChanges,
    QueueEntry, Records, Share, Shares, Stamp, Ticket, WaitQueue,
};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::{bytes, has_row, micros, number};
use crate::channel;
use crate::fault::TransactionError;
use crate::sql::{Parameter, Sql, interval};

/// The row of a key, which has everything about it except its waiters and its shares.
#[derive(Debug)]
struct LeaseRow<'a> {
    key: &'a Key,
    lock: Option<&'a Lock>,
    fence: Option<&'a LastFence>,
    queue: Option<&'a WaitQueue>,
}

impl<'a> LeaseRow<'a> {
    /// The exclusive holder, its label, and whether it is awaited.
    fn lease(&self) -> Option<(Holder, Option<&'a Label>, bool)> {
        match &self.lock?.content {
            Content::Lease { holder, label, awaited, .. } => Some((*holder, label.as_ref(), *awaited)),
            _ => None,
        }
    }

    fn marker(&self) -> Option<String> {
        match &self.lock?.content {
            Content::Marker(family) => Some(family.to_string()),
            _ => None,
        }
    }

    fn is_storable(&self) -> bool {
        let is_ours = |lock: &Lock| matches!(lock.content, Content::Lease { .. } | Content::Marker(_));
        self.lock.is_none_or(|lock| lock.ends.is_some() && is_ours(lock))
    }
}

/// The differences.
#[derive(Debug, Default)]
pub(crate) struct Changes<'a> {
    leases: Vec<LeaseRow<'a>>,
    gone: Vec<&'a Key>,
    waiters: Vec<(&'a Key, Ticket, &'a QueueEntry)>,
    gone_waiters: Vec<(&'a Key, Ticket, Holder)>,
    forgotten: Vec<&'a Key>,
    unresponsive: Vec<(&'a Key, &'a Channel)>,
    lifted: Vec<(&'a Key, &'a Channel)>,
    shares: Vec<(&'a Key, Holder, &'a Share)>,
    gone_shares: Vec<(&'a Key, Holder)>,
    pub(crate) marks: Vec<(&'a Key, &'a (Mark, Stamp))>,
    pub(crate) breaks: Vec<(&'a Key, &'a (BreakRecord, Stamp))>,
    /// The number of new rows.
    pub(crate) added: usize,
}

impl<'a> Changes<'a> {
    /// The changes of some keys. The clock is for ended records.
    pub(crate) fn between(keys: &'a [Key], before: &'a Records, after: &'a Records, now: Stamp) -> Self {
        let mut changes = Self::default();
        for key in keys {
            changes.of_queue(key, before, after, now);
            changes.of_shares(key, before.shares.get(key), after.shares.get(key));
            let (had, has) = (has_row(before, key), has_row(after, key));
            let row = |records: &'a Records| {
                let queue =
                    records.queues.get(key).map(|queue| (queue.len(), queue.unclaimed(), queue.ends()));
                (records.locks.get(key), records.fences.get(key), queue)
            };
            if !has {
                changes.gone.push(key);
            } else if row(before) != row(after) {
                let (lock, fence) = (after.locks.get(key), after.fences.get(key));
                changes.leases.push(LeaseRow { key, lock, fence, queue: after.queues.get(key) });
            }
            changes.added += usize::from(has && !had);
        }
        let new = after.marks.iter().filter(|(key, mark)| before.marks.get(*key) != Some(*mark));
        changes.marks.extend(new);
        let new = after.breaks.iter().filter(|(key, broken)| before.breaks.get(*key) != Some(*broken));
        changes.breaks.extend(new);
        changes
    }

    fn of_queue(&mut self, key: &'a Key, before: &'a Records, after: &'a Records, now: Stamp) {
        let changes = QueueChanges::between(key, before, after, now);
        self.forgotten.extend(changes.is_forgotten.then_some(key));
        self.gone_waiters.extend(changes.gone.into_iter().map(|(ticket, holder)| (key, ticket, holder)));
        self.waiters.extend(changes.new.into_iter().map(|(ticket, waiter)| (key, ticket, waiter)));
        self.lifted.extend(changes.responsive.into_iter().map(|channel| (key, channel)));
        self.unresponsive.extend(changes.unresponsive.into_iter().map(|channel| (key, channel)));
    }

    fn of_shares(&mut self, key: &'a Key, was: Option<&'a Shares>, is: Option<&'a Shares>) {
        for (holder, _) in was.into_iter().flat_map(Shares::all) {
            if is.and_then(|shares| shares.of(holder)).is_none() {
                self.gone_shares.push((key, holder));
            }
        }
        for (holder, share) in is.into_iter().flat_map(Shares::all) {
            if was.and_then(|shares| shares.of(holder)) != Some(share) {
                self.shares.push((key, holder, share));
            }
        }
    }
}

/// Writes the changes in one round trip.
pub(crate) async fn save(client: &Client, sql: &Sql, changes: &Changes<'_>) -> Result<(), TransactionError> {
    tokio::try_join!(
        biased;
        save_leases(client, sql, &changes.leases),
        delete(client, &sql.delete_leases, &changes.gone),
        delete(client, &sql.forget_waiters, &changes.forgotten),
        delete(client, &sql.forget_unresponsive, &changes.forgotten),
        delete_waiters(client, sql, &changes.gone_waiters),
        save_waiters(client, sql, &changes.waiters),
        change_unresponsive(client, &sql.delete_unresponsive, &changes.lifted),
        change_unresponsive(client, &sql.save_unresponsive, &changes.unresponsive),
        delete_shares(client, sql, &changes.gone_shares),
        save_shares(client, sql, &changes.shares),
        save_marks(client, sql, &changes.marks),
        save_breaks(client, sql, &changes.breaks),
    )
    .map(drop)
}

/// Runs a statement for these rows, if there are any.
async fn run<R>(
    client: &Client,
    statement: &str,
    rows: &[R],
    columns: &[Parameter<'_>],
) -> Result<(), TransactionError> {
    if !rows.is_empty() {
        client.execute_typed(statement, &Parameter::list(columns)).await?;
    }
    Ok(())
}

async fn save_leases(client: &Client, sql: &Sql, rows: &[LeaseRow<'_>]) -> Result<(), TransactionError> {
    if !rows.iter().all(LeaseRow::is_storable) {
        return Err(TransactionError::damaged("only leases with an end have a place in the tables"));
    }
    let unclaimed = |row: &LeaseRow<'_>| row.queue.and_then(WaitQueue::unclaimed).cloned();
    let columns = [
        Parameter::each(rows, Type::BYTEA_ARRAY, |row| row.key.as_bytes()),
        Parameter::each(rows, Type::BYTEA_ARRAY, |row| row.lease().map(|(holder, ..)| bytes(holder))),
        Parameter::each(rows, Type::TEXT_ARRAY, |row| row.lease()?.1.map(Label::as_str)),
        Parameter::each(rows, Type::INT8_ARRAY, |row| row.lock?.ends.map(micros)),
        Parameter::each(rows, Type::BOOL_ARRAY, |row| row.lease().map(|(.., awaited)| awaited)),
        Parameter::each(rows, Type::TEXT_ARRAY, LeaseRow::marker),
        Parameter::each(rows, Type::INT8_ARRAY, |row| row.fence.map(|last| i64::from(last.fence))),
        Parameter::each(rows, Type::INT8_ARRAY, |row| row.fence.map(|last| micros(last.ends))),
        Parameter::each(rows, Type::INT8_ARRAY, |row| {
            row.queue.map(|queue| i64::try_from(queue.len()).unwrap_or(i64::MAX))
        }),
        Parameter::each(rows, Type::BYTEA_ARRAY, |row| {
            unclaimed(row).map(|unclaimed| bytes(unclaimed.holder))
        }),
        Parameter::each(rows, Type::INT8_ARRAY, |row| channel::number(unclaimed(row)?.channel.as_ref()?)),
        Parameter::each(rows, Type::INT8_ARRAY, |row| row.queue.and_then(WaitQueue::ends).map(micros)),
    ];
    run(client, &sql.save_leases, rows, &columns).await
}

async fn delete(client: &Client, statement: &str, keys: &[&Key]) -> Result<(), TransactionError> {
    run(client, statement, keys, &[Parameter::each(keys, Type::BYTEA_ARRAY, |key| key.as_bytes())]).await
}

async fn delete_waiters(
    client: &Client,
    sql: &Sql,
    gone: &[(&Key, Ticket, Holder)],
) -> Result<(), TransactionError> {
    let columns = [
        Parameter::each(gone, Type::BYTEA_ARRAY, |(key, ..)| key.as_bytes()),
        Parameter::each(gone, Type::INT8_ARRAY, |(_, ticket, _)| number(*ticket)),
        Parameter::each(gone, Type::BYTEA_ARRAY, |(.., holder)| bytes(*holder)),
    ];
    run(client, &sql.delete_waiters, gone, &columns).await
}

async fn save_waiters(
    client: &Client,
    sql: &Sql,
    waiters: &[(&Key, Ticket, &QueueEntry)],
) -> Result<(), TransactionError> {
    let columns = [
        Parameter::each(waiters, Type::BYTEA_ARRAY, |(key, ..)| key.as_bytes()),
        Parameter::each(waiters, Type::INT8_ARRAY, |(_, ticket, _)| number(*ticket)),
        Parameter::each(waiters, Type::BYTEA_ARRAY, |(.., waiter)| bytes(waiter.holder)),
        Parameter::each(waiters, Type::TEXT_ARRAY, |(.., waiter)| waiter.label.as_ref().map(Label::as_str)),
        Parameter::each(waiters, Type::TEXT_ARRAY, |(.., waiter)| waiter.mode.to_string()),
        Parameter::each(waiters, Type::INT8_ARRAY, |(.., waiter)| {
            i64::try_from(waiter.ttl.as_millis()).unwrap_or(i64::MAX)
        }),
        Parameter::each(waiters, Type::INT8_ARRAY, |(.., waiter)| channel::number(waiter.channel.as_ref()?)),
        Parameter::each(waiters, Type::BYTEA_ARRAY, |(.., waiter)| {
            waiter.nonce.map(Nonce::digit_bytes).map(Vec::from)
        }),
        Parameter::each(waiters, Type::BOOL_ARRAY, |(.., waiter)| waiter.wants_more),
    ];
    run(client, &sql.save_waiters, waiters, &columns).await
}

async fn change_unresponsive(
    client: &Client,
    statement: &str,
    unresponsive: &[(&Key, &Channel)],
) -> Result<(), TransactionError> {
    let known =
        |(key, channel): &(&'_ Key, &Channel)| Some((key.as_bytes().to_vec(), channel::number(channel)?));
    let known: Vec<_> = unresponsive.iter().filter_map(known).collect();
    let columns = [
        Parameter::each(&known, Type::BYTEA_ARRAY, |(key, _)| key),
        Parameter::each(&known, Type::INT8_ARRAY, |(_, number)| *number),
    ];
    run(client, statement, &known, &columns).await
}

async fn delete_shares(client: &Client, sql: &Sql, gone: &[(&Key, Holder)]) -> Result<(), TransactionError> {
    let columns = [
        Parameter::each(gone, Type::BYTEA_ARRAY, |(key, _)| key.as_bytes()),
        Parameter::each(gone, Type::BYTEA_ARRAY, |(_, holder)| bytes(*holder)),
    ];
    run(client, &sql.delete_shares, gone, &columns).await
}

async fn save_shares(
    client: &Client,
    sql: &Sql,
    shares: &[(&Key, Holder, &Share)],
) -> Result<(), TransactionError> {
    let columns = [
        Parameter::each(shares, Type::BYTEA_ARRAY, |(key, ..)| key.as_bytes()),
        Parameter::each(shares, Type::BYTEA_ARRAY, |(_, holder, _)| bytes(*holder)),
        Parameter::each(shares, Type::INT4_ARRAY, |(.., share)| {
            i32::try_from(share.weight).unwrap_or(i32::MAX)
        }),
        Parameter::each(shares, Type::INT8_ARRAY, |(.., share)| share.fence.map(i64::from)),
        Parameter::each(shares, Type::TEXT_ARRAY, |(.., share)| share.label.as_ref().map(Label::as_str)),
        Parameter::each(shares, Type::INT8_ARRAY, |(.., share)| micros(share.ends)),
        Parameter::each(shares, Type::INT8_ARRAY, |(.., share)| channel::number(share.unclaimed.as_ref()?)),
    ];
    run(client, &sql.save_shares, shares, &columns).await
}

async fn save_marks(
    client: &Client,
    sql: &Sql,
    marks: &[(&Key, &(Mark, Stamp))],
) -> Result<(), TransactionError> {
    let columns = [
        Parameter::each(marks, Type::BYTEA_ARRAY, |(key, _)| key.as_bytes()),
        Parameter::each(marks, Type::INT8_ARRAY, |(_, (mark, _))| micros(mark.at)),
        Parameter::each(marks, Type::INT8_ARRAY, |(_, (mark, _))| i64::from(mark.fence)),
        Parameter::each(marks, Type::TEXT_ARRAY, |(_, (mark, _))| mark.label.as_ref().map(Label::as_str)),
        Parameter::each(marks, Type::INT8_ARRAY, |(_, (mark, _))| mark.period.map(interval)),
        Parameter::each(marks, Type::INT8_ARRAY, |(_, (_, ends))| micros(*ends)),
    ];
    run(client, &sql.save_marks, marks, &columns).await
}

async fn save_breaks(
    client: &Client,
    sql: &Sql,
    breaks: &[(&Key, &(BreakRecord, Stamp))],
) -> Result<(), TransactionError> {
    let label = |label: &'_ Option<Label>| label.as_ref().map(|label| label.as_str().to_owned());
    let columns = [
        Parameter::each(breaks, Type::BYTEA_ARRAY, |(key, _)| key.as_bytes()),
        Parameter::each(breaks, Type::INT8_ARRAY, |(_, (broken, _))| micros(broken.at)),
        Parameter::each(breaks, Type::INT8_ARRAY, |(_, (broken, _))| i64::from(broken.fence)),
        Parameter::each(breaks, Type::TEXT_ARRAY, |(_, (broken, _))| label(&broken.held_by)),
        Parameter::each(breaks, Type::TEXT_ARRAY, |(_, (broken, _))| label(&broken.note.by)),
        Parameter::each(breaks, Type::TEXT_ARRAY, |(_, (broken, _))| label(&broken.note.reason)),
        Parameter::each(breaks, Type::INT8_ARRAY, |(_, (_, ends))| micros(*ends)),
    ];
    run(client, &sql.save_breaks, breaks, &columns).await
}
