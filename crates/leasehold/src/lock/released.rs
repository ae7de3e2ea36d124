//! The result of a release.

use std::sync::Arc;

use leasehold_core::QuorumReport;

/// A confirmed release: the lock was held to the end, and is free now.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let locks = leasehold::Locks::in_memory();
/// let guard = locks.mutex("invoice:42").lock().await?;
/// let released = guard.release().await?;
/// if let Some(votes) = released.quorum_report {
///     println!("{} of {} members confirmed it: {votes}", votes.agreed(), votes.members.len());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Released {
    /// For a quorum: what each member had answered once a majority had confirmed the release.
    /// `None` for other stores.
    pub quorum_report: Option<Arc<QuorumReport>>,
}
