//! Diagnosis: searches a store for settings that endanger its locks.

use std::sync::Arc;

use leasehold_core::{Diagnosis, Finding, Severity, StoreRole};
use tokio::sync::oneshot;

use crate::locks::Locks;

impl Locks {
    /// The dangers to these locks in the settings of their store: a server that evicts keys or
    /// loses them in a restart, replicas that lag, clocks that differ, missing permissions, waiters
    /// that cannot be notified, a file that others can write. The worst comes first. Each finding
    /// says what it means for a lock and how to repair it; settings that are correct are listed as
    /// a [`Note`](crate::Severity::Note).
    ///
    /// This changes nothing and does not fail: a question that cannot be asked is
    /// [`Unknown`](crate::Severity::Unknown), and a server that does not answer is a finding, next
    /// to those of the others. It costs a server at most about a hundred small requests, and takes
    /// at most a few seconds unless servers are slow. To diagnose a store that cannot be connected
    /// to, create the locks with [`LocksBuilder::unopened`](crate::LocksBuilder::unopened).
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let locks = leasehold::Locks::in_memory();
    /// assert!(locks.diagnose().await.is_empty());
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn diagnose(&self) -> Vec<Finding> {
        let (store, runtime) = (self.handle().store.clone(), self.handle().runtime.clone());
        let (mut tell, told) = oneshot::channel();
        let name: Arc<str> = store.name().into();
        // Run it where the locks live: a store opens connections for this, and the caller may be in
        // no runtime, or in another one.
        runtime.spawn(Box::pin(async move {
            tokio::select! {
                biased;
                () = tell.closed() => {}
                diagnosed = store.diagnose(StoreRole::Alone) => { let _ = tell.send(diagnosed); }
            }
        }));
        let Ok(Diagnosis { mut findings, .. }) = told.await else {
            let (what, why) = ("the runtime that keeps these locks has ended", "nobody has looked");
            return vec![Finding::new(Severity::Unknown, "unknown", &name, what, why)];
        };
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        findings
    }
}
