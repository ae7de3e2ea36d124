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

/// Reports that a store does not answer or serve, why, and how long it is asked in all.
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

/// Text of unknown origin, made fit for one line of every terminal, in one direction, and with the
/// given width: keys, paths and servers' messages may contain terminal control sequences.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_invisible(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// True if a character is invisible, and reverses or hides the text around it.
const fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Writes in one piece, not mixed with the command's output. A closed stderr is ignored.
fn write(text: &str, end: &str) {
    let erase = if REWRITING.swap(false, Ordering::Relaxed) { ERASE } else { "" };
    let _ = std::io::stderr().write_all(format!("{erase}{}{end}", plain(text)).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: stderr escaped only control characters, so a key or a label could reverse a message.
    #[test]
    fn only_characters_that_move_the_cursor_or_reverse_or_hide_text_are_escaped() {
        assert_eq!(plain("größe 鍵 🔑 e\u{301}"), "größe 鍵 🔑 e\u{301}");
        assert_eq!(plain("a\u{202e}b\u{200b}\u{2029}"), "a\\u{202e}b\\u{200b}\\u{2029}");
        assert_eq!(plain("\u{9b}2J a\nb\u{1b}[2J"), "\\u{9b}2J a\\nb\\u{1b}[2J");
    }
}
