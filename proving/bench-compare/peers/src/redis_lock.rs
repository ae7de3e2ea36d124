use std::sync::Arc;
use std::time::Duration;

use competitor::{AnyError, Competitor, TTL, Visit};
use redis_0_27::aio::MultiplexedConnection;
use redis_0_27::{AsyncConnectionConfig, Client};
use redis_lock::{LockAcrossError, LockAcrossOptions, lock_across};
use tokio::sync::Mutex;

/// Its lock on one resource, over one connection behind a mutex, as in its documentation.
#[derive(Clone)]
pub(crate) struct RedisLock(Arc<Mutex<MultiplexedConnection>>);

impl Competitor for RedisLock {
    async fn connect(url: &str) -> Result<Self, AnyError> {
        let limits = AsyncConnectionConfig::new().set_response_timeout(Duration::from_secs(60));
        let client = Client::open(url)?;
        let connection = client.get_multiplexed_async_connection_with_config(&limits).await?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    async fn visit(&self, key: &str, hold: Duration) -> Result<Option<Visit>, AnyError> {
        let options = LockAcrossOptions { ttl: TTL, ..LockAcrossOptions::default() };
        match lock_across(&[self.0.clone()], key, Visit::lasting(hold), options).await {
            Ok(visit) => Ok(Some(visit)),
            Err(LockAcrossError::Acquire(_)) => Ok(None),
            Err(LockAcrossError::Release(why)) => Err(why.to_string().into()),
            Err(LockAcrossError::Panic(_)) => Err("what was done under the lock panicked".into()),
        }
    }
}
