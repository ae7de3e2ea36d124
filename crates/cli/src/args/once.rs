//! The arguments of `leasehold once`.

use std::ffi::OsString;

use clap::Args;

use super::{JobArgs, WaitingArgs};

/// Run a command once, ever, whichever machine starts it
///
/// If COMMAND has already been run successfully under this name, nothing is run, and the exit code
/// is 0. If somebody is running it, this waits, and then either finds it done or runs it. It counts
/// as done when COMMAND has ended with 0 and the store has recorded that. If COMMAND fails or dies,
/// or its lease is lost, it is left to the next run.
///
/// So exit code 0 means that it is done, now or earlier. After a crash between the end of COMMAND
/// and the record, the next run runs it again: COMMAND must be harmless when run twice.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold once [OPTIONS] KEY -- COMMAND [ARG]...",
    after_help = "TIME: seconds, or 500ms, 30s, 2m, 1h30m. Exit codes: `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct OnceArgs {
    #[command(flatten)]
    pub(crate) waiting: WaitingArgs,

    #[command(flatten)]
    pub(crate) job: JobArgs,

    /// The name of the job, which is also the name of its lock
    #[arg(value_name = "KEY", num_args = 0..)]
    pub(crate) keys: Vec<OsString>,

    /// The command and its arguments; no shell interprets them
    #[arg(value_name = "COMMAND", last = true, num_args = 0..)]
    pub(crate) command: Vec<OsString>,
}

const EXAMPLE: &str = "\
TIME is a number of seconds, or numbers with units: 500ms, 30s, 2m, 1h30m.

The exit code is COMMAND's; 0 if it was done before; 75 if somebody is running it and --within has passed: `leasehold help exit-codes`.

Example: each of many machines runs this before it starts its service, and one of them migrates the database:
  leasehold once migrate:0042 -- ./migrate 0042";
