//! What stays behind when something was done.

use std::time::Duration;

use super::Scene;
use crate::{Attempt, HoldAnswer, Key, Mark, Marked, Mode, Records, Stamp};

/// Whoever holds the keys alone may say that what they stand for was done; a late word of somebody who does not hold them any more
/// counts for nothing.
pub fn mark(
    records: &mut Records,
    attempt: &Attempt,
    mark: &Mark,
    keep: Duration,
    scene: &Scene<'_>,
) -> HoldAnswer {
    let now = scene.now;
    let is_alone = |key: &&Key| records.is_held_in(key, attempt.holder, Mode::Exclusive, now);
    if let Some(key) = attempt.claim.keys().find(|key| !is_alone(key)) {
        return HoldAnswer::NotHeld { key: key.clone(), held_by: records.tenancy(key, now) };
    }
    let ends = wall(scene) + keep;
    for key in attempt.claim.keys() {
        records.marks.insert(key.clone(), (mark.clone(), ends));
    }
    HoldAnswer::Done
}

/// Says whether what the key stands for was done.
#[must_use]
pub fn marked(records: &Records, key: &Key, scene: &Scene<'_>) -> Marked {
    let now = wall(scene);
    let mark = records.marks.get(key).filter(|(_, ends)| now < *ends).map(|(mark, _)| mark.clone());
    Marked { mark, now }
}

/// The clock that outlasts restarts, which marks must too.
fn wall(scene: &Scene<'_>) -> Stamp {
    Stamp::from_micros(scene.floor.get())
}
