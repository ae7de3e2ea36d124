//! Our words: one line each, on stderr. Stdout is the command's alone.

use std::fmt::{Display, Write as _};
use std::io::Write as _;

/// Says one line.
pub(crate) fn line(text: impl Display) {
    write(&format!("leasehold: {text}"));
}

/// Says what to do about the line before.
pub(crate) fn hint(text: impl Display) {
    write(&format!("hint: {text}"));
}

/// In one piece, so that it does not mingle with what the command writes. A stderr that is gone is nobody's concern.
fn write(text: &str) {
    let mut text = on_one_line(text);
    text.push('\n');
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
