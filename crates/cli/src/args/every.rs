//! The arguments of `leasehold every`.

use std::ffi::OsString;

use clap::Args;

use super::JobArgs;

/// Run a command once in each period, whichever machine starts it
///
/// COMMAND is due if it was never done, or if PERIOD has passed since it last began, by the store's
/// clock. If it is not due, or somebody is running it, nothing is run, and the exit code is 0. This
/// never waits, so a scheduler on each of many machines can start it as often as it likes. If
/// COMMAND fails or dies, or its lease is lost, it stays due.
///
/// PERIOD is from 1s to a hundred years. It corresponds to ShedLock's lockAtLeastFor, and
/// --max-hold to lockAtMostFor.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold every [OPTIONS] PERIOD KEY -- COMMAND [ARG]...",
    after_help = "PERIOD and TIME: seconds, or 500ms, 30s, 2m, 1h30m, 7d. Exit codes: `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct EveryArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,

    /// Run COMMAND even if it is not due, unless somebody is running it; the next period begins now
    #[arg(long)]
    pub(crate) now: bool,

    /// The time from one start until it is due again, and the name of the job, which is also that
    /// of its lock
    #[arg(value_names = ["PERIOD", "KEY"], num_args = 0..)]
    pub(crate) words: Vec<OsString>,

    /// The command and its arguments; no shell interprets them
    #[arg(value_name = "COMMAND", last = true, num_args = 0..)]
    pub(crate) command: Vec<OsString>,
}

const EXAMPLE: &str = "\
PERIOD and TIME are a number of seconds, or numbers with units: 500ms, 30s, 2m, 1h30m, 7d.

The exit code is COMMAND's; 0 if it was not due: `leasehold help exit-codes`.

Make the period a little shorter than the scheduler's, so that a start that is some seconds early is not skipped.

Example: in the crontab of many machines, run on one of them each night:
  leasehold every 23h nightly -- ./report";
