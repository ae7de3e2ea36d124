//! The options of every task that runs a command.

use clap::Args;

/// How to run it.
#[derive(Args, Debug)]
pub(crate) struct RunningArgs {
    /// From SIGTERM to SIGKILL when the lease is lost [default: 5s, or ttl/4 if less]
    ///
    /// COMMAND is asked to end so long before the lease's end. At most half of the ttl, so that
    /// there is time to renew.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) grace: Option<String>,

    /// Keep the lock until everything that COMMAND started has ended, as flock does
    ///
    /// Without it the lock is released when COMMAND ends, and what it left running goes on without
    /// the lock; -v says how many processes those are. The exit code is COMMAND's in any case.
    #[arg(long)]
    pub(crate) wait_for_all: bool,

    /// Leave the terminal out of it: COMMAND gets a process group of its own, and signals from us
    #[arg(long)]
    pub(crate) no_tty: bool,
}
