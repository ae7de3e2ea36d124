//! The arguments of `leasehold run`.

use std::ffi::OsString;

use clap::Args;

use super::{AcquireArgs, CommandArgs};

/// Run a command while holding a lock
///
/// Waits for the lock, runs COMMAND under it, releases it, and ends as COMMAND ended. Several keys
/// are acquired together or not at all. COMMAND and everything that it started never outlive the
/// lease: if it is lost, or if leasehold is killed or stopped, they are ended.
///
/// Exceptions: processes of another user (sudo) cannot be killed by leasehold; it names them, and
/// keeps the lock while it can renew it. If leasehold and its supervisor are killed with SIGKILL at
/// the same moment, COMMAND dies with them unless it is setuid, but processes that COMMAND started
/// may live on.
///
/// On macOS and FreeBSD, COMMAND always has its own process group, and only that group is ended,
/// not a process that leaves it. If the supervisor itself is killed there, COMMAND continues.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold run [OPTIONS] KEY... -- COMMAND [ARG]...",
    after_help = "TIME: seconds, or 500ms, 30s, 2m, 1h30m. Exit codes: `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) acquire: AcquireArgs,

    #[command(flatten)]
    pub(crate) running: CommandArgs,

    /// The name of the lock, or of several that are acquired together
    #[arg(value_name = "KEY", num_args = 0..)]
    pub(crate) keys: Vec<OsString>,

    /// The command and its arguments; no shell interprets them
    #[arg(value_name = "COMMAND", last = true, num_args = 0..)]
    pub(crate) command: Vec<OsString>,
}

const EXAMPLE: &str = "\
TIME is a number of seconds, or numbers with units: 500ms, 30s, 2m, 1h30m.

The exit code is COMMAND's; 75 if the lock is held, 70 if the lease was lost: `leasehold help exit-codes`.

Example: wait up to half a minute for the others, then deploy:
  leasehold run --within 30s deploy -- ./deploy --all";
