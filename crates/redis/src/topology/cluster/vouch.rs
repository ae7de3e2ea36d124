//! Quarantines of a cluster's nodes, which may have forgotten leases of a quorum.
//!
//! The run of the node that owns a slot vouches for it, in a key in that slot. So a node that was
//! restarted, one that replaced its master, and one to which a slot moved all abstain for slots
//! that they were not asked for before. Alone, they would do so slot by slot, each at its first
//! request. A caller that finds a node abstaining starts the quarantine of all its slots, so that
//! they are ready together.

use std::sync::Arc;

use leasehold_core::{Attempt, Fault, FaultKind, Ttl};

use super::Cluster;
use crate::redirect::Node;

impl Cluster {
    /// Checks whether a node abstains, and if so starts the quarantine of its other slots.
    pub(super) fn note_abstention<T>(&self, asked: &Node, attempt: &Attempt, answer: &Result<T, Fault>) {
        let Some(proposal) = attempt.proposal else { return };
        if matches!(answer, Err(fault) if fault.kind == FaultKind::Quarantined) {
            self.vouch_later(asked, proposal.max_ttl);
        }
    }

    /// In the background, and once for as long as a node abstains: a quarantine that starts now
    /// ends before the next one is started.
    fn vouch_later(&self, node: &Node, longest: Ttl) {
        let now = self.runtime.now();
        let slots = {
            let mut known = self.known();
            let begun = known.vouched.get(node);
            if begun.is_some_and(|begun| now < *begun + longest.duration()) {
                return;
            }
            known.vouched.insert(node.clone(), now);
            known.map.slots_of(node)
        };
        let client = self.client(node);
        self.runtime.spawn(Box::pin(async move {
            // A slot that was not reached now starts its quarantine at its first request; that
            // takes longer, and nothing else.
            let _ = client.vouch(&slots, longest).await;
        }));
    }

    /// The smallest run of its known nodes: two URLs of one cluster soon know the same nodes.
    pub(super) fn identity(&self) -> Option<Arc<str>> {
        self.known().clients.values().filter_map(|client| client.identity()).min()
    }
}
