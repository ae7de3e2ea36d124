//! What was typed behind `leasehold every`.

use std::ffi::OsString;

use clap::Args;

use super::JobArgs;

/// Run a command once in each period, whoever starts it
///
/// COMMAND is due when PERIOD has passed since it was last begun, by the store's clock, or when it
/// was never done. If it is not due, or somebody is at it, nothing is run, and the exit code is 0:
/// this never waits, so that a scheduler on each of many machines can start it as often as it
/// likes. When COMMAND fails, or dies, or its lease is lost, it stays due.
///
/// PERIOD is from 1s to a hundred years. What ShedLock calls lock at least for is PERIOD, and lock
/// at most for is --max-hold.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold every [OPTIONS] PERIOD KEY -- COMMAND [ARG]...",
    after_help = "PERIOD and TIME: seconds, or 500ms, 30s, 2m, 1h30m, 7d. Exit codes: `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct EveryArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,

    /// Run COMMAND whether or not it is due, unless somebody is at it; the next period begins with
    /// it
    #[arg(long)]
    pub(crate) now: bool,

    /// How long after it was begun it is due again, and the name of what is done, which is that of
    /// its lock
    #[arg(value_names = ["PERIOD", "KEY"], num_args = 0..)]
    pub(crate) words: Vec<OsString>,

    /// What to run, and its arguments; no shell reads them
    #[arg(value_name = "COMMAND", last = true, num_args = 0..)]
    pub(crate) command: Vec<OsString>,
}

const EXAMPLE: &str = "\
PERIOD and TIME are a number of seconds, or numbers with units: 500ms, 30s, 2m, 1h30m, 7d.

COMMAND's own exit code is ours; 0 as well when it was not due: `leasehold help exit-codes`.

A period that is a little shorter than a scheduler's keeps a start that is some seconds early from being one too many.

Example: in the crontab of each of many machines, at one of them each night:
  leasehold every 23h nightly -- ./report";
