//! The options of every task that runs a command.

use clap::Args;

/// How to run the command.
#[derive(Args, Debug)]
pub(crate) struct CommandArgs {
    /// From SIGTERM to SIGKILL when the lease is lost [default: 5s, or ttl/4 if less]
    ///
    /// COMMAND gets SIGTERM this long before the end of the lease. At most half of the TTL, so that
    /// there is time to renew.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) grace: Option<String>,

    /// Keep the lock until everything that COMMAND started has ended, as flock does
    ///
    /// Otherwise, the lock is released when COMMAND ends, and processes that it left running
    /// continue without the lock; -v prints how many there are. The exit code is COMMAND's in any
    /// case.
    #[arg(long)]
    pub(crate) wait_for_all: bool,

    /// Do not use the terminal: COMMAND gets its own process group, and leasehold passes signals on
    #[arg(long)]
    pub(crate) no_tty: bool,
}
