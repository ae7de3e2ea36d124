//! Making locks: the entry points of [`Locks`].

use std::time::Duration;

use crate::any_store::AnyStore;
use crate::builder::LocksBuilder;
use crate::error::ConnectError;
use crate::locks::Locks;

impl Locks {
    /// Connects to the store at a URL, with the defaults of [`LocksBuilder`].
    ///
    /// - `memory:`: this process alone
    /// - `file:/path/to/leases.db`: the processes of one machine. The first lock creates the file
    /// - `redis://[user:password@]host[:port][/db]`, `rediss://…` with TLS,
    ///   `redis+unix:///path/to/socket`: a server
    /// - `redis+sentinel://[user:password@]host[:port],host…/master-name`, `rediss+sentinel://…`: the
    ///   master that the sentinels report
    /// - `redis+cluster://[user:password@]host[:port],host…`, `rediss+cluster://…`: a cluster, by any
    ///   of its nodes
    /// - `postgres://[user:password@]host[:port]/database`: a PostgreSQL database, with the feature
    ///   `postgres`
    /// - `quorum:[max-ttl=60s,]URL,URL,URL`: a majority of these stores, as one string. Unlike
    ///   [`Locks::quorum`], this waits until a majority of them answers
    ///
    /// `valkey` may stand for `redis`, and `unix` for `redis+unix`. The parameters of a URL are listed
    /// at `RedisStore::from_url` and `PostgresStore::from_url`.
    ///
    /// The calling runtime keeps the locks: when it ends, the guards are lost.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: the URL is invalid, or the store did not answer within the outage limit or
    /// refuses.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder().connect(url).await
    }

    /// Locks in a quorum: a majority of independent stores, of any kind and in any mix. A lock is
    /// held once a majority of the stores grants it. This opens nothing, so a minority of the
    /// stores may be down.
    ///
    /// No lease may be longer than `max_ttl`, which must be the same for all users of these stores.
    /// 60 s is usual. After a restart without its state, **and at its first use**, a server or a
    /// file abstains for that time plus a second, because nothing distinguishes the two cases. So a
    /// new quorum grants its first lock after 61 s. `lock()` waits for that; `try_lock()` and a
    /// shorter `within` fail with [`LockError::NoQuorum`](crate::LockError::NoQuorum), which says
    /// so. In tests, `redis://…?quarantine=no` serves at once.
    ///
    /// One string can name a quorum too:
    /// [`Locks::connect`]`("quorum:redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3")`.
    ///
    /// ```no_run
    /// use leasehold::{AnyStore, Locks};
    /// let hosts = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let stores: Result<Vec<_>, _> = hosts.into_iter().map(AnyStore::from_url).collect();
    /// let locks = Locks::quorum(stores?, std::time::Duration::from_secs(60))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError::Misuse`]: there is no store, a store is listed twice or cannot be a member, or
    /// the longest TTL is below 5 s or below the TTL of the locks, 30 s by default.
    #[doc(alias = "redlock")]
    pub fn quorum<Member: Into<AnyStore>>(
        stores: impl IntoIterator<Item = Member>,
        max_ttl: Duration,
    ) -> Result<Self, ConnectError> {
        Self::builder().quorum(stores, max_ttl)
    }

    /// Locks of this process alone. They end with the last clone and guard.
    ///
    /// In a test whose runtime already has tokio's clock paused (`start_paused`,
    /// `tokio::time::pause`), they follow that clock: an hour passes in a moment, and leases, waits
    /// and the test's own timers agree on it. Locks in other stores always use real time.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, if the operating system cannot start a thread for one; in a runtime
    /// without timers, which the message says how to enable.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::builder().in_memory().expect("a thread to keep the locks on")
    }

    /// Sets other defaults for these locks, and makes them.
    pub fn builder() -> LocksBuilder {
        LocksBuilder::default()
    }
}
