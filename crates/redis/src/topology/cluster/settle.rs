//! Releases what an attempt holds, wherever its slot is by then.

use std::borrow::Cow;
use std::sync::Arc;

use leasehold_core::{Attempt, Fault, HoldAnswer, Instant, Key};

use super::Cluster;
use crate::client::{Client, limit_of};
use crate::connection::route::Route;
use crate::requests::later::retry_give_up;
use crate::slot::slot_of;

/// Waiters of other libraries are woken only if their list is in the key's slot, which needs a hash
/// tag in its name: no script, and no request of theirs, accesses two slots.
fn without_far_signal(attempt: &Attempt, slot: u16) -> Cow<'_, Attempt> {
    let far = |key: &Key| {
        let place = attempt.signal.and_then(|signal| signal.place(key));
        place.is_some_and(|place| slot_of(&place) != slot)
    };
    if attempt.claim.keys().any(far) {
        Cow::Owned(attempt.clone().with_signal(None))
    } else {
        Cow::Borrowed(attempt)
    }
}

impl Cluster {
    /// Releases what the attempt holds now. If a grant of it is still in doubt, also returns when
    /// to release again.
    ///
    /// The owner of the slot has everything of a key: what a grant created elsewhere before the
    /// slot moved has moved with it, and what comes there later is refused.
    pub(super) async fn release(&self, attempt: &Attempt) -> Result<(HoldAnswer, Option<Instant>), Fault> {
        let waited = self.waiting().leave(attempt.holder, self.runtime.now());
        let limit = limit_of(self.bounds.call_limit, attempt.ttl);
        let slot = self.slot(&attempt.claim)?;
        let attempt = &*without_far_signal(attempt, slot);
        // After a redirect, the script is used: at a node that is not the owner, each command needs
        // `ASKING`, and the slot is moving.
        let mut by_script = waited;
        let release = |client: Arc<Client>, mut route: Route| {
            let by_script = std::mem::replace(&mut by_script, true);
            async move { (client.let_go_on(attempt, by_script, &mut route).await, route) }
        };
        self.follow(slot, limit, None, release).await
    }

    /// When this resolves without a fault, nothing of the attempt is left and nothing of it can
    /// appear.
    pub(super) async fn give_up(&self, attempt: &Attempt) -> Result<(), Fault> {
        while let (_, Some(settles_at)) = self.release(attempt).await? {
            self.runtime.sleep_until(settles_at).await;
        }
        Ok(())
    }

    pub(crate) fn give_up_later(&self, attempt: Attempt, at: Instant) {
        retry_give_up(self.me.clone(), &self.runtime, attempt, at, |cluster, attempt| {
            Box::pin(cluster.give_up(attempt))
        });
    }
}
