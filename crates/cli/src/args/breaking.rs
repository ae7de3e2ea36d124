//! What was typed behind `leasehold break`.

use std::ffi::OsString;

use clap::Args;

use super::{NamingArgs, PlaceArgs};

/// End somebody else's lease, by its fence
///
/// For a holder that hangs, or that cannot be reached. The fence says which holding is meant, as
/// `leasehold show` shows it, so it is the confirmation too: if the lock has changed hands since,
/// nothing is broken. The next in line has the lock at once. The holder is told where the store can
/// tell it, and a `leasehold run` then ends its command; else with its next renewal. Until then it
/// works on: what the lock guards is safe only if it refuses smaller fences.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold break [OPTIONS] KEY --fence N",
    after_help = "Exit codes: 0 broken, 1 free, 75 held with another fence; `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct BreakArgs {
    /// The fence of the lease that is to be ended
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) fence: Option<String>,

    /// Why, for the record that `leasehold show` shows for a day: up to 256 bytes
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,

    /// Print one JSON object
    ///
    /// key, broken, and holding: what was broken, or who holds the lock instead (null: nobody), as
    /// `leasehold show --json` has it.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(flatten)]
    pub(crate) naming: NamingArgs,

    /// Print nothing when it was broken: the exit code says it
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Say where we look
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
