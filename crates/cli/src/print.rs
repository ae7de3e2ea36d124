//! Output of the tasks that run no command: stdout is ours.

use std::io::{self, Write as _};

use crate::exit::{End, Failure};
use crate::say::is_invisible;

/// Prints a text. A reader that closes the pipe is not an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_by(|| io::stdout().write_all(text.as_bytes()))
}

/// Prints a page of the parser's, which is help or the version, in the same way.
pub(crate) fn print_page(page: &clap::Error) -> Result<(), Failure> {
    print_by(|| page.print())
}

fn print_by(write: impl FnOnce() -> io::Result<()>) -> Result<(), Failure> {
    match write().and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::new(
            End::CANNOT_EXECUTE,
            format!("the answer cannot be printed: {error}: check stdout"),
        )),
        _ => Ok(()),
    }
}

/// Text of unknown origin, made fit for one line of every terminal, in one direction, and with the
/// given width.
///
/// Control characters are escaped already in a key or a label.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_invisible(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A word quoted for a shell, without anything that may be a secret.
pub(crate) fn shown(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+%".contains(c);
    // Possibly a URL with a login or parameters, mistyped in any way.
    if word.contains("://") || word.contains(['@', '?']) {
        "…".into()
    } else if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_characters_that_reverse_or_hide_text_are_escaped() {
        assert_eq!(plain("größe 鍵 🔑 e\u{301}"), "größe 鍵 🔑 e\u{301}");
        assert_eq!(plain("a\u{202e}b\u{200b}\u{2029}"), "a\\u{202e}b\\u{200b}\\u{2029}");
        assert_eq!(plain("\u{9b}2J"), "\\u{9b}2J");
    }
}
