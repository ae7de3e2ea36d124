//! What nodes of a cluster may have forgotten, where a quorum relies on them.
//!
//! A slot is vouched for by the run of the node that owns it, in a key of the slot itself. So a node that was started anew, one that took
//! its master's place, and one that a slot came to all abstain for what they were not asked before. They would do so slot by slot, each
//! when it is first asked for. Whoever finds a node abstaining has it begin with all of its slots, so that they are ready together.

use std::sync::{Arc, PoisonError};

use leasehold_core::{Attempt, Fault, FaultKind, Ttl};

use super::Cluster;
use super::redirect::Node;

impl Cluster {
    /// Looks whether a node abstains, and sees to its other slots if so.
    pub(super) fn note_abstention<T>(&self, asked: &Node, attempt: &Attempt, answer: &Result<T, Fault>) {
        let Some(proposal) = attempt.proposal else { return };
        if matches!(answer, Err(fault) if fault.kind == FaultKind::Quarantined) {
            self.vouch_later(asked, proposal.max_ttl);
        }
    }

    /// In the background, and once for as long as a node abstains: what is begun then ends before it is begun again.
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
            // What could not be said now is found out when a slot is asked for; that takes longer, and no more.
            let _ = client.vouch(&slots, longest).await;
        }));
    }

    /// The least of the runs of its nodes that are known: two ways to one cluster soon know the same.
    pub(super) fn identity(&self) -> Option<Arc<str>> {
        let known = self.known();
        let runs = known
            .clients
            .values()
            .filter_map(|client| client.identity.lock().unwrap_or_else(PoisonError::into_inner).clone());
        runs.min()
    }
}
