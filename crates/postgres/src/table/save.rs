//! Writes the changes of some keys' records, if there are any.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_core::{
    Channel, Content, Holder, Key, Lock, Nonce, QueueEntry, Records, Shares, Stamp, Ticket, WaitQueue,
};
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::{bytes, fence_number, has_row, micros, number, text};
use crate::channel;
use crate::sql::Sql;
use crate::transaction_error::TransactionError;

type QueueSlot = (Ticket, Holder);

/// The differences.
#[derive(Debug, Default)]
pub(crate) struct Changes<'a> {
    leases: Vec<&'a Key>,
    gone: Vec<&'a Key>,
    waiters: Vec<(&'a Key, Ticket, &'a QueueEntry)>,
    gone_waiters: Vec<(&'a Key, QueueSlot)>,
    forgotten: Vec<&'a Key>,
    unresponsive: Vec<(&'a Key, &'a Channel)>,
    lifted: Vec<(&'a Key, &'a Channel)>,
    shares: Vec<(&'a Key, Holder)>,
    gone_shares: Vec<(&'a Key, Holder)>,
    marks: Vec<&'a Key>,
    breaks: Vec<&'a Key>,
    /// The number of new rows.
    pub(crate) added: usize,
}

impl<'a> Changes<'a> {
    /// The changes of some keys. The clock is for ended records.
    pub(crate) fn between(keys: &'a [Key], before: &'a Records, after: &'a Records, now: Stamp) -> Self {
        let mut changes = Self::default();
        for key in keys {
            changes.of_line(key, before, after, now);
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
                changes.leases.push(key);
            }
            changes.added += usize::from(has && !had);
        }
        let new = after.marks.iter().filter(|(key, mark)| before.marks.get(*key) != Some(*mark));
        changes.marks.extend(new.map(|(key, _)| key));
        let new = after.breaks.iter().filter(|(key, broken)| before.breaks.get(*key) != Some(*broken));
        changes.breaks.extend(new.map(|(key, _)| key));
        changes
    }

    /// Returns true if there is nothing to write; a row that was created only for locking it is
    /// rolled back with the transaction.
    pub(crate) fn is_nothing(&self, before: &Records) -> bool {
        self.leases.is_empty()
            && self.gone.iter().all(|key| !has_row(before, key))
            && self.waiters.is_empty()
            && self.gone_waiters.is_empty()
            && self.forgotten.is_empty()
            && self.unresponsive.is_empty()
            && self.lifted.is_empty()
            && self.shares.is_empty()
            && self.gone_shares.is_empty()
            && self.marks.is_empty()
            && self.breaks.is_empty()
    }

    pub(crate) fn has_marks(&self) -> bool {
        !self.marks.is_empty()
    }

    pub(crate) fn has_breaks(&self) -> bool {
        !self.breaks.is_empty()
    }

    fn of_line(&mut self, key: &'a Key, before: &'a Records, after: &'a Records, now: Stamp) {
        let mut was = before.queues.get(key);
        let is = after.queues.get(key);
        // A queue that has ended is not continued by the next one, so waiters that were not read
        // are removed too.
        if was.is_some() && (is.is_none() || before.queue(key, now).is_none()) {
            self.forgotten.push(key);
            was = None;
        }
        let (stood, stand) = (places(was), places(is));
        self.gone_waiters
            .extend(stood.keys().filter(|slot| !stand.contains_key(*slot)).map(|slot| (key, *slot)));
        let new = stand.iter().filter(|(slot, waiter)| stood.get(*slot) != Some(*waiter));
        self.waiters.extend(new.map(|((ticket, _), waiter)| (key, *ticket, *waiter)));
        let unresponsive = |queue: Option<&'a WaitQueue>| -> BTreeSet<&'a Channel> {
            queue.map(|queue| queue.unresponsive().collect()).unwrap_or_default()
        };
        let (was, is) = (unresponsive(was), unresponsive(is));
        self.lifted.extend(was.difference(&is).map(|channel| (key, *channel)));
        self.unresponsive.extend(is.difference(&was).map(|channel| (key, *channel)));
    }

    fn of_shares(&mut self, key: &'a Key, was: Option<&'a Shares>, is: Option<&'a Shares>) {
        for (holder, _) in was.into_iter().flat_map(Shares::all) {
            if is.and_then(|shares| shares.of(holder)).is_none() {
                self.gone_shares.push((key, holder));
            }
        }
        for (holder, share) in is.into_iter().flat_map(Shares::all) {
            if was.and_then(|shares| shares.of(holder)) != Some(share) {
                self.shares.push((key, holder));
            }
        }
    }
}

fn places(queue: Option<&WaitQueue>) -> BTreeMap<QueueSlot, &QueueEntry> {
    let waiters = queue.into_iter().flat_map(WaitQueue::waiters);
    waiters.map(|(ticket, waiter)| ((ticket, waiter.holder), waiter)).collect()
}

/// A statement that is skipped if it would do nothing.
async fn unless(
    nothing: bool,
    client: &Client,
    statement: &str,
    parameters: &[(&(dyn ToSql + Sync), Type)],
) -> Result<(), TransactionError> {
    if !nothing {
        client.execute_typed(statement, parameters).await?;
    }
    Ok(())
}

/// Writes the changes in one round trip.
pub(crate) async fn save(
    client: &Client,
    sql: &Sql,
    changes: &Changes<'_>,
    after: &Records,
) -> Result<(), TransactionError> {
    tokio::try_join!(
        biased;
        save_leases(client, sql, &changes.leases, after),
        delete(client, &sql.delete_leases, &changes.gone),
        delete(client, &sql.forget_waiters, &changes.forgotten),
        delete(client, &sql.forget_unresponsive, &changes.forgotten),
        delete_waiters(client, sql, &changes.gone_waiters),
        save_waiters(client, sql, &changes.waiters),
        change_unresponsive(client, &sql.delete_unresponsive, &changes.lifted),
        change_unresponsive(client, &sql.save_unresponsive, &changes.unresponsive),
        delete_shares(client, sql, &changes.gone_shares),
        save_shares(client, sql, &changes.shares, after),
        save_marks(client, sql, &changes.marks, after),
        save_breaks(client, sql, &changes.breaks, after),
    )
    .map(drop)
}

async fn save_leases(
    client: &Client,
    sql: &Sql,
    keys: &[&Key],
    after: &Records,
) -> Result<(), TransactionError> {
    let (mut holders, mut labels, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let (mut awaited, mut markers) = (Vec::new(), Vec::new());
    let (mut fences, mut fence_ends, mut waiters) = (Vec::new(), Vec::new(), Vec::new());
    let (mut handed, mut handed_on, mut queue_ends) = (Vec::new(), Vec::new(), Vec::new());
    for key in keys {
        let (mut holder, mut label, mut until, mut told, mut marker) = (None, None, None, None, None);
        match after.locks.get(*key) {
            None => {}
            Some(Lock {
                content: Content::Lease { holder: by, label: says, awaited, .. },
                ends: Some(end),
                ..
            }) => {
                (holder, label) = (Some(bytes(*by)), says.as_ref().map(text));
                (until, told) = (Some(micros(*end)), Some(*awaited));
            }
            Some(Lock { content: Content::Marker(family), ends: Some(end), .. }) => {
                (marker, until) = (Some(family.to_string()), Some(micros(*end)));
            }
            Some(_) => {
                return Err(TransactionError::damaged("only leases with an end have a place in the tables"));
            }
        }
        let (fence, queue) = (after.fences.get(*key), after.queues.get(*key));
        let unclaimed = queue.and_then(WaitQueue::unclaimed);
        holders.push(holder);
        labels.push(label);
        ends.push(until);
        awaited.push(told);
        markers.push(marker);
        fences.push(fence.map(|last| fence_number(last.fence)));
        fence_ends.push(fence.map(|last| micros(last.ends)));
        waiters.push(queue.map(|queue| i64::try_from(queue.len()).unwrap_or(i64::MAX)));
        handed.push(unclaimed.map(|unclaimed| bytes(unclaimed.holder)));
        handed_on.push(unclaimed.and_then(|unclaimed| unclaimed.channel.as_ref()).and_then(channel::number));
        queue_ends.push(queue.and_then(WaitQueue::ends).map(micros));
    }
    let (keys, holders, handed) = (raw(keys), optional(&holders), optional(&handed));
    unless(
        keys.is_empty(),
        client,
        &sql.save_leases,
        &[
            (&keys, Type::BYTEA_ARRAY),
            (&holders, Type::BYTEA_ARRAY),
            (&labels, Type::TEXT_ARRAY),
            (&ends, Type::INT8_ARRAY),
            (&awaited, Type::BOOL_ARRAY),
            (&markers, Type::TEXT_ARRAY),
            (&fences, Type::INT8_ARRAY),
            (&fence_ends, Type::INT8_ARRAY),
            (&waiters, Type::INT8_ARRAY),
            (&handed, Type::BYTEA_ARRAY),
            (&handed_on, Type::INT8_ARRAY),
            (&queue_ends, Type::INT8_ARRAY),
        ],
    )
    .await
}

async fn delete(client: &Client, statement: &str, keys: &[&Key]) -> Result<(), TransactionError> {
    let keys = raw(keys);
    unless(keys.is_empty(), client, statement, &[(&keys, Type::BYTEA_ARRAY)]).await
}

async fn delete_waiters(
    client: &Client,
    sql: &Sql,
    gone: &[(&Key, QueueSlot)],
) -> Result<(), TransactionError> {
    let keys: Vec<_> = gone.iter().map(|(key, _)| key.as_bytes()).collect();
    let tickets: Vec<_> = gone.iter().map(|(_, (ticket, _))| number(*ticket)).collect();
    let holders: Vec<_> = gone.iter().map(|(_, (_, holder))| bytes(*holder)).collect();
    let holders: Vec<_> = holders.iter().map(|holder| &holder[..]).collect();
    unless(
        gone.is_empty(),
        client,
        &sql.delete_waiters,
        &[(&keys, Type::BYTEA_ARRAY), (&tickets, Type::INT8_ARRAY), (&holders, Type::BYTEA_ARRAY)],
    )
    .await
}

async fn save_waiters(
    client: &Client,
    sql: &Sql,
    waiters: &[(&Key, Ticket, &QueueEntry)],
) -> Result<(), TransactionError> {
    let (mut keys, mut tickets, mut holders, mut labels) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut modes, mut ttls, mut channels, mut nonces) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut want_more = Vec::new();
    for (key, ticket, waiter) in waiters {
        keys.push(key.as_bytes());
        tickets.push(number(*ticket));
        holders.push(Some(bytes(waiter.holder)));
        labels.push(waiter.label.as_ref().map(text));
        modes.push(waiter.mode.to_string());
        ttls.push(i64::try_from(waiter.ttl.as_millis()).unwrap_or(i64::MAX));
        channels.push(waiter.channel.as_ref().and_then(channel::number));
        nonces.push(waiter.nonce.map(Nonce::digit_bytes));
        want_more.push(waiter.wants_more);
    }
    let (holders, nonces) = (optional(&holders), optional(&nonces));
    unless(
        waiters.is_empty(),
        client,
        &sql.save_waiters,
        &[
            (&keys, Type::BYTEA_ARRAY),
            (&tickets, Type::INT8_ARRAY),
            (&holders, Type::BYTEA_ARRAY),
            (&labels, Type::TEXT_ARRAY),
            (&modes, Type::TEXT_ARRAY),
            (&ttls, Type::INT8_ARRAY),
            (&channels, Type::INT8_ARRAY),
            (&nonces, Type::BYTEA_ARRAY),
            (&want_more, Type::BOOL_ARRAY),
        ],
    )
    .await
}

async fn change_unresponsive(
    client: &Client,
    statement: &str,
    unresponsive: &[(&Key, &Channel)],
) -> Result<(), TransactionError> {
    let known = |(key, channel): &(&'_ Key, &Channel)| {
        channel::number(channel).map(|number| (key.as_bytes().to_vec(), number))
    };
    let (keys, channels): (Vec<_>, Vec<_>) = unresponsive.iter().filter_map(known).unzip();
    unless(keys.is_empty(), client, statement, &[(&keys, Type::BYTEA_ARRAY), (&channels, Type::INT8_ARRAY)])
        .await
}

async fn delete_shares(client: &Client, sql: &Sql, gone: &[(&Key, Holder)]) -> Result<(), TransactionError> {
    let keys: Vec<_> = gone.iter().map(|(key, _)| key.as_bytes()).collect();
    let holders: Vec<_> = gone.iter().map(|(_, holder)| bytes(*holder)).collect();
    let holders: Vec<_> = holders.iter().map(|holder| &holder[..]).collect();
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&keys, Type::BYTEA_ARRAY), (&holders, Type::BYTEA_ARRAY)];
    unless(gone.is_empty(), client, &sql.delete_shares, &parameters).await
}

async fn save_shares(
    client: &Client,
    sql: &Sql,
    shares: &[(&Key, Holder)],
    after: &Records,
) -> Result<(), TransactionError> {
    let (mut keys, mut holders, mut weights, mut fences) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut labels, mut ends, mut unclaimed) = (Vec::new(), Vec::new(), Vec::new());
    for (key, holder) in shares {
        let Some(share) = after.shares.get(*key).and_then(|shares| shares.of(*holder)) else { continue };
        keys.push(key.as_bytes());
        holders.push(Some(bytes(*holder)));
        weights.push(i32::try_from(share.weight).unwrap_or(i32::MAX));
        fences.push(share.fence.map(fence_number));
        labels.push(share.label.as_ref().map(text));
        ends.push(micros(share.ends));
        unclaimed.push(share.unclaimed.as_ref().and_then(channel::number));
    }
    let holders = optional(&holders);
    unless(
        keys.is_empty(),
        client,
        &sql.save_shares,
        &[
            (&keys, Type::BYTEA_ARRAY),
            (&holders, Type::BYTEA_ARRAY),
            (&weights, Type::INT4_ARRAY),
            (&fences, Type::INT8_ARRAY),
            (&labels, Type::TEXT_ARRAY),
            (&ends, Type::INT8_ARRAY),
            (&unclaimed, Type::INT8_ARRAY),
        ],
    )
    .await
}

async fn save_marks(
    client: &Client,
    sql: &Sql,
    marks: &[&Key],
    after: &Records,
) -> Result<(), TransactionError> {
    let (mut keys, mut ats, mut fences) = (Vec::new(), Vec::new(), Vec::new());
    let (mut labels, mut periods, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for key in marks {
        let Some((mark, end)) = after.marks.get(*key) else { continue };
        keys.push(key.as_bytes());
        ats.push(micros(mark.at));
        fences.push(fence_number(mark.fence));
        labels.push(mark.label.as_ref().map(text));
        periods.push(mark.period.map(|period| i64::try_from(period.as_micros()).unwrap_or(i64::MAX)));
        ends.push(micros(*end));
    }
    unless(
        keys.is_empty(),
        client,
        &sql.save_marks,
        &[
            (&keys, Type::BYTEA_ARRAY),
            (&ats, Type::INT8_ARRAY),
            (&fences, Type::INT8_ARRAY),
            (&labels, Type::TEXT_ARRAY),
            (&periods, Type::INT8_ARRAY),
            (&ends, Type::INT8_ARRAY),
        ],
    )
    .await
}

async fn save_breaks(
    client: &Client,
    sql: &Sql,
    breaks: &[&Key],
    after: &Records,
) -> Result<(), TransactionError> {
    let (mut keys, mut ats, mut fences, mut ends) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut held, mut by, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
    for key in breaks {
        let Some((broken, end)) = after.breaks.get(*key) else { continue };
        keys.push(key.as_bytes());
        ats.push(micros(broken.at));
        fences.push(fence_number(broken.fence));
        held.push(broken.held_by.as_ref().map(text));
        by.push(broken.note.by.as_ref().map(text));
        reasons.push(broken.note.reason.as_ref().map(text));
        ends.push(micros(*end));
    }
    unless(
        keys.is_empty(),
        client,
        &sql.save_breaks,
        &[
            (&keys, Type::BYTEA_ARRAY),
            (&ats, Type::INT8_ARRAY),
            (&fences, Type::INT8_ARRAY),
            (&held, Type::TEXT_ARRAY),
            (&by, Type::TEXT_ARRAY),
            (&reasons, Type::TEXT_ARRAY),
            (&ends, Type::INT8_ARRAY),
        ],
    )
    .await
}

fn raw<'a>(keys: &[&'a Key]) -> Vec<&'a [u8]> {
    keys.iter().map(|key| key.as_bytes()).collect()
}

fn optional<const N: usize>(values: &[Option<[u8; N]>]) -> Vec<Option<&[u8]>> {
    values.iter().map(|value| value.as_ref().map(|bytes| &bytes[..])).collect()
}
