//! Marks in a quorum, as a majority of the members remembers them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Attempt, Fault, FaultKind, HoldAnswer, Key, Mark, Marked, QuorumReport, Stamp, Store};

use super::looking::{MANY_KEYS_LIMIT, all_say, asked};
use super::state::QuorumState;

/// Marks the keys at all members, and returns the majority's answer. Whoever reads from a majority
/// then finds the mark.
pub(super) async fn mark(
    quorum: &Arc<QuorumState>,
    attempt: &Attempt,
    mark: &Mark,
    keep: Duration,
) -> Result<HoldAnswer, Fault> {
    let change = |store: Arc<dyn Store>, there| {
        let mark = mark.clone();
        async move { store.marks()?.mark(&there, &mark, keep).await }
    };
    let ballot = quorum.change_all(attempt, change).await;
    quorum.verdict_on(attempt, &ballot, "marked")
}

/// The latest mark among the answers of a majority. A member that restarted without its state has
/// no marks, so a mark survives whatever a majority of the members survives.
pub(super) async fn marked(quorum: &Arc<QuorumState>, key: &Key) -> Result<Marked, Fault> {
    let look = |store: Arc<dyn Store>| {
        let key = key.clone();
        async move { store.marks()?.marked(&key).await }
    };
    Ok(latest(&all_say(quorum, quorum.look_limit(), look).await?))
}

/// Deletes the mark at all members. Each of them must answer, because one that kept the mark would
/// bring it back.
pub(super) async fn forget(quorum: &Arc<QuorumState>, key: &Key) -> Result<Option<Mark>, Fault> {
    let look = |store: Arc<dyn Store>| {
        let key = key.clone();
        async move { store.marks()?.forget(&key).await }
    };
    let (answers, ballot) = asked(quorum, quorum.look_limit(), look).await;
    if answers.iter().any(Option::is_none) {
        let votes = quorum.votes_in(&ballot, "forgot the mark");
        let votes = QuorumReport::new(votes.members, answers.len(), votes.verb);
        return Err(quorum.fault(FaultKind::Passing, votes));
    }
    Ok(answers.into_iter().flatten().flatten().max_by_key(|mark| (mark.at, mark.fence)))
}

/// The latest mark of each key among the answers of a majority.
pub(super) async fn list_marks(
    quorum: &Arc<QuorumState>,
    prefix: &[u8],
) -> Result<Vec<(Key, Marked)>, Fault> {
    let look = |store: Arc<dyn Store>| {
        let prefix = prefix.to_vec();
        async move { store.marks()?.list_marks(&prefix).await }
    };
    let mut by_key: BTreeMap<Key, Vec<Marked>> = BTreeMap::new();
    for (key, marked) in all_say(quorum, MANY_KEYS_LIMIT, look).await?.into_iter().flatten() {
        by_key.entry(key).or_default().push(marked);
    }
    Ok(by_key.into_iter().map(|(key, answers)| (key, latest(&answers))).collect())
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
