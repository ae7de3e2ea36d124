//! The arguments of `leasehold bench`.

use clap::Args;

use super::StoreArgs;

/// Measure the cost of locks in a store, next to a minimal loop
///
/// Measures the time of a round trip, how often per second a lock is acquired and released by one
/// task and by several at once, and the time from a release until the next waiter has the lock, on
/// another connection. The minimal loop alternates with that on the same connection: SET NX PX and
/// a compare-and-delete on a server, two transactions that write one row each in a file. It has no
/// fence, no queue and no renewal; the ratio shows what those cost.
///
/// It uses key names of its own. The last fence of each stays for ten minutes, as for every lock;
/// everything else is gone when it ends, also by Ctrl-C, and a moment later if it is killed. Other
/// users of the store are slowed down meanwhile.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold bench [OPTIONS] [URL]...",
    after_help = "Exit codes: `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct BenchArgs {
    /// About how long to measure
    ///
    /// 5 s by default, from 1 s to 10 min. A distant store gets the time for three rounds in any
    /// case.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) seconds: Option<String>,

    /// How many tasks acquire and release at once [default: 16]
    ///
    /// Each uses its own key. One task alone is measured, too.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) tasks: Option<String>,

    /// The beginning of the key names [default: leasehold-bench:]
    ///
    /// For a user who may only use certain keys. It is followed by digits that no other bench uses.
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,

    /// Print JSON, one object per line
    ///
    /// One for each figure: figure ("round-trip-rested", "round-trip", "pairs" or
    /// "hand-off"), of ("leasehold", "baseline" or "ratio"), tasks, unit ("us",
    /// "per-second" or null), median, lowest and highest of the rounds, rounds, and store.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Do not print what is about to be measured
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// The stores, as for --store
    #[arg(value_name = "URL", num_args = 0..)]
    pub(crate) urls: Vec<String>,
}

const EXAMPLE: &str = "\
Each figure is the median of the rounds, with the lowest and the highest of them. In a round everything is measured once, and every
second one begins from the other end, so that what changes meanwhile changes both sides of a ratio. A round trip at rest is one after two
milliseconds of silence, as a program sends it that takes a lock now and then. A lock costs two round trips, like a baseline pair.

Example: what do locks cost on this server, and in this file?
  leasehold bench redis://10.0.0.5
  leasehold bench --store file:/var/lib/app/leases.db";
