//! The baseline that locks in a quorum are measured against: the baseline of each member, until a
//! majority has done it.

use std::sync::Arc;

use leasehold_core::{Ballot, Baseline, Fault, HoldAnswer, Vote};
use tokio::sync::mpsc::unbounded_channel;

use super::state::QuorumState;

/// Calls all members at once. It does not report members as down: a name that a slow member still
/// has from the last time is not an outage.
pub(super) async fn run_baseline(quorum: &Arc<QuorumState>, what: &Baseline) -> Result<(), Fault> {
    let (tell, mut heard) = unbounded_channel();
    for (nth, member) in quorum.members.iter().enumerate() {
        let (store, what, tell) = (member.store.clone(), what.clone(), tell.clone());
        quorum.runtime.spawn(Box::pin(async move {
            // The caller may have enough answers.
            let done = async { store.baseline()?.run_baseline(&what).await };
            let _ = tell.send((nth, done.await));
        }));
    }
    drop(tell);
    let mut ballot = Ballot::new(quorum.members.len());
    while let Some((nth, done)) = heard.recv().await {
        ballot.handle(nth, done.map(|()| HoldAnswer::Done));
        if ballot.vote() == Vote::Done {
            break;
        }
    }
    quorum.verdict(&ballot, "answered").map(drop)
}
