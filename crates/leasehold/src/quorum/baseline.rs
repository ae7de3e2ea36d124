//! The baseline that locks in a quorum are measured against: the baseline of each member, until a
//! majority has done it.

use leasehold_core::{Ballot, Baseline, BaselineStore, HoldAnswer, StoreFuture, Vote};

use super::QuorumStore;

impl BaselineStore for QuorumStore {
    /// Calls all members at once. It does not report members as down: a name that a slow member
    /// still has from the last time is not an outage.
    fn run_baseline<'a>(&'a self, what: &'a Baseline) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let mut heard = self.quorum.in_tasks(|_, member| {
                let (store, what) = (member.store.clone(), what.clone());
                async move { store.baseline()?.run_baseline(&what).await }
            });
            let mut ballot = Ballot::new(self.quorum.members.len());
            while let Some((nth, done)) = heard.recv().await {
                ballot.handle(nth, done.map(|()| HoldAnswer::Done));
                if ballot.vote() == Vote::Done {
                    break;
                }
            }
            self.quorum.verdict(&ballot, "answered").map(drop)
        })
    }
}
