//! Follow-ups of requests, in the background.

use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_core::{Attempt, Fault, Instant, Key, Runtime, StoreFuture, WaitQueue};

use crate::client::Client;
use crate::reply::advance_in;
use crate::script::advance_call;

/// The pause between tries of a release that nobody waits for: the server is down, and others retry
/// too.
const REST: Duration = Duration::from_secs(1);

impl Client {
    /// Hands keys over in the background, because one request could not handle all of them.
    pub(crate) fn advance_later(&self, mut keys: Vec<Key>) {
        let me = self.me.clone();
        self.runtime.spawn(Box::pin(async move {
            while let Some(client) = me.upgrade().filter(|_| !keys.is_empty()) {
                match client.advance(std::mem::take(&mut keys)).await {
                    Ok(unfinished) => keys = unfinished,
                    // Waiters ask again on their own.
                    Err(_) => return,
                }
            }
        }));
    }

    async fn advance(&self, keys: Vec<Key>) -> Result<Vec<Key>, Fault> {
        let mut route = self.any_route().await?;
        let call = advance_call(&keys, self.window(), self.asked_alone());
        let heard = self.call(&mut route, &call).await?;
        let value = heard.map_err(|error| self.faults.of_refusal(&error))?;
        advance_in(value, &keys).map_err(|strange| self.faults.lasting(strange))
    }

    /// Gives an attempt up at this instant, in the background.
    pub(crate) fn give_up_later(&self, attempt: Attempt, at: Instant) {
        if let Some(cluster) = &self.shared.cluster {
            return (cluster.0)(attempt, at);
        }
        retry_give_up(self.me.clone(), &self.runtime, attempt, at, |client, attempt| {
            Box::pin(client.give_up(attempt))
        });
    }
}

/// Gives an attempt up at this instant, in the background, and again until that succeeds or nothing of it
/// can be left. If the server refuses it, only for as long as a queue is kept: otherwise the tries of a
/// program that asks on although it is refused would pile up.
pub(crate) fn retry_give_up<Of: Send + Sync + 'static>(
    of: Weak<Of>,
    runtime: &Arc<dyn Runtime>,
    attempt: Attempt,
    at: Instant,
    give_up: for<'a> fn(&'a Of, &'a Attempt) -> StoreFuture<'a, ()>,
) {
    let timer = Arc::clone(runtime);
    runtime.spawn(Box::pin(async move {
        timer.sleep_until(at).await;
        while let Some(of) = of.upgrade() {
            let Err(fault) = give_up(&of, &attempt).await else { return };
            let longest = if fault.is_lasting() { WaitQueue::KEPT_FOR } else { attempt.lingers() };
            if timer.now() >= at + longest {
                return;
            }
            drop(of);
            timer.sleep_until(timer.now() + REST).await;
        }
    }));
}
