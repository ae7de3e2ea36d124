//! Our words: one line each, on stderr. Stdout is the command's alone.

use std::fmt::{Display, Write as _};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What our lines begin with.
pub(crate) const PREFIX: &str = "leasehold: ";

/// Whether the last line of the terminal is one that is to be written anew.
static REWRITING: AtomicBool = AtomicBool::new(false);

/// To the line's beginning, and erases it.
const ERASE: &str = "\r\x1b[2K";

/// Says one line.
pub(crate) fn line(text: impl Display) {
    write(&format!("{PREFIX}{text}"), "\n");
}

/// Says what to do about the line before.
pub(crate) fn hint(text: impl Display) {
    write(&format!("hint: {text}"), "\n");
}

/// Says that a store does not answer, and how long it is asked in all; `None`: for as long as it takes.
pub(crate) fn silence(store: impl Display, limit: Option<Duration>) {
    let how_long = limit.map_or_else(|| "as long as it takes".into(), |limit| format!("{limit:?} in all"));
    line(format_args!("cannot reach {store}: trying for {how_long}"));
}

/// Says a line on a terminal in the place of the one before, if that was said so too.
pub(crate) fn rewrite(text: impl Display) {
    write(&format!("{PREFIX}{text}"), "");
    REWRITING.store(true, Ordering::Relaxed);
}

/// Takes back what was said so last.
pub(crate) fn clear() {
    if REWRITING.swap(false, Ordering::Relaxed) {
        let _ = std::io::stderr().write_all(ERASE.as_bytes());
    }
}

/// In one piece, so that it does not mingle with what the command writes. A stderr that is gone is nobody's concern.
fn write(text: &str, end: &str) {
    let erase = if REWRITING.swap(false, Ordering::Relaxed) { ERASE } else { "" };
    let text = format!("{erase}{}{end}", on_one_line(text));
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Keys, paths and what servers say may have anything in them, also what a terminal would obey.
fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        let written =
            if c.is_control() { write!(line, "{}", c.escape_default()) } else { line.write_char(c) };
        written.expect("a String takes all that is written to it");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_said_is_one_line_that_no_terminal_obeys() {
        assert_eq!(on_one_line("a\nb\u{1b}[2Jä"), "a\\nb\\u{1b}[2Jä");
    }
}
