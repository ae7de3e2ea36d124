//! Transferring a lease to another holder at the members.

use std::sync::Arc;

use leasehold_core::{Attempt, Fault, HoldAnswer, Store, Successor};

use super::state::QuorumState;

/// Makes the successor the holder at all members, and returns the majority's answer. Two majorities
/// have a member in common, so at most one of several successors has one.
pub(super) async fn transfer(
    quorum: &Arc<QuorumState>,
    attempt: &Attempt,
    successor: &Successor,
) -> Result<HoldAnswer, Fault> {
    let change = |store: Arc<dyn Store>, there: Attempt| {
        // The holder has another id at each member; whoever asks for itself asks for that one.
        let holder = if successor.holder == attempt.holder { there.holder } else { successor.holder };
        let successor = Successor { holder, ..successor.clone() };
        async move { store.transfers()?.transfer(&there, &successor).await }
    };
    let ballot = quorum.change_all(attempt, change).await;
    // The attempt is not forgotten: its caller gives it up, and its id differs from member to member.
    quorum.verdict_on(attempt, &ballot, "transferred")
}
