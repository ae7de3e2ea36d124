//! Watches for slots that move while somebody waits for a key in them.
//!
//! A waiter is notified on a connection to the node that has its queue. When the slot moves, the
//! queue moves with it, but nobody is subscribed at the new node, and the old node sends nothing.
//! So while somebody waits, the owners of the slots are asked for from time to time. Each waiter
//! for a key that has moved then asks at the new node, with its ticket, and gets its old place.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_core::WaitQueue;

use super::Cluster;

/// A waiter that was skipped because its subscription was unknown waits for this long, and a key
/// may be free meanwhile.
const LOOKS: Duration = Duration::from_nanos(WaitQueue::CLAIM_WINDOW.as_nanos() as u64 / 4);

impl Cluster {
    /// Watches from now on, until nobody waits.
    pub(super) fn watch(&self) {
        if !self.watched.swap(true, Ordering::SeqCst) {
            self.runtime.spawn(Box::pin(watch(self.me.clone())));
        }
    }

    /// Returns true if watching can end. A waiter that comes between two checks starts it again.
    fn is_done(&self) -> bool {
        if self.waiting().len() > 0 {
            return false;
        }
        self.watched.store(false, Ordering::SeqCst);
        self.waiting().len() == 0 || self.watched.swap(true, Ordering::SeqCst)
    }
}

async fn watch(me: Weak<Cluster>) {
    while let Some(cluster) = me.upgrade() {
        if cluster.is_done() {
            return;
        }
        let runtime = Arc::clone(&cluster.runtime);
        // A caller gets the same fault, and reports it.
        let _ = cluster.learn(runtime.now()).await;
        drop(cluster);
        runtime.sleep_until(runtime.now() + LOOKS).await;
    }
}
