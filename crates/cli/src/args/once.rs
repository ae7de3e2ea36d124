//! What was typed behind `leasehold once`.

use std::ffi::OsString;

use clap::Args;

use super::{JobArgs, WaitingArgs};

/// Run a command once, ever, whoever starts it
///
/// If COMMAND has been run to its end under this name, nothing is run, and the exit code is 0. If
/// somebody is at it, this waits, and then finds it done, or does it. It is done when COMMAND ends
/// with 0, and the store has noted that; when it fails, or dies, or its lease is lost, it is left
/// to the next.
///
/// So with exit code 0 it is done, now or before. Who crashes between the last step of COMMAND and
/// the note leaves it to the next, who runs it again: let COMMAND be such that this does no harm.
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

    /// The name of what is done, and of the lock under which it is
    #[arg(value_name = "KEY", num_args = 0..)]
    pub(crate) keys: Vec<OsString>,

    /// What to run, and its arguments; no shell reads them
    #[arg(value_name = "COMMAND", last = true, num_args = 0..)]
    pub(crate) command: Vec<OsString>,
}

const EXAMPLE: &str = "\
TIME is a number of seconds, or numbers with units: 500ms, 30s, 2m, 1h30m.

COMMAND's own exit code is ours; 0 as well when it was done before; 75 when somebody is at it and --within is over: `leasehold help exit-codes`.

Example: each of many machines starts its service behind this, and one of them migrates the database:
  leasehold once migrate:0042 -- ./migrate 0042";
