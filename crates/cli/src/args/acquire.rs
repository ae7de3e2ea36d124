//! The options of `run` and `hold`, which acquire a lock in any mode.

use clap::Args;

use super::{LeaseArgs, WaitingArgs};

/// How to acquire a lock, and where.
#[derive(Args, Debug)]
pub(crate) struct AcquireArgs {
    #[command(flatten)]
    pub(crate) waiting: WaitingArgs,

    /// Share the lock with all others who pass --shared; exclude everybody else
    #[arg(long, conflicts_with = "permits")]
    pub(crate) shared: bool,

    /// Take N of the M permits of the lock, as in 1/4; M alone means one of them
    ///
    /// All users of the lock must name the same M: requests with another M wait until no permit of
    /// this M is held.
    #[arg(long, value_name = "N/M", allow_negative_numbers = true)]
    pub(crate) permits: Option<String>,

    #[command(flatten)]
    pub(crate) lease: LeaseArgs,

    /// Print nothing if the lock is held
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
