//! The option of every task that is about locks.

use clap::Args;

/// Where the locks are.
#[derive(Args, Debug)]
pub(crate) struct PlaceArgs {
    /// Where the locks are [default: $LEASEHOLD_STORE, or a file in this user's home]
    ///
    /// file:PATH, redis://HOST, rediss://HOST or redis+unix:///SOCKET; `leasehold help stores` says more. Every user of this
    /// machine can see what stands here: a URL with a password belongs into LEASEHOLD_STORE.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
}
