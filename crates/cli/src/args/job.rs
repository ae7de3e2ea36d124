//! The options of the tasks that run a command only when it is due: `once` and `every`.

use clap::Args;

use super::{CommandArgs, LeaseArgs};

/// How to run a job, and the exit code if it was not to be run.
#[derive(Args, Debug)]
pub(crate) struct JobArgs {
    /// Exit with this instead of 0 if COMMAND was not to be run
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) skip_exit_code: Option<String>,

    #[command(flatten)]
    pub(crate) lease: LeaseArgs,

    #[command(flatten)]
    pub(crate) running: CommandArgs,

    /// Print nothing if the lock is held, or COMMAND is not to be run
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
