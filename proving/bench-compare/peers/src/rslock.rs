use std::time::Duration;

use competitor::{AnyError, Competitor, TTL, Visit};
use rslock::LockManager;

#[derive(Clone)]
pub(crate) struct Rslock(LockManager);

impl Competitor for Rslock {
    async fn connect(url: &str) -> Result<Self, AnyError> {
        Ok(Self(LockManager::new(vec![url])))
    }

    async fn visit(&self, key: &str, hold: Duration) -> Result<Option<Visit>, AnyError> {
        // Polls until it has the lock.
        let guard = self.0.acquire(key, TTL).await?;
        let visit = Visit::lasting(hold).await;
        guard.release().await;
        Ok(Some(visit))
    }
}
