//! The store's records besides leases, requested only when somebody wants to see them.

use std::time::{Duration, Instant};

use leasehold::{BreakRecord, InspectError, Key, Locks, Marked};
use tokio::sync::mpsc::UnboundedSender;

use super::Response;
use crate::say::plain;

/// The age at which they are requested again: jobs seldom run.
const FRESH: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    pub(crate) marked: Marked,
    pub(crate) broken: Option<BreakRecord>,
}

/// The marks, and when they were read.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    pub(crate) all: Vec<(Key, Marked)>,
    pub(crate) at: Instant,
}

/// Requests the records about the lock of the page, not too often.
#[derive(Debug, Default)]
pub(crate) struct RecordQueries {
    asked: Option<(Key, Instant)>,
}

impl RecordQueries {
    pub(crate) fn look_at(&mut self, key: Option<&Key>, locks: &Locks, tell: &UnboundedSender<Response>) {
        let Some(key) = key else {
            self.asked = None;
            return;
        };
        if self.asked.as_ref().is_some_and(|(asked, at)| asked == key && at.elapsed() < FRESH) {
            return;
        }
        self.asked = Some((key.clone(), Instant::now()));
        let (key, locks, tell) = (key.clone(), locks.clone(), tell.clone());
        tokio::spawn(async move {
            let looked = look(&locks, &key).await.map_err(|error| plain(&error.to_string()));
            let _ = tell.send(Response::Remembered(key, looked));
        });
    }
}

async fn look(locks: &Locks, key: &Key) -> Result<Remembered, InspectError> {
    let marked = locks.marked(key.as_bytes()).await?;
    let broken = locks.last_break(key.as_bytes()).await?;
    Ok(Remembered { marked, broken })
}

/// Requests all marks, by scanning the store as `leasehold ls --marks` does.
pub(crate) fn look_through(locks: &Locks, prefix: &[u8], tell: &UnboundedSender<Response>) {
    let (locks, prefix, tell) = (locks.clone(), prefix.to_vec(), tell.clone());
    tokio::spawn(async move {
        let all = locks.marks(&prefix).await.map_err(|error| plain(&error.to_string()));
        let _ = tell.send(Response::Marks(all.map(|all| Marks { all, at: Instant::now() })));
    });
}
