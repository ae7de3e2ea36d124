//! Taking back what an attempt holds, wherever its slot is by then.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Attempt, Fault, HoldAnswer, Instant, Key};

use super::Cluster;
use crate::client::limit_of;
use crate::slot::slot_of;

/// Others are woken only where they sleep in the slot of the key, as they can only if its name has a hash tag: no script, and none of
/// theirs, reaches two slots.
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

/// Between tries of a release that nobody waits for: the node is away, and others knock too.
const REST: Duration = Duration::from_secs(1);

impl Cluster {
    /// Takes back what the attempt holds now. Where a grant of it is still on its way, also says when to come again.
    ///
    /// What is at the owner of the slot is all that there is of a key: what a grant made elsewhere before the slot moved moved with it,
    /// and what comes there later is refused.
    pub(super) async fn release(&self, attempt: &Attempt) -> Result<(HoldAnswer, Option<Instant>), Fault> {
        let waited = self.waiting().leave(attempt.holder, self.runtime.now());
        let limit = limit_of(self.bounds.call_limit, attempt.ttl);
        let slot = self.slot(&attempt.claim)?;
        let attempt = &*without_far_signal(attempt, slot);
        let mut way = self.way(slot, limit);
        let mut first = true;
        let (answer, settles_at) = loop {
            let (client, mut route) = way.next().await?;
            // Whoever was sent on asks the script: beside the owner, each command takes a word before it, and the slot is on its way.
            let by_script = waited || !std::mem::take(&mut first);
            let released = client.let_go_on(attempt, by_script, &mut route, limit).await;
            if released.is_ok() || !way.goes_on(&mut route).await {
                break released?;
            }
        };
        if settles_at.is_some() {
            self.release_where_it_was_asked_for(attempt, limit).await;
        }
        Ok((answer, settles_at))
    }

    /// A node that was cut off from the others may think for a while that the slot is still its own, and so may those who ask it. On a
    /// connection that a grant was sent on, a release comes after it.
    async fn release_where_it_was_asked_for(&self, attempt: &Attempt, limit: Duration) {
        let connections = self.common.unsettled.under_way(attempt.holder);
        for client in self.clients_of(&connections) {
            if let Ok(mut route) = client.route(limit).await {
                // Mostly it says that the slot has gone; and what it does not say will have ended with the ttl.
                let _ = client.release_on(attempt, &mut route, limit).await;
            }
        }
    }

    /// When this resolves without a fault, nothing of the attempt is left and nothing can come any more.
    pub(super) async fn give_up(&self, attempt: &Attempt) -> Result<(), Fault> {
        while let (_, Some(settles_at)) = self.release(attempt).await? {
            self.runtime.sleep_until(settles_at).await;
        }
        Ok(())
    }

    /// Gives an attempt up at an instant, without anybody waiting for it.
    pub(crate) fn give_up_later(&self, attempt: Attempt, at: Instant) {
        let (me, runtime) = (self.me.clone(), Arc::clone(&self.runtime));
        self.runtime.spawn(Box::pin(async move {
            runtime.sleep_until(at).await;
            // By then it has ended by itself.
            let end = at + attempt.ttl.duration();
            while let Some(cluster) = me.upgrade() {
                if cluster.give_up(&attempt).await.is_ok() || runtime.now() >= end {
                    return;
                }
                drop(cluster);
                runtime.sleep_until(runtime.now() + REST).await;
            }
        }));
    }
}
