//! Handing a free key to who has waited for it longest.

use super::{Scene, Told};
use crate::{Content, Fence, Holder, Key, Line, Lock, News, Push, Records, Stamp};

/// Whose turn it is at a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nobody waits, and nobody holds the key.
    Anybodys,
    /// Who asks stands first and has just been taken out of the line.
    Asking,
    /// Somebody holds the key.
    Anothers,
    /// Nobody holds the key, and more waiters were gone than one request clears away.
    Unknown,
}

/// Hands a key, if it is free, to the first of its line who can be told. Who asks needs not be told.
///
/// The push may get lost, and who was told may be dead all the same: so the lock lasts a window only, and it is written down
/// that it was not claimed yet. If it ends unclaimed, everybody who listens there is passed over until heard again; a process
/// that is gone costs one window, however many of its waiters stand in line.
pub(super) fn advance(
    records: &mut Records,
    key: &Key,
    asking: Option<Holder>,
    scene: &Scene<'_>,
    told: &mut Told,
) -> Turn {
    let held = records.lock(key, scene.now).is_some();
    let nobody = if held { Turn::Anothers } else { Turn::Anybodys };
    forget_ended(records, key, scene.now);
    let Some(mut line) = records.lines.remove(key) else { return nobody };
    if let Some(unclaimed) = line.unclaimed()
        && !records.is_held_by(key, unclaimed.holder, scene.now)
    {
        line.strike_unclaimed();
    }
    let turn = if held { Turn::Anothers } else { next(records, &mut line, key, asking, scene, told) };
    put_back(records, key, line);
    turn
}

fn next(
    records: &mut Records,
    line: &mut Line,
    key: &Key,
    asking: Option<Holder>,
    scene: &Scene<'_>,
    told: &mut Told,
) -> Turn {
    let mut cleared = 0;
    while let Some(first) = line.first() {
        if asking == Some(first.holder) {
            line.pop();
            return Turn::Asking;
        }
        if cleared == Line::CLEARED_AT_ONCE {
            told.unfinished.push(key.clone());
            return Turn::Unknown;
        }
        let Some(standing) = line.pop() else { break };
        let hears = standing.channel.as_ref().is_none_or(|channel| scene.ears.listens(channel));
        if !hears || line.is_struck(&standing) {
            cleared += 1;
            continue;
        }
        let lasts = standing.ttl.up_to(scene.window);
        let news = if standing.wants_more {
            News::AskAgain
        } else {
            let Some(fence) = Fence::next(records.fence(key, scene.now), scene.floor) else {
                // It is told why by the answer.
                told.push(key, standing.channel, standing.holder, News::AskAgain);
                cleared += 1;
                continue;
            };
            records.remember(key, fence, standing.ttl, scene.now);
            News::Granted { fence, lasts }
        };
        let awaited = !line.is_empty();
        let content = Content::Lease { holder: standing.holder, label: standing.label, awaited };
        records.locks.insert(key.clone(), Lock::new(content, Some(scene.now + lasts.duration())));
        told.push(key, standing.channel.clone(), standing.holder, news);
        if let Some(witness) = line.witness(standing.channel.as_ref()) {
            told.push(key, witness.channel, witness.holder, News::First { left: lasts.duration() });
            line.hand_to(standing.holder, standing.channel);
        }
        return Turn::Anothers;
    }
    Turn::Anybodys
}

/// Who was handed a key has been heard.
pub(super) fn claim(records: &mut Records, key: &Key, holder: Holder) {
    if let Some(mut line) = records.lines.remove(key) {
        line.claimed_by(holder);
        put_back(records, key, line);
    }
}

/// Takes a waiter out of a line.
pub(super) fn leave(records: &mut Records, key: &Key, holder: Holder) {
    if let Some(mut line) = records.lines.remove(key) {
        line.leave(holder);
        line.claimed_by(holder);
        put_back(records, key, line);
    }
}

/// A line in which nobody stands and nobody is waited for is none.
fn put_back(records: &mut Records, key: &Key, line: Line) {
    if !line.is_empty() || line.unclaimed().is_some() {
        records.lines.insert(key.clone(), line);
    }
}

/// A line that was not asked about for long is not there any more.
pub(super) fn forget_ended(records: &mut Records, key: &Key, now: Stamp) {
    if records.line(key, now).is_none() {
        records.lines.remove(key);
    }
}

impl Told {
    /// Who stands first now that somebody else has gone learns when it is worth asking.
    pub(super) fn who_stands_first(&mut self, records: &Records, key: &Key, now: Stamp) {
        let first = records.line(key, now).and_then(Line::first);
        let left = records.lock(key, now).and_then(|lock| lock.ends).map(|ends| now.saturating_until(ends));
        if let (Some(first), Some(left)) = (first, left) {
            self.push(key, first.channel.clone(), first.holder, News::First { left });
        }
    }

    pub(super) fn push(&mut self, key: &Key, to: Option<crate::Channel>, holder: Holder, news: News) {
        self.pushes.push(Push { to, holder, key: key.clone(), news });
    }
}
