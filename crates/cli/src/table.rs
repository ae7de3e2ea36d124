//! A table of locks, as wide as the terminal allows.

use std::collections::HashMap;

use leasehold::{HolderInfo, KeyState, Mode, Owner};
use unicode_width::UnicodeWidthStr as _;

use crate::cut::{APART, cut_amid, cut_apart};
use crate::say::plain;
use crate::time;

/// The columns. A lock is a row, and a shared lock has a row for each holder.
const HEADS: [&str; COLUMNS] = ["KEY", "HOLDER", "FENCE", "HELD", "LEFT", "WAITING"];
const COLUMNS: usize = 6;
const KEY: usize = 0;
const HOLDER: usize = 1;
const FENCE: usize = 2;
const HELD: usize = 3;
const LEFT: usize = 4;

const GAP: &str = "  ";

/// How narrow keys and holders may become before a column is dropped: a label matters less than a key.
const ROOMY: [(usize, usize); 2] = [(HOLDER, 22), (KEY, 20)];

/// The columns to drop, in this order: a number without its beginning is useless.
const LEAST_NEEDED: [usize; 2] = [LEFT, FENCE];

/// How narrow they may become after that: a holder's digits are kept, and keys remain distinguishable.
const NARROW: [(usize, usize); 6] = [ROOMY[0], ROOMY[1], (HOLDER, 16), (KEY, 12), (HOLDER, 10), (KEY, APART)];

/// The content of a cell: a text that may be cut, and a tail that is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    tail: String,
}

pub(crate) type Row = [Cell; COLUMNS];

/// `None` for a column that is dropped.
type Widths = [Option<usize>; COLUMNS];

/// The table with its headings. `width` is that of the terminal; without one, nothing is cut.
pub(crate) fn table(states: &[KeyState], width: Option<usize>) -> String {
    let rows: Vec<_> = states.iter().flat_map(rows_of).collect();
    let least = [0; COLUMNS];
    Table::of(&rows, least, width.unwrap_or(usize::MAX)).lines(rows).map(|line| line + "\n").collect()
}

#[derive(Debug)]
pub(crate) struct Table {
    widths: Widths,
    keys: HashMap<String, String>,
}

/// The widths for a live display: the columns stay where they are while times change.
pub(crate) const STEADY: [usize; COLUMNS] = {
    let mut least = [0; COLUMNS];
    least[HELD] = 6;
    least[LEFT] = 6;
    least
};

impl Table {
    /// Each column is as wide as its content and at least `least`, unless there is too little room.
    pub(crate) fn of(rows: &[Row], least: [usize; COLUMNS], room: usize) -> Self {
        let natural: [usize; COLUMNS] = std::array::from_fn(|column| {
            let widest = rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
            widest.max(HEADS[column].width()).max(least[column])
        });
        let mut widths = natural.map(Some);
        let mut left_out = LEAST_NEEDED.into_iter();
        let widths = loop {
            let roomy = shrunk(widths, &ROOMY, room);
            if all(roomy) <= room {
                break roomy;
            }
            match left_out.next() {
                Some(column) => widths[column] = None,
                // If not even this fits, the terminal cuts the lines.
                None => break shrunk(widths, &NARROW, room),
            }
        };
        // If all fit, there is nothing to tell apart, which takes hundreds of bytes for each.
        let all_fit = widths[KEY] == Some(natural[KEY]);
        let keys = rows.iter().map(|row| &*row[KEY].text).filter(|_| !all_fit);
        let keys = cut_apart(keys, widths[KEY].unwrap_or_default());
        let keys = keys.into_iter().map(|(key, shown)| (key.to_owned(), shown)).collect();
        Self { widths, keys }
    }

    pub(crate) fn lines(&self, rows: impl IntoIterator<Item = Row>) -> impl Iterator<Item = String> {
        std::iter::once(HEADS.map(Cell::of)).chain(rows).map(|row| self.line(row))
    }

    fn line(&self, row: Row) -> String {
        let mut line = String::new();
        let last = COLUMNS - 1;
        for (column, (cell, width)) in row.into_iter().zip(self.widths).enumerate() {
            let Some(width) = width else { continue };
            let shown = match column {
                KEY => self.keys.get(&cell.text).cloned().unwrap_or(cell.text),
                _ => cell.cut(width),
            };
            let padding = " ".repeat(width.saturating_sub(shown.width()));
            match column {
                KEY | HOLDER => line.extend([&*shown, &padding]),
                _ => line.extend([&*padding, &shown]),
            }
            if column != last {
                line.push_str(GAP);
            }
        }
        line
    }
}

/// The widths after shrinking these columns, as far as that is needed and allowed.
fn shrunk(mut widths: Widths, down_to: &[(usize, usize)], room: usize) -> Widths {
    for (column, least) in down_to {
        let too_much = all(widths).saturating_sub(room);
        widths[*column] = widths[*column].map(|width| width.saturating_sub(too_much).max(width.min(*least)));
    }
    widths
}

fn all(widths: Widths) -> usize {
    let shown = widths.iter().flatten();
    shown.clone().sum::<usize>() + GAP.len() * shown.count().saturating_sub(1)
}

fn rows_of(state: &KeyState) -> Vec<Row> {
    match &*state.holders {
        [] => vec![row(state, None)],
        holders => holders.iter().map(|holding| row(state, Some(holding))).collect(),
    }
}

pub(crate) fn row(state: &KeyState, holding: Option<&HolderInfo>) -> Row {
    let nobody = || Cell::of(&state.damage.as_deref().map_or_else(|| "-".into(), plain));
    let holder = holding.map_or_else(nobody, Cell::of_holding);
    let fence = holding.and_then(|holding| holding.fence);
    let held_for = holding.and_then(|holding| state.held_for(holding));
    let left = holding.map_or_else(|| "-".into(), |holding| time::left(holding.remaining));
    [
        Cell::of(&plain(&state.key.to_string())),
        holder,
        Cell::of(&fence.map_or_else(|| "-".into(), |fence| fence.to_string())),
        Cell::of(&held_for.map_or_else(|| "-".into(), time::shown)),
        Cell::of(&left),
        Cell::of(&state.waiters.len().to_string()),
    ]
}

impl Cell {
    fn of(text: &str) -> Self {
        Self { text: text.into(), tail: String::new() }
    }

    fn of_holding(holding: &HolderInfo) -> Self {
        let mode = match holding.mode {
            Mode::Shared => " shared".into(),
            Mode::Permits { weight, of } => format!(" {weight}/{of}"),
            _ => String::new(),
        };
        match &holding.owner {
            Owner::Holder { holder, label: Some(label) } => {
                Self { text: plain(label.as_str()), tail: format!(" ({holder}){mode}") }
            }
            owner => Self { text: plain(&owner.to_string()), tail: mode },
        }
    }

    fn width(&self) -> usize {
        self.text.width() + self.tail.width()
    }

    fn cut(self, width: usize) -> String {
        match width.checked_sub(self.tail.width()) {
            Some(room) if room > 0 || self.tail.is_empty() => cut_amid(&self.text, room) + &self.tail,
            // The space before the digits would be one too many.
            _ => self.tail.trim_start().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold::{Fence, Holder, Key, Label, Stamp, Waiter};

    use super::*;

    const DIGITS: Holder = Holder::from_bits(0x0123_4567 << 96);

    fn held(key: &[u8], label: Option<&str>) -> KeyState {
        let label = label.map(|text| Label::new(text).unwrap());
        let key = Key::new(key).unwrap();
        let owner = Owner::Holder { holder: DIGITS, label };
        let left = Some(Duration::from_millis(28_300));
        let holding = HolderInfo::exclusive(key.clone(), owner, Fence::new(1_763_713_011_000_000), left);
        let clock = Stamp::from_micros(1_763_713_011_000_000 + 125_000_000);
        KeyState::new(key, vec![holding], Vec::new()).at(clock)
    }

    fn lines(states: &[KeyState], width: Option<usize>) -> Vec<String> {
        table(states, width).lines().map(str::to_owned).collect()
    }

    #[test]
    fn columns_that_fit_are_aligned_with_numbers_to_the_right() {
        let mut waited_for = held(b"nightly", Some("web-3"));
        waited_for.waiters = vec![Waiter::exclusive(DIGITS, None, Duration::ZERO); 12];
        let free = KeyState::new(Key::new("x").unwrap(), Vec::new(), Vec::new());
        assert_eq!(
            lines(&[waited_for, held(b"q", None), free], Some(80)),
            [
                "KEY      HOLDER                       FENCE   HELD  LEFT  WAITING",
                "nightly  web-3 (01234567)  1763713011000000  2m05s   28s       12",
                "q        01234567          1763713011000000  2m05s   28s        0",
                "x        -                                -      -     -        0",
            ]
        );
    }

    #[test]
    fn a_long_row_is_cut_to_the_width_and_keeps_the_digits_and_both_ends_of_the_key() {
        let states =
            [held(&[b'k'; 300], Some(&"l".repeat(200))), held(b"invoice:2024-11-21:42", Some("web-3"))];
        for width in [60, 80, 120, 700] {
            let lines = lines(&states, Some(width));
            let widest = lines.iter().map(|line| line.width()).max().unwrap();
            assert!(widest <= width && (width > 600 || widest == width), "{lines:?}");
            assert!(lines[1].contains("(01234567)"), "{lines:?}");
        }
        let narrow = lines(&states, Some(72));
        assert!(narrow[2].starts_with("invoice:") && narrow[2].contains("21:42 "), "{narrow:?}");
        assert!(lines(&states, None)[1].contains(&"k".repeat(300)));
        // Too narrow for anything: the table does not fit, but nothing panics.
        lines(&states, Some(1));
    }

    #[test]
    fn a_fence_is_whole_or_left_out_and_the_time_left_goes_before_it() {
        let long = || held(b"invoice:2024-11-21:42", Some("ada@web-3:4711 report"));
        let heads = |states: &[KeyState], width| lines(states, Some(width))[0].split_whitespace().count();
        assert_eq!([heads(&[long()], 90), heads(&[long()], 80), heads(&[long()], 60)], [6, 5, 4]);
        let narrow = lines(&[long()], Some(80));
        assert!(!narrow[0].contains("LEFT") && narrow[1].contains(" 1763713011000000 "), "{narrow:?}");
        assert!(!lines(&[long()], Some(60))[0].contains("FENCE"));
        let short = lines(&[held(b"deploy", Some("web-3"))], Some(60));
        assert!(short[1].contains(" 1763713011000000 "), "{short:?}");
    }

    #[test]
    fn wide_and_hidden_characters_move_no_column() {
        let states = [
            held("鍵鍵鍵".as_bytes(), Some("größe")),
            held(b"a\n\x1b[2J\xff", Some("a\u{202e}b")),
            held("e\u{301}".as_bytes(), Some("🦀")),
        ];
        for width in [None, Some(60)] {
            let lines = lines(&states, width);
            assert_eq!(lines.len(), 4, "{lines:?}");
            assert!(lines.iter().all(|line| line.width() == lines[0].width()), "{lines:#?}");
            assert!(!lines.concat().contains(['\u{1b}', '\u{202e}']), "{lines:?}");
        }
    }
}
