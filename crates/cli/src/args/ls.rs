//! The arguments of `leasehold ls`.

use std::ffi::OsString;

use clap::Args;

use super::PlaceArgs;

/// List the locks that are held or waited for
///
/// Locks whose names begin with PREFIX, taken literally, ordered by bytes. Locks of other programs
/// are listed only if a leasehold process waits for them: on a server, they cannot be told from
/// other strings.
///
/// HELD is the time since the lock was granted, LEFT the time until its lease ends unless it is
/// renewed.
///
/// A server is scanned a thousand keys at a time, which delays nobody but takes a while with
/// millions of keys.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold ls [OPTIONS] PREFIX|--all",
    after_help = "Exit codes: `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct LsArgs {
    /// List all locks, whatever their names
    #[arg(short, long)]
    pub(crate) all: bool,

    /// Print JSON, one object per line
    ///
    /// One for each lock, as `leasehold show --json` prints it, without mark and last_break; with
    /// --marks, key and the fields of mark.
    #[arg(long)]
    pub(crate) json: bool,

    /// List only locks that have been held for at least this time; the exit code is 1 if there are
    /// any
    ///
    /// For monitoring: the exit code is 0 if no lock has been held for this long. The time is
    /// counted from the grant, not from the last renewal. Other programs' locks are not listed,
    /// because nobody knows when they were acquired.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) held_for: Option<String>,

    /// List jobs of `once` and `every` instead of locks: when each last began, who ran it, and when
    /// it is due
    #[arg(long, conflicts_with = "held_for")]
    pub(crate) marks: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Print nothing if there is no lock to list
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Print which store is used
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// The beginning of the names
    #[arg(value_name = "PREFIX", num_args = 0..)]
    pub(crate) prefixes: Vec<OsString>,
}

const EXAMPLE: &str = "\
On a terminal, long keys and labels are shortened so that each lock has one line.

Example: has a nightly job been running for two hours? And the holders of all nightly locks, for a program:
  leasehold ls --held-for 2h nightly:
  leasehold ls --json nightly:";
