//! The options of every task that acquires a lock: its lease, its store, and its reports.

use clap::Args;

use super::{NamingArgs, StoreArgs};

/// How to keep a lock, and where.
#[derive(Args, Debug)]
pub(crate) struct LeaseArgs {
    /// How long the lock stays held if leasehold crashes [default: 30s]
    ///
    /// The lease is renewed after a third of this time, so this does not limit how long the lock
    /// can be held.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) ttl: Option<String>,

    /// End work that still holds the lock after this time, and exit with 70
    ///
    /// COMMAND gets SIGTERM, and SIGKILL after the grace; the lock is released when everything that
    /// it started is gone. Processes that leasehold may not kill, such as another user's (sudo),
    /// are named, and the lock is kept while they live. The TTL is at most this.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) max_hold: Option<String>,

    /// The holder's name, as shown to others [default: user@host:pid command]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    #[command(flatten)]
    pub(crate) naming: NamingArgs,

    /// Write events to this descriptor, as lines of JSON
    ///
    /// 3 or greater, opened for writing by the shell, as in `3>events`. COMMAND does not inherit
    /// it. `leasehold help events` lists the events.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) status_fd: Option<String>,

    /// Print which store is used, who is waited for, and what is acquired
    #[arg(short, long)]
    pub(crate) verbose: bool,
}
