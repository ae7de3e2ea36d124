//! The option of every task that is told names of locks.

use clap::Args;

/// What locks are called at the store.
#[derive(Args, Debug)]
pub(crate) struct NamingArgs {
    /// Whose locks of the same names are kept out as well: pottery, shedlock... [default: verbatim]
    ///
    /// For fleets in which other libraries lock the same things on the same server: the key of KEY
    /// is the one that the library has for a lock of that name. redlock.net and pottery:
    /// redlock:KEY. redis-semaphore: mutex:KEY. python-redis-lock: lock:KEY, whose waiters are
    /// woken too. shedlock:ENVIRONMENT: job-lock:ENVIRONMENT:KEY; shedlock alone is
    /// shedlock:default. exclusive-lock: exclusive-lock:KEY, with a - for all that is no letter,
    /// digit or _. verbatim: KEY, as for redlock, redsync and redis-py. What we say and hand out is
    /// that key.
    #[arg(long, value_name = "LIBRARY")]
    pub(crate) naming: Option<String>,
}
