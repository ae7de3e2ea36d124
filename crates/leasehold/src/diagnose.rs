//! Looking at a place for what would endanger the locks there.

use std::sync::Arc;

use leasehold_core::{Diagnosis, Finding, Severity, StoreRole};
use tokio::sync::oneshot;

use crate::locks::Locks;

impl Locks {
    /// What would endanger these locks where they live: a server that deletes keys to make room or forgets them in a restart, replicas that
    /// lag, clocks that stand apart, permissions that are missing, waiters that are not told of their turn, a file that others can
    /// write. The worst comes first. Each finding says what it means for a lock and what mends it; what is as it should be is
    /// among them as a [`Note`](crate::Severity::Note).
    ///
    /// It changes nothing and does not fail: what cannot be asked is [`Unseen`](crate::Severity::Unseen), and a server that does not
    /// answer is a finding, beside those of the others. It costs a server some hundred small questions at most, and takes a few
    /// seconds at most unless servers are slow. To diagnose what cannot be connected to, make the locks by
    /// [`LocksBuilder::unopened`](crate::LocksBuilder::unopened).
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let locks = leasehold::Locks::in_memory();
    /// assert!(locks.diagnose().await.is_empty());
    /// # });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn diagnose(&self) -> Vec<Finding> {
        let (store, runtime) = (self.place().store.clone(), self.place().runtime.clone());
        let (mut tell, told) = oneshot::channel();
        let name: Arc<str> = store.name().into();
        // Where the locks live: a store makes connections to look, and the caller may be in no runtime, or in another.
        runtime.spawn(Box::pin(async move {
            tokio::select! {
                biased;
                () = tell.closed() => {}
                diagnosed = store.diagnose(StoreRole::Alone) => { let _ = tell.send(diagnosed); }
            }
        }));
        let Ok(Diagnosis { mut findings, .. }) = told.await else {
            let (what, why) = ("the runtime that keeps these locks has ended", "nobody has looked");
            return vec![Finding::new(Severity::Unseen, "unseen", &name, what, why)];
        };
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        findings
    }
}
