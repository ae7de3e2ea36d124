//! The options of every task that may wait for a lock.

use clap::Args;

/// How long to wait for a holder, and the exit code if that was in vain.
#[derive(Args, Debug)]
pub(crate) struct WaitingArgs {
    /// Try once, and exit with 75 if the lock is held
    #[arg(short = 'n', long = "try", conflicts_with = "within")]
    pub(crate) one_try: bool,

    /// Wait no longer than this, then exit with 75; without it, there is no limit
    ///
    /// If a store does not answer, it may still serve the request later. So the request is withdrawn
    /// there before leasehold exits, which takes up to 3 s more.
    #[arg(short, long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) within: Option<String>,

    /// Exit with this instead of 75 if the lock is held, also after --within
    #[arg(short = 'E', long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) busy_exit_code: Option<String>,
}
