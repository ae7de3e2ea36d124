//! The options of the tasks that run a command only when it is to be run: `once` and `every`.

use clap::Args;

use super::{KeepingArgs, RunningArgs};

/// How to do it, and how to end when it was not to be done.
#[derive(Args, Debug)]
pub(crate) struct JobArgs {
    /// Exit with this instead of 0 when COMMAND was not to be run
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) skip_exit_code: Option<String>,

    #[command(flatten)]
    pub(crate) keeping: KeepingArgs,

    #[command(flatten)]
    pub(crate) running: RunningArgs,

    /// Say nothing when the lock is held, or COMMAND is not to be run
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
