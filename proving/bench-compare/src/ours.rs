//! Leasehold as one of the compared libraries, through its public API.

use std::env;
use std::time::Duration;

use competitor::{AnyError, Competitor, TTL, Visit, serve};
use leasehold::Locks;

/// The first argument of a process that runs Leasehold.
pub(crate) const PLAY: &str = "--play-leasehold";

/// Runs Leasehold and exits, if this process was started for that.
pub fn play_if_told_to() {
    let words: Vec<String> = env::args().skip(1).collect();
    if let [play, url] = words.as_slice()
        && play == PLAY
    {
        serve::<Ours>(url);
    }
}

#[derive(Clone)]
struct Ours(Locks);

impl Competitor for Ours {
    async fn connect(url: &str) -> Result<Self, AnyError> {
        Ok(Self(Locks::connect(url).await?))
    }

    async fn visit(&self, key: &str, hold: Duration) -> Result<Option<Visit>, AnyError> {
        let guard = self.0.mutex(key).ttl(TTL).lock().await?;
        let visit = Visit::lasting(hold).await;
        guard.release().await?;
        Ok(Some(visit))
    }
}
