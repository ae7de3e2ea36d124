use std::sync::Arc;
use std::time::Duration;

use competitor::{AnyError, Competitor, TTL, Visit};
use distributed_lock_core::error::LockError;
use distributed_lock_core::traits::{DistributedLock as _, LockHandle as _, LockProvider as _};
use distributed_lock_postgres::PostgresLockProvider;
use distributed_lock_redis::RedisLockProvider;

/// On one server, it never waits for a lock: the caller has to poll.
#[derive(Clone)]
pub(crate) struct DistributedLock(Arc<RedisLockProvider>);

impl Competitor for DistributedLock {
    async fn connect(url: &str) -> Result<Self, AnyError> {
        // In the same proportion as its defaults.
        let built = RedisLockProvider::builder().url(url).expiry(TTL).min_validity(TTL * 9 / 10);
        Ok(Self(Arc::new(built.build().await?)))
    }

    async fn visit(&self, key: &str, hold: Duration) -> Result<Option<Visit>, AnyError> {
        let handle = match self.0.create_lock(key).acquire(None).await {
            Ok(handle) => handle,
            Err(LockError::Timeout(_)) => return Ok(None),
            Err(why) => return Err(why.into()),
        };
        let visit = Visit::lasting(hold).await;
        handle.release().await?;
        Ok(Some(visit))
    }
}

/// On PostgreSQL it takes advisory locks, and a waiter keeps a connection.
#[derive(Clone)]
pub(crate) struct OnPostgres(Arc<PostgresLockProvider>);

impl Competitor for OnPostgres {
    async fn connect(url: &str) -> Result<Self, AnyError> {
        Ok(Self(Arc::new(PostgresLockProvider::new(url).await?)))
    }

    async fn visit(&self, key: &str, hold: Duration) -> Result<Option<Visit>, AnyError> {
        let handle = self.0.create_lock(key).acquire(None).await?;
        let visit = Visit::lasting(hold).await;
        handle.release().await?;
        Ok(Some(visit))
    }
}
