//! What was typed behind `leasehold ls`.

use std::ffi::OsString;

use clap::Args;

use super::{NamingArgs, PlaceArgs};

/// List the locks that are held or waited for
///
/// Those whose names begin with PREFIX, literally, in the order of their bytes. Locks of other
/// programs are listed only where one of leasehold's waits for them: on a server, nothing tells
/// them from other strings.
///
/// HELD is how long a lock has been held, LEFT is how long its lease lasts unless it is renewed.
///
/// A server is looked through a thousand keys at a time, which keeps nobody waiting but takes a
/// while where there are millions.
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

    /// Print JSON, one object a line
    ///
    /// One for each lock, as `leasehold show --json` prints it, without mark and last_break; with
    /// --marks, key and the fields of mark.
    #[arg(long)]
    pub(crate) json: bool,

    /// List only locks that have been held for so long or longer; the exit code is 1 if there are
    /// any
    ///
    /// For monitoring: 0 when no lock has been held for so long. The time since the grant counts,
    /// not since the last renewal. Another program's locks are not listed, because nobody knows
    /// when they were taken.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) held_for: Option<String>,

    /// List what `once` and `every` ran, instead of locks: when it was last begun, by whom, and
    /// when it is due
    #[arg(long, conflicts_with = "held_for")]
    pub(crate) marks: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(flatten)]
    pub(crate) naming: NamingArgs,

    /// Say nothing when there is no lock to list
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Say where we look
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// What the names begin with
    #[arg(value_name = "PREFIX", num_args = 0..)]
    pub(crate) prefixes: Vec<OsString>,
}

const EXAMPLE: &str = "\
On a terminal, long keys and labels are cut so that each lock has one line; elsewhere nothing is cut.

Example: has one of the nightly jobs been running for two hours, and who holds their locks, for a program to read?
  leasehold ls --held-for 2h nightly:
  leasehold ls --json nightly:";
