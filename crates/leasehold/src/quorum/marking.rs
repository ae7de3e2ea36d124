//! Changes at all members that a majority decides: marks, and transfers to another holder.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Attempt, Fault, Fence, HoldAnswer, Key, Mark, MarkStore, Marked, QuorumReport, Stamp, Store, StoreFuture,
    Successor, TransferStore,
};

use super::QuorumStore;
use super::looking::{MANY_KEYS_LIMIT, answers_of, asked};

impl MarkStore for QuorumStore {
    /// Marks the keys at all members, and returns the majority's answer. Whoever reads from a
    /// majority then finds the mark.
    fn mark<'a>(
        &'a self,
        attempt: &'a Attempt,
        mark: &'a Mark,
        keep: Duration,
    ) -> StoreFuture<'a, HoldAnswer> {
        Box::pin(async move {
            let change = |store: Arc<dyn Store>, there| {
                let mark = mark.clone();
                async move { store.marks()?.mark(&there, &mark, keep).await }
            };
            let ballot = self.quorum.change_all(attempt, change).await;
            self.quorum.verdict_on(attempt, &ballot, "marked")
        })
    }

    /// The latest mark among the answers of a majority. This also waits for a member that is silent,
    /// which may be the only one left that has the mark. A member that restarted without its state,
    /// or that was down when a mark was written, has no mark, and nobody copies it there.
    fn marked<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Marked> {
        Box::pin(async move {
            let look = |store: Arc<dyn Store>, key| async move { store.marks()?.marked(&key).await };
            let asked = asked(&self.quorum, self.quorum.look_limit(), key, look).await;
            Ok(latest(&answers_of(&self.quorum, asked)?))
        })
    }

    /// Deletes the mark at all members. Each of them must answer, because one that kept the mark
    /// would bring it back.
    fn forget<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<Mark>> {
        Box::pin(async move {
            let quorum = &self.quorum;
            let forget = |store: Arc<dyn Store>, key| async move { store.marks()?.forget(&key).await };
            let (answers, ballot) = asked(quorum, quorum.look_limit(), key, forget).await;
            if answers.iter().any(Option::is_none) {
                let votes = quorum.votes_in(&ballot, "forgot the mark");
                let votes = QuorumReport::new(votes.members, answers.len(), votes.verb);
                let is_lasting = votes.faults().any(Fault::is_lasting);
                return Err(quorum.fault(is_lasting, votes));
            }
            Ok(answers.into_iter().flatten().flatten().max_by_key(|mark| (mark.at, mark.fence)))
        })
    }

    /// The latest mark of each key among the answers of a majority.
    fn list_marks<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<(Key, Marked)>> {
        Box::pin(async move {
            let look = |store: Arc<dyn Store>, prefix: Vec<u8>| async move {
                store.marks()?.list_marks(&prefix).await
            };
            let mut by_key: BTreeMap<Key, Vec<Marked>> = BTreeMap::new();
            let listed = asked(&self.quorum, MANY_KEYS_LIMIT, prefix, look).await;
            for (key, marked) in answers_of(&self.quorum, listed)?.into_iter().flatten() {
                by_key.entry(key).or_default().push(marked);
            }
            Ok(by_key.into_iter().map(|(key, answers)| (key, latest(&answers))).collect())
        })
    }
}

/// Combines the answers of some members, of which there is at least one.
fn latest(answers: &[Marked]) -> Marked {
    // The median of the clocks, so that a minority with clocks far ahead or behind can neither make
    // everything due nor keep everything from being due. If an even number answers, the earlier one
    // of the two in the middle: a job that runs late is better than one that runs twice.
    let mut clocks: Vec<Stamp> = answers.iter().map(|answer| answer.now).collect();
    clocks.sort_unstable();
    let now = clocks[(clocks.len() - 1) / 2];
    let marks = answers.iter().filter_map(|answer| answer.mark.clone());
    Marked { mark: marks.max_by_key(|mark| (mark.at, mark.fence)), now }
}

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
