//! The arguments of `leasehold watch`.

use std::ffi::OsString;

use clap::Args;

use super::PlaceArgs;

/// Print what happens to locks, one line per event
///
/// For all locks, or those whose names begin with PREFIX: first who holds them and who waits, and
/// from then on who acquires or releases one, starts or stops waiting, and which leases are broken.
///
/// It looks at each lock about once a second, as `leasehold top` does, with at most twenty commands
/// a second. It does not see what begins and ends between two looks. To miss nothing of one run,
/// let the run write its own events: `leasehold help events`.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold watch [OPTIONS] [PREFIX]",
    after_help = "Exit codes: `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct WatchArgs {
    /// Print JSON, one object per line
    ///
    /// Each has event, at (milliseconds since 1970 by this machine's clock) and v (1): watching
    /// (store), caught_up (everything that was there before has been reported), held, ended,
    /// waiting, left (it stopped waiting and was not seen to hold the lock), broken, fault
    /// (reason), back (the store answers again). docs/json.md describes their fields.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// The beginning of the names
    #[arg(value_name = "PREFIX", num_args = 0..)]
    pub(crate) prefixes: Vec<OsString>,
}

const EXAMPLE: &str = "\
It continues until a signal ends it or nobody reads its lines any more. While the store does not answer, it keeps asking.

Example: write down who deploys:
  leasehold watch --json deploy >>deploys.jsonl";
