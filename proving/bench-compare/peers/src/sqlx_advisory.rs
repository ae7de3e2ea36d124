use std::time::Duration;

use competitor::{AnyError, Competitor, Visit};
use sqlx::PgPool;
use sqlx::postgres::PgAdvisoryLock;

/// sqlx's advisory lock with a default pool: a waiter keeps a connection until the lock is free.
#[derive(Clone)]
pub(crate) struct Sqlx(PgPool);

impl Competitor for Sqlx {
    async fn connect(url: &str) -> Result<Self, AnyError> {
        Ok(Self(PgPool::connect(url).await?))
    }

    async fn visit(&self, key: &str, hold: Duration) -> Result<Option<Visit>, AnyError> {
        let guard = PgAdvisoryLock::new(key);
        let guard = guard.acquire(self.0.acquire().await?).await?;
        let visit = Visit::lasting(hold).await;
        guard.release_now().await?;
        Ok(Some(visit))
    }
}
