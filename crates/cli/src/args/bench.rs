//! What was typed behind `leasehold bench`.

use clap::Args;

use super::PlaceArgs;

/// Measure what locks cost at a store, beside the least that could keep two apart there
///
/// How long a round trip takes, how often a second a lock is taken and released by one task and by
/// several at once, and how long it takes from a release until the next in line has the lock, on
/// another connection. Beside the pairs stand bare ones, on the same connection and in turns with
/// them: SET NX PX and a compare-and-delete on a server, two transactions that write a row each in
/// a file. They have no fence, no line and no renewal; the ratio is what those cost.
///
/// It uses names of its own. Of each that was a lock, the last fence stays for ten minutes, as of
/// every lock; all else is gone when it ends, also by Ctrl-C, and a moment later when it is killed.
/// What others do at the store is slower meanwhile.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold bench [OPTIONS] [URL]...",
    after_help = "Exit codes: `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct BenchArgs {
    /// How long to measure, about
    ///
    /// 5 s by default, from 1 s to 10 min. A store that is far away gets the time for three rounds
    /// in any case.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) seconds: Option<String>,

    /// How many tasks take and release at once [default: 16]
    ///
    /// Each has a name of its own. One task alone is measured too.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) tasks: Option<String>,

    /// What the names begin with [default: leasehold-bench:]
    ///
    /// For a user who may only use certain keys. Behind it stand digits that no other bench has.
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,

    /// Print JSON, one object a line
    ///
    /// One for each figure: figure (\"round-trip-rested\", \"round-trip\", \"pairs\" or
    /// \"hand-off\"), of (\"leasehold\", \"bare\" or \"ratio\"), tasks, unit (\"us\",
    /// \"per-second\" or null), median, lowest and highest of the rounds, rounds, and store.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Do not say what is about to be done
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// The stores, as --store names them
    #[arg(value_name = "URL", num_args = 0..)]
    pub(crate) urls: Vec<String>,
}

const EXAMPLE: &str = "\
Each figure is the median of the rounds, with the lowest and the highest of them. In a round everything is measured once, and every
second one begins from the other end, so that what changes meanwhile changes both sides of a ratio. A round trip at rest is one after two
milliseconds of silence, as a program sends it that takes a lock now and then. A lock costs two round trips, like a bare pair.

Example: what do locks cost on this server, and in this file?
  leasehold bench redis://10.0.0.5
  leasehold bench --store file:/var/lib/app/leases.db";
