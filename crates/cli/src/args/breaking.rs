//! The arguments of `leasehold break`.

use std::ffi::OsString;

use clap::Args;

use super::PlaceArgs;

/// End another process's lease, by its fence
///
/// For a holder that hangs or cannot be reached. `leasehold show` prints the fence, which names one
/// holding exactly: if the lock has changed hands since, nothing is broken. The next waiter has the
/// lock immediately. The holder is notified at once if the store can do that, otherwise by its next
/// renewal, and a `leasehold run` then ends its command. Until then it continues to work: data that
/// the lock protects is safe only if it refuses smaller fences.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold break [OPTIONS] KEY --fence N",
    after_help = "Exit codes: 0 broken, 1 free, 75 held with another fence; `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct BreakArgs {
    /// The fence of the lease to end
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) fence: Option<String>,

    /// The reason, up to 256 bytes, which `leasehold show` prints for a day
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,

    /// Print one JSON object
    ///
    /// key, broken, and holders: the holder whose lease was broken, or the one that holds the lock
    /// instead, if any, with the same fields as in `leasehold show --json`.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Print nothing if the lease was broken, only set the exit code
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Print which store is used
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// The name of the lock
    #[arg(value_name = "KEY", num_args = 0..)]
    pub(crate) keys: Vec<OsString>,
}

const EXAMPLE: &str = "\
Exit codes: 0 broken, 1 the lock is free, 65 it is another program's, 75 held with another fence; `leasehold help exit-codes`.

Example: a deployment hangs, and its machine cannot be reached:
  leasehold show deploy
  leasehold break deploy --fence 1763713011000000";
