//! Our messages: one line each, on stderr. Stdout belongs to the command.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::Fault;

pub(crate) const PREFIX: &str = "leasehold: ";

static REWRITING: AtomicBool = AtomicBool::new(false);

/// Moves to the beginning of the line, and erases it.
const ERASE: &str = "\r\x1b[2K";

pub(crate) fn line(text: impl Display) {
    write(&format!("{PREFIX}{text}"), "\n");
}

pub(crate) fn hint(text: impl Display) {
    write(&format!("hint: {text}"), "\n");
}

/// Reports that a store does not answer, or does not serve, and why, if that is known, and how long it
/// is asked in all; `None` for no limit.
pub(crate) fn silence(store: impl Display, fault: Option<&Fault>, limit: Option<Duration>) {
    let why = fault.map(|fault| format!(" ({})", fault.reason)).unwrap_or_default();
    let how_long = limit.map_or_else(|| "as long as it takes".into(), |limit| format!("{limit:?} in all"));
    line(format_args!("cannot reach {store}{why}: trying for {how_long}"));
}

/// Reports that a store answers but does not grant yet, and why: a new quorum abstains at first.
pub(crate) fn abstention(store: impl Display, fault: &Fault) {
    let members = fault.quorum_report.iter().flat_map(|report| report.faults());
    let reason =
        members.chain([fault]).find(|fault| fault.quorum_report.is_none()).map(|fault| &fault.reason);
    line(format_args!(
        "{store} does not vote yet ({}): waiting for it",
        reason.map_or("", |reason| &**reason)
    ));
}

/// Prints a line on a terminal in place of the previous one, if that was printed this way too.
pub(crate) fn rewrite(text: impl Display) {
    write(&format!("{PREFIX}{text}"), "");
    REWRITING.store(true, Ordering::Relaxed);
}

pub(crate) fn clear() {
    if REWRITING.swap(false, Ordering::Relaxed) {
        let _ = std::io::stderr().write_all(ERASE.as_bytes());
    }
}

/// True if a character is invisible, and reverses or hides the text around it.
pub(crate) const fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Written in one piece, so that it does not mix with the command's output. A closed stderr is
/// ignored.
fn write(text: &str, end: &str) {
    let erase = if REWRITING.swap(false, Ordering::Relaxed) { ERASE } else { "" };
    let text = format!("{erase}{}{end}", on_one_line(text));
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Escapes a text: keys, paths and servers' messages may contain anything, including terminal
/// control sequences and characters that reverse the text around them.
fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        if c.is_control() || is_invisible(c) { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_one_line_without_control_characters() {
        assert_eq!(on_one_line("a\nb\u{1b}[2Jä"), "a\\nb\\u{1b}[2Jä");
    }

    /// Regression: stderr escaped only control characters, so a key or a label could reverse a message.
    #[test]
    fn characters_that_reverse_or_hide_text_are_escaped_as_on_stdout() {
        assert_eq!(on_one_line("k\u{202e}b\u{200b}ö"), "k\\u{202e}b\\u{200b}ö");
    }
}
