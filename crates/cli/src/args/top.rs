//! The arguments of `leasehold top`.

use std::ffi::OsString;

use clap::Args;

use super::PlaceArgs;

/// Show holders and waiters live, on the terminal
///
/// Shows all locks that are held or waited for, or those whose names begin with PREFIX, and the
/// queue of the selected one. A lease can be broken there, after a confirmation that names its key,
/// holder and fence; if the lock has changed hands since, nothing is broken.
///
/// It sends a server at most twenty commands a second, however many keys there are. Among a million
/// keys, it takes about twenty seconds to find all locks, or a new one; locks that have been found
/// are looked at again about once a second.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold top [OPTIONS] [PREFIX]",
    after_help = "Exit codes: `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// The beginning of the names
    #[arg(value_name = "PREFIX", num_args = 0..)]
    pub(crate) prefixes: Vec<OsString>,
}

macro_rules! keys {
    () => {
        "  up, down, k, j, PgUp, PgDn, Home, End   choose a lock
  i, Enter   all about the chosen lock; Esc goes back
  /   show only locks with this text in the key, or in
      the label or digits of a holder or a waiter;
      Enter keeps the filter, Esc clears it
  s   sort by another column; r: the other way round
  m   what once and every ran, and when it is due
  b   break the chosen lease: asks first
  ?   this help
  q   end; so does Ctrl-C. Ctrl-Z stops until `fg`"
    };
}

/// The keys and their actions, for the help on the screen and on the command line.
pub(crate) const KEYS: &str = keys!();

const EXAMPLE: &str = concat!(
    "Keys:\n",
    keys!(),
    "\n
HELD is how long a lock has been held, LEFT is how long its lease lasts unless it is renewed.
On a narrow terminal, LEFT is left out, and then FENCE; `i` shows all.
`m` looks through the store once, as `leasehold ls --marks` does.

The exit code is 0 after q.

Example: who holds up the nightly jobs?
  leasehold top nightly:"
);
