//! When a job is due, and why there was nothing to do, for people and for programs.

use std::time::Duration;

use leasehold::{Label, Mark, NotDue};

use crate::json::{millis, millis_of};
use crate::lock_request::LockRequest;
use crate::mark::begun;
use crate::say;
use crate::status::{Event, LastRun};
use crate::time;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schedule {
    Once,
    Every { period: Duration, now: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Skip {
    Done(Mark),
    NotDue(NotDue),
}

/// Reports why nothing was run: to people at a terminal or with `-v`, and to programs.
pub(crate) fn tell_skipped(request: &LockRequest, when: Schedule, code: u8, skip: &Skip) {
    let holder;
    let (said, event) = match skip {
        Skip::Done(mark) => {
            let event = Event::AlreadyDone { last: last_run(Some(mark)), code };
            (format!("already done, begun {}", begun(mark)), event)
        }
        Skip::NotDue(NotDue::Until { left, mark }) => {
            let due_at = due_at(mark, when);
            let (due, left) = (due_at.map(time::moment).unwrap_or_default(), time::shown(*left));
            let said = format!("not due until {due}, in {left}, as it was last begun {}", begun(mark));
            (said, Event::NotDue { due_at, last: last_run(Some(mark)), code })
        }
        Skip::NotDue(NotDue::Underway { held_by, mark }) => {
            let by = held_by.as_ref().map_or_else(|| "others".into(), ToString::to_string);
            holder = held_by.as_ref().map(|held_by| held_by.owner.to_string());
            let event = Event::Underway { held_by: holder.as_deref(), last: last_run(mark.as_ref()), code };
            (format!("just being done, by {by}"), event)
        }
    };
    if request.is_aloud() {
        say::line(format_args!("{}: {said}: not run", request.keys));
    }
    request.status.tell(event);
}

fn last_run(mark: Option<&Mark>) -> LastRun<'_> {
    LastRun {
        begun_at: mark.map(|mark| millis_of(mark.at)),
        by: mark.and_then(|mark| mark.label.as_ref()).map(Label::as_str),
        fence: mark.map(|mark| mark.fence.get()),
    }
}

/// When it is due again: milliseconds since 1970, by the store's clock.
pub(crate) fn due_at(mark: &Mark, when: Schedule) -> Option<u64> {
    let Schedule::Every { period, .. } = when else { return None };
    Some(millis_of(mark.at).saturating_add(millis(period)))
}
