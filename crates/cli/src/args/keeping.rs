//! The options of every task that takes a lock: how it is kept, where, and who is told.

use clap::Args;

use super::{NamingArgs, PlaceArgs};

/// How to keep a lock, and where.
#[derive(Args, Debug)]
pub(crate) struct KeepingArgs {
    /// How long a crash of ours keeps the others out [default: 30s]
    ///
    /// The lease is renewed when a third of it is gone, so this does not limit how long the lock
    /// can be held.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) ttl: Option<String>,

    /// End what holds the lock after so long, and exit with 70
    ///
    /// For work that may hang. COMMAND is then asked to end, and killed after the grace; the lock
    /// is released when all that it started is gone. Processes that leasehold may not kill, such as
    /// another user's (sudo), keep the lock for longer: they are named, and the lease is renewed
    /// while they live. The ttl is no longer than this.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) max_hold: Option<String>,

    /// What others are told about who holds the lock [default: user@host:pid command]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(flatten)]
    pub(crate) naming: NamingArgs,

    /// Write what happens to this descriptor, as lines of JSON
    ///
    /// 3 or greater, opened for writing by the shell, as in `3>events`. The command does not
    /// inherit it. `leasehold help events` lists the events.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) status_fd: Option<String>,

    /// Say where we wait and for whom, and what we take
    #[arg(short, long)]
    pub(crate) verbose: bool,
}
