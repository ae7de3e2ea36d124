//! Marks and break records, for people and in JSON.

use leasehold::{BreakRecord, Key, Label, Mark, Marked};
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use crate::json::{self, KeyText, millis, millis_of};
use crate::say::plain;
use crate::time;

#[derive(Debug, Serialize)]
pub(crate) struct MarkJson {
    begun_at: u64,
    by: Option<String>,
    fence: u64,
    /// `null` if it is done only once, ever.
    period_ms: Option<u64>,
    due_at: Option<u64>,
}

impl From<&Mark> for MarkJson {
    fn from(mark: &Mark) -> Self {
        Self {
            begun_at: millis_of(mark.at),
            by: mark.label.as_ref().map(ToString::to_string),
            fence: mark.fence.get(),
            period_ms: mark.period.map(millis),
            due_at: mark.due_at().map(millis_of),
        }
    }
}

impl MarkJson {
    /// The same with the time when the job is really due, by the store's clock.
    pub(crate) fn of(marked: &Marked) -> Option<Self> {
        let due_at = marked.due_at().map(millis_of);
        marked.mark.as_ref().map(|mark| Self { due_at, ..mark.into() })
    }
}

/// The same with its key, on its own line; nothing if there is no mark.
pub(crate) fn line(key: &Key, marked: &Marked) -> Option<String> {
    #[derive(Serialize)]
    struct Line {
        #[serde(flatten)]
        key: KeyText,
        #[serde(flatten)]
        mark: MarkJson,
    }
    Some(json::line(&Line { key: key.into(), mark: MarkJson::of(marked)? }))
}

#[derive(Debug, Serialize)]
pub(crate) struct BreakJson {
    broken_at: u64,
    fence: u64,
    held_by: Option<String>,
    by: Option<String>,
    reason: Option<String>,
}

impl From<&BreakRecord> for BreakJson {
    fn from(broken: &BreakRecord) -> Self {
        let text = |label: &Option<Label>| label.as_ref().map(ToString::to_string);
        Self {
            broken_at: millis_of(broken.at),
            fence: broken.fence.get(),
            held_by: text(&broken.held_by),
            by: text(&broken.note.by),
            reason: text(&broken.note.reason),
        }
    }
}

pub(crate) fn begun(mark: &Mark) -> String {
    let by = mark.label.as_ref().map_or_else(String::new, |by| format!(" by {}", plain(by.as_str())));
    format!("{}{by}", time::moment(millis_of(mark.at)))
}

pub(crate) fn due(marked: &Marked) -> String {
    match marked.due_at() {
        None => "never again".into(),
        Some(due) if due <= marked.now => format!("now, since {}", time::moment(millis_of(due))),
        Some(due) => {
            format!("{}, in {}", time::moment(millis_of(due)), time::shown(marked.now.saturating_until(due)))
        }
    }
}

pub(crate) fn broken(broken: &BreakRecord) -> String {
    let said = |before: &str, label: &Option<Label>| {
        label.as_ref().map_or_else(String::new, |label| format!("{before}{}", plain(label.as_str())))
    };
    let (of, by) = (said(" of ", &broken.held_by), said(", by ", &broken.note.by));
    let when = time::moment(millis_of(broken.at));
    format!("{when}, fence {}{of}{by}{}", broken.fence, said(": ", &broken.note.reason))
}

/// Marks in columns. The last two may be long, so nothing is cut.
pub(crate) fn table(marks: &[(Key, Marked)]) -> String {
    let rows = marks.iter().filter_map(|(key, marked)| {
        Some([plain(&key.to_string()), due(marked), begun(marked.mark.as_ref()?)])
    });
    let mut all = vec![["KEY", "DUE", "LAST BEGUN"].map(String::from)];
    all.extend(rows);
    let width = |column: usize| all.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let (key, due) = (width(0), width(1));
    let padded = |text: &str, width: usize| {
        let missing = width.saturating_sub(text.width());
        format!("{text}{}  ", " ".repeat(missing))
    };
    all.iter().map(|row| format!("{}{}{}\n", padded(&row[0], key), padded(&row[1], due), row[2])).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold::{Fence, Stamp};

    use super::*;

    /// Regression: `ls --marks` said that a job was due later than `every` ran it.
    #[test]
    fn a_job_is_due_now_if_its_clock_was_set_back_by_more_than_its_period() {
        let at = |seconds: u64| Stamp::from_micros(seconds * 1_000_000);
        let shown = |begun, now| {
            let mark = Mark::new(at(begun), Fence::new(1).unwrap(), None).every(Duration::from_secs(10));
            let marked = Marked { mark: Some(mark), now: at(now) };
            let due_at = MarkJson::of(&marked).and_then(|mark| mark.due_at);
            (due_at, due(&marked).split_once(", ").unwrap_or_default().1.to_owned())
        };
        assert_eq!(shown(100, 103), (Some(110_000), "in 7.0s".into()));
        assert_eq!(shown(100, 91), (Some(110_000), "in 19s".into()));
        let now = format!("since {}", time::moment(90_000));
        assert_eq!(shown(100, 90), (Some(90_000), now));
    }
}
