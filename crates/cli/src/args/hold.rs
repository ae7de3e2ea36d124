//! The arguments of `leasehold hold`.

use std::ffi::OsString;

use clap::Args;

use super::AcquireArgs;

/// Hold a lock for a shell script, until the script ends
///
/// Waits for the lock, prints its fence on one line, and holds the lock until the reader of that
/// line closes its end of the pipe, which also happens when the reader ends. If the lease is lost,
/// the pipe is closed and the exit code is 70. If stdout is a terminal or a file instead of a pipe,
/// the lock is held until SIGINT, SIGTERM or SIGHUP.
///
/// A script is not ended when its lock is lost: it has to check. `leasehold run` ends its command.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold hold [OPTIONS] KEY...",
    after_help = "TIME: seconds, or 500ms, 30s, 2m, 1h30m. Exit codes: `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct HoldArgs {
    #[command(flatten)]
    pub(crate) acquire: AcquireArgs,

    /// The name of the lock, or of several that are acquired together
    #[arg(value_name = "KEY", num_args = 0..)]
    pub(crate) keys: Vec<OsString>,

    #[arg(value_name = "COMMAND", last = true, num_args = 0.., hide = true)]
    pub(crate) command: Vec<OsString>,
}

const EXAMPLE: &str = "\
TIME is a number of seconds, or numbers with units: 500ms, 30s, 2m, 1h30m.

Example: a bash script that holds the lock from here to its end, or to `exec 9<&-`:
  exec 9< <(leasehold hold deploy)
  read -r fence <&9 || exit 75";
