//! The options of every task that takes a lock for its own sake.

use clap::Args;

use super::{KeepingArgs, WaitingArgs};

/// How to take a lock, and where.
#[derive(Args, Debug)]
pub(crate) struct TakingArgs {
    #[command(flatten)]
    pub(crate) waiting: WaitingArgs,

    /// Hold the lock together with all others who share it; who does not share it is kept out, and
    /// keeps us out
    #[arg(long, conflicts_with = "permits")]
    pub(crate) shared: bool,

    /// Take N of the M permits of the lock, as in 1/4; M alone means one of them
    ///
    /// All who use the lock must name the same M. Who names another is kept out, and keeps us out.
    #[arg(long, value_name = "N/M", allow_negative_numbers = true)]
    pub(crate) permits: Option<String>,

    #[command(flatten)]
    pub(crate) keeping: KeepingArgs,

    /// Say nothing when the lock is held
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
