//! The queue of a key: only the waiters that a request needs are read and written.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::{Holder, Key, Mode, Nonce, QueueEntry, Stamp, Ticket, Ttl};
use tokio_postgres::Row;

use super::Loaded;
use super::row::Columns;
use crate::channel;
use crate::fault::TransactionError;

type QueueSlot = (Ticket, Holder);

/// The loaded part of one queue.
#[derive(Default)]
struct Part {
    head: u64,
    head_ends: Option<QueueSlot>,
    /// Waiters behind the head, or their claimed places; for requesters with the number of waiters
    /// before them.
    behind: BTreeMap<QueueSlot, Option<u64>>,
    last: Option<QueueSlot>,
    /// Those of the places behind the head that are taken.
    stands: Vec<QueueSlot>,
}

/// Puts the loaded waiters into their queues, with the numbers of the others between them.
pub(super) fn read(
    rows: &[Row],
    counts: &BTreeMap<Key, i64>,
    first: i64,
    loaded: &mut Loaded,
) -> Result<(), TransactionError> {
    let mut parts: BTreeMap<Key, Part> = BTreeMap::new();
    for row in rows {
        let row = Columns(row);
        let key = row.key(0)?;
        let Some(queue) = loaded.records.queues.get_mut(&key) else { continue };
        let slot = (ticket(&row, 1)?, row.holder(2)?);
        let part = parts.entry(key).or_default();
        let which: i64 = row.get(9)?;
        if row.get::<bool>(11)? {
            let waiter = queue_entry(&row, slot.1)?;
            if let (Some(channel), Some(false)) = (&waiter.channel, row.get::<Option<bool>>(12)?) {
                loaded.unsubscribed.insert(channel.clone());
            }
            queue.join(waiter, Some(slot.0), Stamp::from_micros(0));
            part.stands.push(slot);
        }
        if which == 0 {
            part.head += 1;
            part.head_ends = part.head_ends.max(Some(slot));
        } else {
            // The last waiter (1), or a requester (2).
            let before = row.get::<Option<i64>>(10)?.map(i64::unsigned_abs);
            let known = part.behind.entry(slot).or_default();
            *known = known.or(before);
            if which == 1 {
                part.last = Some(slot);
            }
        }
    }
    for (key, part) in parts {
        // A head that is not full is the whole queue, whatever the number says.
        if part.head < first.unsigned_abs() {
            continue;
        }
        let Some(queue) = loaded.records.queues.get_mut(&key) else { continue };
        let Part { head, head_ends, behind, last, stands } = part;
        let total = counts.get(&key).copied().unwrap_or(0).unsigned_abs();
        let mut covered = head;
        for (slot, before) in behind {
            if Some(slot) <= head_ends {
                continue;
            }
            let before = if Some(slot) == last { total.saturating_sub(1) } else { before.unwrap_or(covered) };
            let hidden = before.saturating_sub(covered);
            queue.leave_out(hidden, slot);
            covered += hidden + u64::from(stands.contains(&slot));
        }
    }
    Ok(())
}

pub(crate) fn ticket(row: &Columns<'_>, at: usize) -> Result<Ticket, TransactionError> {
    let number: i64 = row.get(at)?;
    u64::try_from(number)
        .map(Ticket::new)
        .map_err(|_| TransactionError::damaged(format_args!("a ticket is {number}")))
}

fn queue_entry(row: &Columns<'_>, holder: Holder) -> Result<QueueEntry, TransactionError> {
    let mode: &str = row.get(4)?;
    let mode = Mode::read(mode)
        .ok_or_else(|| TransactionError::damaged(format_args!("somebody waits in mode {mode:?}")))?;
    let ttl: i64 = row.get(5)?;
    let ttl = u64::try_from(ttl).ok().and_then(|ttl| Ttl::new(Duration::from_millis(ttl)).ok());
    let ttl = ttl.ok_or_else(|| TransactionError::damaged("the ttl of a waiter is out of bounds"))?;
    let channel: Option<i64> = row.get(6)?;
    let nonce: Option<&[u8]> = row.get(7)?;
    let waiter =
        QueueEntry::new(holder, row.label(3)?, mode, ttl, channel.map(channel::of_number), row.get(8)?);
    Ok(waiter.with_nonce(nonce.and_then(Nonce::from_digits)))
}
