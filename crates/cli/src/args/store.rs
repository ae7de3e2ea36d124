//! The options that choose the store, for every task about locks.

use clap::Args;

/// The store of the locks.
#[derive(Args, Debug)]
pub(crate) struct StoreArgs {
    /// The store of the locks [default: $LEASEHOLD_STORE, or a file in this user's home]
    ///
    /// `leasehold help stores` lists the kinds of URLs. Every user of this machine can see the
    /// command line, so keep a password in a file (?password-file=FILE). If given several times,
    /// the stores form a quorum: name the same ones everywhere, in the same order.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Vec<String>,

    /// How long to try a store that does not answer [default: 10s; 2s with --try and for tasks that
    /// only look]
    ///
    /// Without --within and without this, `run` and `hold` keep waiting for a lock through any
    /// outage, once the store has answered.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, hide_short_help = true)]
    pub(crate) outage_limit: Option<String>,

    /// The longest TTL of all users of a quorum [default: $LEASEHOLD_MAX_TTL, or 60s]
    ///
    /// It must be the same everywhere. A store that was restarted without its data does not vote
    /// for this time.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, hide_short_help = true)]
    pub(crate) max_ttl: Option<String>,
}
