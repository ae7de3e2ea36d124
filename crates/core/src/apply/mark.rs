//! Marks: the records that something was done.

use std::time::Duration;

use super::ApplyContext;
use crate::{Attempt, BreakRecord, HoldAnswer, Key, Mark, Marked, Mode, Records, Stamp};

/// Only an attempt that holds the keys exclusively may mark them as done; a late request of a
/// former holder has no effect.
pub fn mark(
    records: &mut Records,
    attempt: &Attempt,
    mark: &Mark,
    keep: Duration,
    context: &ApplyContext<'_>,
) -> HoldAnswer {
    let now = context.now;
    let is_alone = |key: &&Key| records.is_held_in(key, attempt.holder, Mode::Exclusive, now);
    if let Some(key) = attempt.claim.keys().find(|key| !is_alone(key)) {
        return HoldAnswer::NotHeld { key: key.clone(), held_by: records.holding(key, now) };
    }
    let ends = wall(context) + keep;
    for key in attempt.claim.keys() {
        records.marks.insert(key.clone(), (mark.clone(), ends));
    }
    HoldAnswer::Done
}

/// Returns whether the key is marked as done.
#[must_use]
pub fn marked(records: &Records, key: &Key, context: &ApplyContext<'_>) -> Marked {
    let now = wall(context);
    let mark = records.marks.get(key).filter(|(_, ends)| now < *ends).map(|(mark, _)| mark.clone());
    Marked { mark, now }
}

/// Deletes the mark of a key, so that it counts as not done. Returns the mark.
pub fn forget(records: &mut Records, key: &Key, context: &ApplyContext<'_>) -> Option<Mark> {
    let marked = marked(records, key, context).mark;
    records.marks.remove(key);
    marked
}

/// The marks of all keys with this prefix, in byte order.
#[must_use]
pub fn list_marks(records: &Records, prefix: &[u8], context: &ApplyContext<'_>) -> Vec<(Key, Marked)> {
    let keys = records.marks.keys().filter(|key| key.as_bytes().starts_with(prefix));
    let marked = keys.map(|key| (key.clone(), marked(records, key, context)));
    marked.filter(|(_, marked)| marked.mark.is_some()).collect()
}

/// The recorded breaks of all keys with this prefix, in byte order.
#[must_use]
pub fn list_breaks(records: &Records, prefix: &[u8], context: &ApplyContext<'_>) -> Vec<BreakRecord> {
    let now = wall(context);
    let breaks = records.breaks.iter().filter(|(key, _)| key.as_bytes().starts_with(prefix));
    breaks.filter(|(_, (_, ends))| now < *ends).map(|(_, (broken, _))| broken.clone()).collect()
}

/// The recorded break of a key.
#[must_use]
pub fn last_break(records: &Records, key: &Key, context: &ApplyContext<'_>) -> Option<BreakRecord> {
    let (broken, ends) = records.breaks.get(key)?;
    (wall(context) < *ends).then(|| broken.clone())
}

/// The clock that continues across restarts, as marks must.
pub(super) fn wall(context: &ApplyContext<'_>) -> Stamp {
    Stamp::from_micros(context.floor.get())
}
