//! Looking out for slots that move while somebody waits for a key in them.
//!
//! Who waits in line is told on a connection to the node that has the line. When the slot moves, the line moves with it, but nobody
//! listens at the new place, and nothing is said at the old one: so while somebody waits, the owners of the slots are asked for now and
//! then. Each who waits for a key that has gone elsewhere then asks there, with its ticket, and stands where it stood.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_core::WaitQueue;

use super::Cluster;

/// Who was passed over because nobody knew where it listens waits for as long as this, and a key may lie free meanwhile.
const LOOKS: Duration = Duration::from_nanos(WaitQueue::CLAIM_WINDOW.as_nanos() as u64 / 4);

impl Cluster {
    /// Somebody waits: looks out from now on until nobody does.
    pub(super) fn watch(&self) {
        if !self.watched.swap(true, Ordering::SeqCst) {
            self.runtime.spawn(Box::pin(watch(self.me.clone())));
        }
    }

    /// Whether this can end. A waiter that comes between two looks begins it anew.
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
        // Who asks meets the same fault, and says so.
        let _ = cluster.learn(runtime.now()).await;
        drop(cluster);
        runtime.sleep_until(runtime.now() + LOOKS).await;
    }
}
