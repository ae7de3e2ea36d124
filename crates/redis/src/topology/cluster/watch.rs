//! Watches for slots that move while somebody waits for a key in them.
//!
//! A waiter is notified on a connection to the node that has its queue. When the slot moves, the
//! queue moves with it, but nobody is subscribed at the new node, and the old node sends nothing.
//! So while somebody waits, the owners of the slots are asked for from time to time. Each waiter
//! for a key that has moved then asks at the new node, with its ticket, and gets its old place.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_core::WaitQueue;

use super::Cluster;
use crate::client::monitor::nobody_waits;

/// A waiter that was skipped because its subscription was unknown waits for this long, and a key
/// may be free meanwhile.
const LOOKS: Duration = Duration::from_nanos(WaitQueue::CLAIM_WINDOW.as_nanos() as u64 / 4);

impl Cluster {
    /// Watches from now on, until nobody waits.
    pub(super) fn watch(&self) {
        if self.watched.swap(true, Ordering::SeqCst) {
            return;
        }
        let (me, runtime) = (self.me.clone(), Arc::clone(&self.runtime));
        self.runtime.spawn(Box::pin(async move {
            while let Some(cluster) = me.upgrade() {
                if nobody_waits(cluster.waiting(), &cluster.watched) {
                    return;
                }
                // A caller gets the same fault, and reports it.
                let _ = cluster.learn(runtime.now()).await;
                drop(cluster);
                runtime.sleep_until(runtime.now() + LOOKS).await;
            }
        }));
    }
}
