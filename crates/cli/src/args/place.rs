//! The option of every task that is about locks.

use clap::Args;

/// Where the locks are.
#[derive(Args, Debug)]
pub(crate) struct PlaceArgs {
    /// Where the locks are [default: $LEASEHOLD_STORE, or a file in this user's home]
    ///
    /// file:PATH, redis://HOST, rediss://HOST, redis+unix:///SOCKET,
    /// redis+sentinel://HOST,HOST/MASTER, redis+cluster://HOST,HOST or postgres://HOST/DATABASE;
    /// `leasehold help stores` says more. Every user of this machine can see what stands here: a
    /// password belongs into a file (?password-file=FILE), or the URL into LEASEHOLD_STORE.
    ///
    /// Given several times, the locks are in a majority of these stores: name the same ones
    /// everywhere, in the same order.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Vec<String>,

    /// How long to try a store that does not answer [default: 10s; 2s with --try and for tasks that
    /// only look]
    ///
    /// Without --within and without this, `run` and `hold` go on waiting for a lock through any
    /// outage, once the store has answered.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, hide_short_help = true)]
    pub(crate) outage_limit: Option<String>,

    /// The longest ttl of all who use several stores together [default: $LEASEHOLD_MAX_TTL, or 60s]
    ///
    /// A store that was restarted without its state is not counted for so long. It must be the same
    /// everywhere.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, hide_short_help = true)]
    pub(crate) max_ttl: Option<String>,
}
