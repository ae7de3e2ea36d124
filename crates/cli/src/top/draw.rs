//! Draws the view.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Padding, Paragraph, Wrap};

use leasehold::{Key, Marked, Mode as Held};

use super::KEYS;
use super::remembered::Marks;
use super::rows::Row;
use super::view::{Confirming, Mode, Page, View};
use crate::cut::{cut, cut_amid};
use crate::lock_json::mode;
use crate::mark;
use crate::say::plain;
use crate::show;
use crate::table::{STEADY, Table};
use crate::time;

/// Bold, dim and reversed: every terminal has them, with the same meaning.
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);

/// How many rows are laid out together, so that columns stay in place while somebody scrolls through
/// that many, and that not all of a hundred thousand locks are laid out four times a second.
const TOGETHER: usize = 1000;

pub(crate) fn draw(frame: &mut Frame<'_>, view: &mut View) {
    let [head, middle, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(2), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(heading(view, head.width)), head);
    match view.page.clone() {
        Page::Locks => {
            // A third for the queue, if that much is needed.
            let pane = (frame.area().height / 3).clamp(2, 12);
            let [table, line] =
                Layout::vertical([Constraint::Min(2), Constraint::Length(pane)]).areas(middle);
            locks(frame, view, table);
            the_line(frame, view, line);
        }
        Page::Lock(key) => read(frame, view, middle, &all_about(view, &key)),
        Page::Marks => read(frame, view, middle, &marks(view.marks.as_ref())),
    }
    frame.render_widget(footing(view), foot);
    match &view.mode {
        Mode::Confirming(asked) => confirm(frame, asked),
        Mode::Explaining => explain(frame),
        Mode::Watching | Mode::Filtering => {}
    }
}

/// The store, the number of locks, and how far the scan of the store has come.
fn heading(view: &View, width: u16) -> Line<'static> {
    let Some(known) = &view.known else {
        return Line::styled(format!("{}: looking …", view.store), BOLD);
    };
    let waiting: usize = known.snapshots.iter().map(|seen| seen.state.waiters.len()).sum();
    let mut facts = format!(
        "{} held or waited for, {waiting} waiting; by {}{}",
        known.snapshots.len(),
        view.sort.name(),
        if view.reversed { ", reversed" } else { "" }
    );
    if !view.filter.is_empty() {
        facts.push_str(&format!("; with {:?}", plain(&view.filter)));
    }
    // Until everything has been scanned once, there may be more.
    facts.push_str(&match (known.complete, known.scanned) {
        (true, 1000) => String::new(),
        (true, scanned) => format!("; looking for more: {} %", scanned / 10),
        (false, scanned) => format!("; looked through {} % of the store so far", scanned / 10),
    });
    let text = format!("{}: {facts}", cut_amid(&view.store, usize::from(width / 4)));
    Line::styled(cut(&text, usize::from(width)), BOLD)
}

fn locks(frame: &mut Frame<'_>, view: &mut View, area: Rect) {
    view.scroll(usize::from(area.height.saturating_sub(1)));
    let since = view.since();
    let begin = view.first / TOGETHER * TOGETHER;
    let end = (view.first + view.room).max(begin + TOGETHER).min(view.rows.len());
    let mut rows: Vec<_> = view.rows[begin..end].iter().map(|row: &Row| row.cells(since)).collect();
    let table = Table::of(&rows, STEADY, usize::from(area.width));
    let shown = rows.drain(view.first - begin..).take(view.room);
    let lines = table.lines(shown).enumerate().map(|(nth, text)| {
        let style = match nth.checked_sub(1) {
            None => DIM,
            Some(row) if view.first + row == view.chosen => CHOSEN,
            Some(_) => Style::new(),
        };
        Line::styled(text, style)
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

/// Everything about one lock, as `leasehold show` prints it.
fn all_about(view: &View, key: &Key) -> String {
    let remembered = view.remembered.as_ref().map_or_else(
        || "looking for what was done and broken …\n".into(),
        |known| show::remembered(Some(&known.marked), known.broken.as_ref()),
    );
    show::text(&view.about(key)) + &remembered
}

/// The jobs of `once` and `every`, as `leasehold ls --marks` prints them.
fn marks(marks: Option<&Marks>) -> String {
    let Some(Marks { all, at }) = marks else { return "looking for what once and every did …".into() };
    if all.is_empty() {
        return "nothing is recorded as done".into();
    }
    let now = |marked: &Marked| Marked { now: marked.now + at.elapsed(), ..marked.clone() };
    let all: Vec<_> = all.iter().map(|(key, marked)| (key.clone(), now(marked))).collect();
    mark::table(&all)
}

/// Draws a text from the scroll position on.
fn read(frame: &mut Frame<'_>, view: &mut View, area: Rect, text: &str) {
    view.room = usize::from(area.height).max(1);
    let text = Paragraph::new(text).wrap(Wrap { trim: false });
    view.scrolled = view.scrolled.min(text.line_count(area.width).saturating_sub(view.room));
    let scrolled = u16::try_from(view.scrolled).unwrap_or(u16::MAX);
    frame.render_widget(text.scroll((scrolled, 0)), area);
}

fn the_line(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let [title, below] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
    let Some(row) = view.chosen_row() else {
        let nothing = match (&view.known, view.filter.is_empty()) {
            (None, _) => "",
            (Some(known), true) if known.complete => "no lock is held or waited for",
            (Some(_), true) => "no lock found so far",
            (Some(_), false) => "no lock has this text in its key, holder or queue: Esc clears the filter",
        };
        frame.render_widget(Line::styled(nothing, DIM), title);
        return;
    };
    let state = &row.seen.state;
    let head = format!("waiting for {}: {}", plain(&state.key.to_string()), state.waiters.len());
    frame.render_widget(Line::styled(cut(&head, usize::from(title.width)), BOLD), title);
    let ago = row.seen.ago + view.since();
    let places = state.waiters.iter().zip(1..).take(usize::from(below.height));
    let width = state.waiters.len().to_string().len();
    let more = state.waiters.len() > usize::from(below.height);
    let mut lines: Vec<_> = places
        .map(|(waiter, place): (_, usize)| {
            let label = waiter.label.as_ref().map_or_else(String::new, |label| plain(label.as_str()));
            let wants = if waiter.mode == Held::Exclusive { String::new() } else { mode(waiter.mode) + "  " };
            let waited = time::shown(waiter.waited + ago);
            let text = format!("{place:>width$}  {}  {wants}for {waited}  {label}", waiter.holder);
            Line::from(cut(text.trim_end(), usize::from(below.width)))
        })
        .collect();
    if more && !lines.is_empty() {
        lines.pop();
        let left_out = state.waiters.len() - lines.len();
        lines.push(Line::styled(format!("and {left_out} more: `leasehold show` has all"), DIM));
    }
    frame.render_widget(Paragraph::new(lines), below);
}

fn footing(view: &View) -> Line<'static> {
    let fault = view.known.as_ref().and_then(|known| known.fault.clone());
    match (&view.mode, &view.said, fault) {
        (Mode::Filtering, ..) => {
            Line::from(format!("/{}▏  Enter keeps it, Esc clears it", plain(&view.filter)))
        }
        (_, Some(said), _) => Line::styled(said.clone(), BOLD),
        (_, None, Some(fault)) => Line::styled(format!("{fault}; asking again"), BOLD),
        (_, None, None) => Line::styled(
            match view.page {
                Page::Locks => "? help  i info  / filter  s sort  m marks  b break  q end",
                Page::Lock(_) => "? help  Esc back  j k scroll  b break  q end",
                Page::Marks => "? help  Esc back  j k scroll  q end",
            },
            DIM,
        ),
    }
}

fn explain(frame: &mut Frame<'_>) {
    let keys = KEYS.lines().map(Line::from).chain([Line::from(""), Line::styled("Esc closes this", BOLD)]);
    in_a_box(frame, keys.collect());
}

fn confirm(frame: &mut Frame<'_>, asked: &Confirming) {
    let Confirming { key, who, fence } = asked;
    let text = vec![
        Line::from(format!("Break the lease on {}", plain(&key.to_string()))),
        Line::from(format!("held by {who}")),
        Line::from(format!("with fence {fence}?")),
        Line::from(""),
        Line::from("The next waiter gets it at once. Its holder continues until it is notified."),
        Line::styled("y breaks it, any other key cancels", BOLD),
    ];
    in_a_box(frame, text);
}

/// Draws a box over everything, in the middle.
fn in_a_box(frame: &mut Frame<'_>, text: Vec<Line<'_>>) {
    let width = frame.area().width.min(76);
    let block = Block::bordered().padding(Padding::horizontal(1));
    let text = Paragraph::new(text).wrap(Wrap { trim: false });
    // A long key takes more lines.
    let rows = text.line_count(width.saturating_sub(4)) + 2;
    let height = u16::try_from(rows).unwrap_or(u16::MAX).min(frame.area().height);
    let area = frame.area().centered(Constraint::Length(width), Constraint::Length(height));
    frame.render_widget(Clear, area);
    frame.render_widget(text.block(block), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::view::tests::{types, view};
    use super::*;

    fn drawn(view: &mut View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect()
    }

    #[test]
    fn each_lock_is_a_row_and_the_queue_of_the_chosen_one_is_below() {
        let mut view = view();
        types(&mut view, "j");
        let lines = drawn(&mut view, 90, 14);
        assert_eq!(lines[0], "memory:: 2 held or waited for, 1 waiting; by key");
        assert!(lines[1].starts_with("KEY ") && lines[1].ends_with("  WAITING"), "{lines:#?}");
        assert!(lines[2].starts_with("deploy   web-3 ("), "{lines:#?}");
        assert!(lines[3].contains(" cron (") && lines[3].ends_with(" 1"), "{lines:#?}");
        let line = lines.iter().position(|line| line == "waiting for nightly: 1").unwrap();
        assert!(lines[line + 1].starts_with("1  ") && lines[line + 1].ends_with("  late"), "{lines:#?}");
        assert!(lines[13].contains("b break"), "{lines:#?}");
    }

    /// Regression: words that are kept whole take more lines than were counted, so the end of a page could
    /// not be scrolled to, and the box about a long label did not say how to confirm.
    #[test]
    fn the_end_of_a_wrapped_text_is_shown() {
        let mut view = view();
        types(&mut view, "b");
        let Mode::Confirming(asked) = &mut view.mode else { panic!("{:?}", view.mode) };
        asked.who = format!("{0} {0} {0} {0}", "x".repeat(40));
        let lines = drawn(&mut view, 80, 24);
        assert!(lines.iter().any(|line| line.contains("y breaks it")), "{lines:#?}");
        let key = Key::new(format!("{0} {0} {0} {0}", "k".repeat(40))).unwrap();
        (view.mode, view.page) = (Mode::Watching, Page::Lock(key));
        types(&mut view, "G");
        let lines = drawn(&mut view, 60, 5);
        assert!(lines.iter().any(|line| line.starts_with("looking for what")), "{lines:#?}");
    }

    /// A terminal may have any size.
    #[test]
    fn nothing_panics_on_a_screen_without_room() {
        for (width, height) in [(1, 1), (3, 2), (20, 5), (80, 3), (10, 60), (400, 100)] {
            for keys in ["j", "b", "n", "/x", "\x1b"] {
                let mut view = view();
                types(&mut view, keys);
                drawn(&mut view, width, height);
            }
        }
    }
}
