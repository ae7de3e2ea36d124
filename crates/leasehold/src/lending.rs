//! Locks over a connection, a pool or a client that the program already has.

use std::error::Error;
use std::ops::Deref;
use std::sync::Arc;

use leasehold_core::{Misuse, Runtime};
use leasehold_redis::RedisStore;
use leasehold_redis::redis::aio::ConnectionLike;

use crate::builder::LocksBuilder;
use crate::error::ConnectError;
use crate::locks::Locks;
use crate::runtime::TokioRuntime;

impl LocksBuilder {
    /// Locks over a connection of redis-rs that the program already has, under the name
    /// `redis (lent)`. This opens nothing. [`RedisStore::from_connection`] says what a lent
    /// connection costs, and that it should be a `ConnectionManager`, which reconnects.
    ///
    /// [`leasehold::redis`](crate::redis) is the version of redis-rs whose connections are taken.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Locks, redis};
    /// let connection = redis::Client::open("redis://127.0.0.1")?.get_multiplexed_async_connection().await?;
    /// let locks = Locks::builder().redis_connection(connection)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: a default is invalid, or no thread could be started.
    #[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
    pub fn redis_connection<C>(self, connection: C) -> Result<Locks, ConnectError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        self.lent(|runtime| Ok(RedisStore::from_connection(connection, "redis (lent)", runtime)))
    }

    /// Locks over a connection from a pool of the program, under the name `redis (lent)`. This
    /// opens nothing.
    ///
    /// `take` takes a connection out of the pool. The locks keep it, and take another one when it
    /// has failed, so they recover from restarts and from `CLIENT KILL`. A pool needs room for one
    /// connection more. [`RedisStore::from_pool`] says more.
    ///
    /// ```ignore
    /// let pool = deadpool_redis::Config::from_url("redis://127.0.0.1").create_pool(None)?;
    /// let locks = Locks::builder().redis_pool(move || {
    ///     let pool = pool.clone();
    ///     async move { pool.get().await }                  // bb8: pool.get_owned().await
    /// })?;
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: a default is invalid, or no thread could be started.
    #[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
    pub fn redis_pool<P, E, Taking>(
        self,
        take: impl Fn() -> Taking + Send + Sync + 'static,
    ) -> Result<Locks, ConnectError>
    where
        P: Deref<Target: ConnectionLike + Clone + Send + Sync + 'static> + Send + Sync + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
        Taking: Future<Output = Result<P, E>> + Send + 'static,
    {
        self.lent(|runtime| Ok(RedisStore::from_pool(take, "redis (lent)", runtime)))
    }

    /// Locks over a client of the fred crate of the program, under the name `redis (lent)`. This
    /// opens nothing. [`RedisStore::from_fred`] says how to set up the client.
    ///
    /// [`leasehold::fred`](crate::fred) is the version of fred whose clients are taken.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: the client is one of a cluster, a default is invalid, or no thread starts.
    #[cfg(feature = "fred")]
    #[cfg_attr(docsrs, doc(cfg(feature = "fred")))]
    pub fn fred_client(self, client: leasehold_redis::fred::clients::Client) -> Result<Locks, ConnectError> {
        self.lent(|runtime| RedisStore::from_fred(client, "redis (lent)", runtime))
    }

    fn lent(
        self,
        store: impl FnOnce(Arc<dyn Runtime>) -> Result<RedisStore, Misuse>,
    ) -> Result<Locks, ConnectError> {
        self.over_made(TokioRuntime::current, |runtime| Ok(Arc::new(store(runtime.clone())?)))
    }
}
