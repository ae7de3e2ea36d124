use std::time::Duration;

use contender::{Contender, TTL, Trouble, Visit};
use rslock::LockManager;

#[derive(Clone)]
pub(crate) struct Rslock(LockManager);

impl Contender for Rslock {
    async fn connect(url: &str) -> Result<Self, Trouble> {
        Ok(Self(LockManager::new(vec![url])))
    }

    async fn visit(&self, key: &str, hold: Duration) -> Result<Option<Visit>, Trouble> {
        // Polls until it has the lock.
        let guard = self.0.acquire(key, TTL).await?;
        let visit = Visit::lasting(hold).await;
        guard.release().await;
        Ok(Some(visit))
    }
}
