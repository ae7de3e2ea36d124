//! When a job is due, and why there was nothing to do, for people and for programs.

use std::time::Duration;

use leasehold::{HolderInfo, Label, Mark};

use crate::json::{millis, millis_of};
use crate::lock_request::LockRequest;
use crate::mark::begun;
use crate::say;
use crate::status::{Event, LastRun};
use crate::time;

/// When the job is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schedule {
    Once,
    Every { period: Duration, now: bool },
}

/// Why there was nothing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Skip {
    /// The job was done, once and for all.
    Done { mark: Mark },
    /// The job was done in this period, of which this much is left.
    Until { left: Duration, mark: Mark },
    /// Another process is doing the job; the mark says when it was last done.
    Underway { held_by: Option<Box<HolderInfo>>, mark: Option<Mark> },
}

/// Reports why nothing was run: to people at a terminal or with `-v`, and to programs.
pub(crate) fn tell_skipped(request: &LockRequest, when: Schedule, code: u8, skip: &Skip) {
    if request.is_aloud() {
        say::line(format_args!("{}: {}: not run", request.keys, said(when, skip)));
    }
    let status = &request.status;
    match skip {
        Skip::Done { mark } => status.tell(Event::AlreadyDone { last: last_run(Some(mark)), code }),
        Skip::Until { mark, .. } => {
            let due_at = due_at(mark, when);
            status.tell(Event::NotDue { due_at, last: last_run(Some(mark)), code });
        }
        Skip::Underway { held_by, mark } => {
            let held_by = held_by.as_ref().map(|held_by| held_by.owner.to_string());
            let held_by = held_by.as_deref();
            status.tell(Event::Underway { held_by, last: last_run(mark.as_ref()), code });
        }
    }
}

fn said(when: Schedule, skip: &Skip) -> String {
    match skip {
        Skip::Done { mark } => format!("already done, begun {}", begun(mark)),
        Skip::Until { left, mark } => {
            let due = due_at(mark, when).map(time::moment).unwrap_or_default();
            format!("not due until {due}, in {}, as it was last begun {}", time::shown(*left), begun(mark))
        }
        Skip::Underway { held_by, .. } => {
            let by = held_by.as_ref().map_or_else(|| "others".into(), ToString::to_string);
            format!("just being done, by {by}")
        }
    }
}

fn last_run(mark: Option<&Mark>) -> LastRun<'_> {
    LastRun {
        begun_at: mark.map(|mark| millis_of(mark.at)),
        by: mark.and_then(|mark| mark.label.as_ref()).map(Label::as_str),
        fence: mark.map(|mark| mark.fence.get()),
    }
}

/// When it is due again: milliseconds since 1970, by the store's clock; `None` if it is done only
/// once.
pub(crate) fn due_at(mark: &Mark, when: Schedule) -> Option<u64> {
    let Schedule::Every { period, .. } = when else { return None };
    Some(millis_of(mark.at).saturating_add(millis(period)))
}
