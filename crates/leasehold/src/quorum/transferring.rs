//! Transferring a lease to another holder at the members.

use std::sync::Arc;

use leasehold_core::{Attempt, Fence, HoldAnswer, Store, StoreFuture, Successor, TransferStore};

use super::QuorumStore;

impl TransferStore for QuorumStore {
    /// Makes the successor the holder at all members, and returns the majority's answer. Two
    /// majorities have a member in common, so at most one of several successors has one.
    fn transfer<'a>(&'a self, attempt: &'a Attempt, successor: &'a Successor) -> StoreFuture<'a, HoldAnswer> {
        Box::pin(async move {
            let change = |store: Arc<dyn Store>, there: Attempt| {
                // The holder has another id at each member; whoever asks for itself asks for that one.
                let holder = if successor.holder == attempt.holder { there.holder } else { successor.holder };
                let successor = Successor { holder, ..successor.clone() };
                async move { store.transfers()?.transfer(&there, &successor).await }
            };
            let ballot = self.quorum.change_all(attempt, change).await;
            // The attempt is not forgotten: its caller gives it up, and its id differs from member
            // to member.
            self.quorum.verdict_on(attempt, &ballot, "transferred")
        })
    }

    fn adopted(&self, successor: &Attempt, fence: Fence) {
        self.quorum.enter(successor, |machine| machine.handle_transferred(fence));
    }
}
