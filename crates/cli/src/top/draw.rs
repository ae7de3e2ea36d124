//! How it looks.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row as TableRow, Table, Wrap};

use leasehold::{Mode as Held, Tenant};

use super::view::{Confirming, Mode, Row, View};
use crate::print::plain;
use crate::seen::mode;
use crate::table::{cut, cut_amid};
use crate::time;

/// Bold, dim and reversed: every terminal has them, and they mean the same on all.
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);

const HEADS: [&str; 7] = ["KEY", "MODE", "HOLDER", "LABEL", "FENCE", "LEFT", "WAITING"];
/// How wide those are that are not cut, and the gaps: a fence has sixteen digits for some hundred years.
const MODE: u16 = 9;
const HOLDER: u16 = 8;
const FENCE: u16 = 16;
const LEFT: u16 = 7;
const WAITING: u16 = 7;
const SPACING: u16 = 2;

pub(crate) fn draw(frame: &mut Frame<'_>, view: &mut View) {
    // A third for the line, if there is that much.
    let pane = (frame.area().height / 3).clamp(2, 12);
    let [head, table, line, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(pane),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(heading(view, head.width)), head);
    locks(frame, view, table);
    the_line(frame, view, line);
    frame.render_widget(footing(view), foot);
    if let Mode::Confirming(asked) = &view.mode {
        confirm(frame, asked);
    }
}

/// Where, how much there is, and how far the walk through the store has come.
fn heading(view: &View, width: u16) -> Line<'static> {
    let Some(known) = &view.known else {
        return Line::styled(format!("{}: looking …", view.store), BOLD);
    };
    let waiting: usize = known.sightings.iter().map(|seen| seen.state.line.len()).sum();
    let mut facts = format!(
        "{} held or waited for, {waiting} waiting; by {}{}",
        known.sightings.len(),
        view.sort.name(),
        if view.reversed { ", reversed" } else { "" }
    );
    if !view.filter.is_empty() {
        facts.push_str(&format!("; with {:?}", plain(&view.filter)));
    }
    // Until all was looked at once, there may be more.
    facts.push_str(&match (known.complete, known.walked) {
        (true, 1000) => String::new(),
        (true, walked) => format!("; looking for more: {} %", walked / 10),
        (false, walked) => format!("; looked through {} % of the store so far", walked / 10),
    });
    let text = format!("{}: {facts}", cut_amid(&view.store, usize::from(width / 3)));
    Line::styled(text, BOLD)
}

fn locks(frame: &mut Frame<'_>, view: &mut View, area: Rect) {
    view.scroll(usize::from(area.height.saturating_sub(1)));
    let fixed = MODE + HOLDER + FENCE + LEFT + WAITING + 6 * SPACING;
    let free = area.width.saturating_sub(fixed).max(8);
    // A key says more than a label.
    let label = free * 2 / 5;
    let widths = [free - label, MODE, HOLDER, label, FENCE, LEFT, WAITING];
    let since = view.since();
    let shown = view.rows.iter().enumerate().skip(view.first).take(view.room).map(|(nth, row)| {
        let style = if nth == view.chosen { CHOSEN } else { Style::new() };
        TableRow::new(cells(row, since, widths)).style(style)
    });
    let heads = HEADS.iter().enumerate().map(|(column, head)| aligned(column, (*head).into()));
    let table = Table::new(shown, widths.map(Constraint::Length))
        .header(TableRow::new(heads).style(DIM))
        .column_spacing(SPACING);
    frame.render_widget(table, area);
}

fn cells(row: &Row, since: std::time::Duration, widths: [u16; 7]) -> Vec<Cell<'static>> {
    let tenancy = row.tenancy();
    let none = || String::from("-");
    let holder = match tenancy.map(|tenancy| &tenancy.tenant) {
        Some(Tenant::Holder { holder, .. }) => holder.to_string(),
        _ => none(),
    };
    let held = match tenancy.map(|tenancy| tenancy.mode) {
        Some(Held::Permits { weight, of }) => format!("{weight}/{of}"),
        Some(other) => mode(other),
        None => "free".into(),
    };
    let fence = tenancy.and_then(|tenancy| tenancy.fence);
    let left = tenancy.map_or_else(none, |_| time::left(row.left(since)));
    let key = plain(&row.seen.state.key.to_string());
    let texts = [
        cut_amid(&key, usize::from(widths[0])),
        held,
        holder,
        cut(&row.label(), usize::from(widths[3])),
        fence.map_or_else(none, |fence| fence.to_string()),
        left,
        row.seen.state.line.len().to_string(),
    ];
    texts.into_iter().enumerate().map(|(column, text)| aligned(column, text)).collect()
}

/// Numbers stand to the right.
fn aligned(column: usize, text: String) -> Cell<'static> {
    let alignment = if column < 4 { Alignment::Left } else { Alignment::Right };
    Cell::new(Text::from(text).alignment(alignment))
}

/// Who waits for the chosen lock, first come first.
fn the_line(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let [title, below] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
    let Some(row) = view.chosen_row() else {
        let nothing = match (&view.known, view.filter.is_empty()) {
            (None, _) => "",
            (Some(known), true) if known.complete => "no lock is held or waited for",
            (Some(_), true) => "no lock found so far",
            (Some(_), false) => "no lock has this in its key, holder or line: Esc clears the filter",
        };
        frame.render_widget(Line::styled(nothing, DIM), title);
        return;
    };
    let state = &row.seen.state;
    let head = format!("waiting for {}: {}", plain(&state.key.to_string()), state.line.len());
    frame.render_widget(Line::styled(cut(&head, usize::from(title.width)), BOLD), title);
    let ago = row.seen.ago + view.since();
    let places = state.line.iter().zip(1..).take(usize::from(below.height));
    let width = state.line.len().to_string().len();
    let more = state.line.len() > usize::from(below.height);
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
        let left_out = state.line.len() - lines.len();
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
        (_, None, None) => Line::styled("j k choose   / filter   s sort   r reverse   b break   q end", DIM),
    }
}

fn confirm(frame: &mut Frame<'_>, asked: &Confirming) {
    let Confirming { key, who, fence } = asked;
    let text = vec![
        Line::from(format!("Break the lease on {}", plain(&key.to_string()))),
        Line::from(format!("held by {who}")),
        Line::from(format!("with fence {fence}?")),
        Line::from(""),
        Line::from("The next in line has it at once. Its holder works on until it is told."),
        Line::styled("y breaks it, any other key does not", BOLD),
    ];
    let width = frame.area().width.min(76);
    // A long key takes some lines more.
    let rows: usize = text
        .iter()
        .map(|line| line.width().div_ceil(usize::from(width.saturating_sub(4).max(1))).max(1))
        .sum();
    let height = u16::try_from(rows + 2).unwrap_or(u16::MAX).min(frame.area().height);
    let area = frame.area().centered(Constraint::Length(width), Constraint::Length(height));
    frame.render_widget(Clear, area);
    let block = Block::bordered().padding(ratatui::widgets::Padding::horizontal(1));
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }).block(block), area);
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
    fn each_lock_is_a_row_and_below_stands_the_line_of_the_chosen_one() {
        let mut view = view();
        types(&mut view, "j");
        let lines = drawn(&mut view, 90, 14);
        assert_eq!(lines[0], "memory:: 2 held or waited for, 1 waiting; by key");
        assert!(lines[1].starts_with("KEY ") && lines[1].ends_with("  WAITING"), "{lines:#?}");
        assert!(lines[2].starts_with("deploy ") && lines[2].contains(" exclusive  "), "{lines:#?}");
        assert!(lines[3].contains(" cron ") && lines[3].ends_with(" 1"), "{lines:#?}");
        let line = lines.iter().position(|line| line == "waiting for nightly: 1").unwrap();
        assert!(lines[line + 1].starts_with("1  ") && lines[line + 1].ends_with("  late"), "{lines:#?}");
        assert!(lines[13].contains("b break"), "{lines:#?}");
    }

    #[test]
    fn the_question_names_key_holder_and_fence() {
        let mut view = view();
        types(&mut view, "b");
        let fence = view.chosen_row().and_then(|row| row.tenancy()?.fence).unwrap();
        let screen = drawn(&mut view, 80, 24).join("\n");
        for words in
            ["Break the lease on deploy", "held by web-3 (", &format!("with fence {fence}?"), "y breaks it"]
        {
            assert!(screen.contains(words), "{words}: {screen}");
        }
    }

    /// A terminal may be of any size.
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
