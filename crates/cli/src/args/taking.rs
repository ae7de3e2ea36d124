//! The options of every task that takes a lock.

use clap::Args;

use super::PlaceArgs;

/// How to take a lock, and where.
#[derive(Args, Debug)]
pub(crate) struct TakingArgs {
    /// Try once, and exit with 75 when the lock is held
    #[arg(short = 'n', long = "try", conflicts_with = "within")]
    pub(crate) once: bool,

    /// Wait no longer than this, then exit with 75; without it, wait as long as it takes
    #[arg(short, long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) within: Option<String>,

    /// Exit with this instead of 75 when the lock is held, also after --within
    #[arg(short = 'E', long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) busy_exit_code: Option<String>,

    /// How long a crash of ours keeps the others out [default: 30s]
    ///
    /// The lease is renewed when a third of it is gone, so this does not limit how long the lock can be held.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) ttl: Option<String>,

    /// Hold the lock no longer than this in all, then exit with 70
    ///
    /// For work that may hang. The ttl is no longer than this.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) max_hold: Option<String>,

    /// Hold the lock together with all others who share it; who does not share it is kept out, and keeps us out
    #[arg(long, conflicts_with = "permits")]
    pub(crate) shared: bool,

    /// Take N of the M permits of the lock, as in 1/4; M alone means one of them
    ///
    /// All who use the lock must name the same M. Who names another is kept out, and keeps us out.
    #[arg(long, value_name = "N/M", allow_negative_numbers = true)]
    pub(crate) permits: Option<String>,

    /// What others are told about who holds the lock [default: host:pid]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Write what happens to this descriptor, as lines of JSON
    ///
    /// 3 or greater, opened for writing by the shell, as in `3>events`. The command does not inherit it. `leasehold help
    /// events` lists the events.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) status_fd: Option<String>,

    /// Say nothing when the lock is held
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Say where we wait and for whom, and what we take
    #[arg(short, long)]
    pub(crate) verbose: bool,
}
