//! Output of the tasks that run no command: stdout is ours.

use std::io::{self, Write as _};

use crate::exit::{End, Failure};

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
