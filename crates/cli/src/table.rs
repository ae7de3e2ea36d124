//! Locks in columns, as wide as the terminal allows.

use leasehold::{KeyState, Mode, Tenancy, Tenant};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::print::plain;
use crate::time;

/// A column for each of them; a lock is a row, and one that several hold has a row for each.
const HEADS: [&str; COLUMNS] = ["KEY", "HOLDER", "FENCE", "HELD", "LEFT", "WAITING"];
const COLUMNS: usize = 6;
const KEY: usize = 0;
const HOLDER: usize = 1;

/// Between two columns.
const GAP: &str = "  ";

/// What makes room, in this order, and down to which width: a label says less than a key, and the digits of a holder stay.
const SHRINK: [(usize, usize); 4] = [(HOLDER, 20), (KEY, 16), (HOLDER, 10), (KEY, 8)];

/// What stands in a cell: a text that can be cut, and behind it one that stays.
#[derive(Clone, Debug, Default)]
struct Cell {
    text: String,
    tail: String,
}

/// The table, with its heads. `width` is that of the terminal; without one, nothing is cut.
pub(crate) fn table(states: &[KeyState], width: Option<usize>) -> String {
    let mut rows = vec![HEADS.map(Cell::of)];
    rows.extend(states.iter().flat_map(rows_of));
    let mut widths: [usize; COLUMNS] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].width()).max().unwrap_or(0));
    let gaps = GAP.len() * (COLUMNS - 1);
    for (column, least) in SHRINK {
        let too_much = (widths.iter().sum::<usize>() + gaps).saturating_sub(width.unwrap_or(usize::MAX));
        widths[column] = widths[column].saturating_sub(too_much).max(widths[column].min(least));
    }
    let mut table = String::new();
    for row in rows {
        for (column, (cell, width)) in row.into_iter().zip(widths).enumerate() {
            // A key is told from its neighbours by its end as often as by its beginning.
            let shown = if column == KEY { cut_amid(&cell.text, width) } else { cell.cut(width) };
            let padding = " ".repeat(width.saturating_sub(shown.width()));
            match column {
                KEY | HOLDER => table.extend([&*shown, &padding, GAP]),
                _ if column + 1 < COLUMNS => table.extend([&*padding, &shown, GAP]),
                _ => table.extend([&*padding, &shown, "\n"]),
            }
        }
    }
    table
}

fn rows_of(state: &KeyState) -> Vec<[Cell; COLUMNS]> {
    let row = |tenancy: Option<&Tenancy>| {
        let nobody = || Cell::of(&state.damage.as_deref().map_or_else(|| "-".into(), plain));
        let holder = tenancy.map_or_else(nobody, Cell::of_tenancy);
        let fence = tenancy.and_then(|tenancy| tenancy.fence);
        let held_for = tenancy.and_then(|tenancy| state.held_for(tenancy));
        let left = tenancy.map_or_else(|| "-".into(), |tenancy| time::left(tenancy.remaining));
        [
            Cell::of(&plain(&state.key.to_string())),
            holder,
            Cell::of(&fence.map_or_else(|| "-".into(), |fence| fence.to_string())),
            Cell::of(&held_for.map_or_else(|| "-".into(), time::shown)),
            Cell::of(&left),
            Cell::of(&state.line.len().to_string()),
        ]
    };
    match &*state.tenancies {
        [] => vec![row(None)],
        tenancies => tenancies.iter().map(|tenancy| row(Some(tenancy))).collect(),
    }
}

impl Cell {
    fn of(text: &str) -> Self {
        Self { text: text.into(), tail: String::new() }
    }

    fn of_tenancy(tenancy: &Tenancy) -> Self {
        let mode = match tenancy.mode {
            Mode::Shared => " shared".into(),
            Mode::Permits { weight, of } => format!(" {weight}/{of}"),
            _ => String::new(),
        };
        match &tenancy.tenant {
            Tenant::Holder { holder, label: Some(label) } => {
                Self { text: plain(label.as_str()), tail: format!(" ({holder}){mode}") }
            }
            tenant => Self { text: plain(&tenant.to_string()), tail: mode },
        }
    }

    fn width(&self) -> usize {
        self.text.width() + self.tail.width()
    }

    fn cut(self, width: usize) -> String {
        match width.checked_sub(self.tail.width()) {
            Some(room) if room > 0 || self.tail.is_empty() => cut(&self.text, room) + &self.tail,
            // The blank before the digits would be one too many.
            _ => self.tail.trim_start().into(),
        }
    }
}

/// Cut at its end, if it is wider.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.into();
    }
    let mut shown: String = beginning(text.chars(), width.saturating_sub(1)).into_iter().collect();
    shown.push('…');
    shown
}

/// Cut in its middle, if it is wider.
pub(crate) fn cut_amid(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.into();
    }
    let room = width.saturating_sub(1);
    let mut shown: String = beginning(text.chars(), room.div_ceil(2)).into_iter().collect();
    shown.push('…');
    shown.extend(beginning(text.chars().rev(), room / 2).into_iter().rev());
    shown
}

/// As many characters as there is room for.
fn beginning(text: impl Iterator<Item = char>, room: usize) -> Vec<char> {
    let mut taken = 0;
    text.take_while(|c| {
        taken += c.width().unwrap_or(0);
        taken <= room
    })
    .collect()
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
        let tenant = Tenant::Holder { holder: DIGITS, label };
        let left = Some(Duration::from_millis(28_300));
        let tenancy = Tenancy::exclusive(key.clone(), tenant, Fence::new(1_763_713_011_000_000), left);
        let clock = Stamp::from_micros(1_763_713_011_000_000 + 125_000_000);
        KeyState::new(key, vec![tenancy], Vec::new()).at(clock)
    }

    fn lines(states: &[KeyState], width: Option<usize>) -> Vec<String> {
        table(states, width).lines().map(str::to_owned).collect()
    }

    #[test]
    fn what_fits_stands_in_columns_with_numbers_to_the_right() {
        let mut waited_for = held(b"nightly", Some("web-3"));
        waited_for.line = vec![Waiter::exclusive(DIGITS, None, Duration::ZERO); 12];
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
    fn what_does_not_fit_is_cut_to_the_width_and_keeps_the_digits_and_both_ends_of_the_key() {
        let states =
            [held(&[b'k'; 300], Some(&"l".repeat(200))), held(b"invoice:2024-11-21:42", Some("web-3"))];
        for width in [60, 80, 120, 700] {
            let lines = lines(&states, Some(width));
            let widest = lines.iter().map(|line| line.width()).max().unwrap();
            assert!(widest <= width && (width > 600 || widest == width), "{lines:?}");
            assert!(lines[1].contains("(01234567)"), "{lines:?}");
        }
        assert!(lines(&states, Some(72))[2].starts_with("invoice:…"), "{:?}", lines(&states, Some(72)));
        assert!(lines(&states, Some(72))[2].contains("21:42 "), "{:?}", lines(&states, Some(72)));
        assert!(lines(&states, None)[1].contains(&"k".repeat(300)));
        // Too narrow for anything: it is not, but nothing panics.
        lines(&states, Some(1));
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
