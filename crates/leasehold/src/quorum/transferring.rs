//! Transferring a lease to another holder at the members.

use std::sync::Arc;

use leasehold_core::{Attempt, Ballot, Fault, Fence, HoldAnswer, Successor};
use tokio::sync::mpsc::unbounded_channel;

use super::state::QuorumState;

/// Makes the successor the holder at all members, and returns the majority's answer. Two majorities
/// have a member in common, so at most one of several successors has one.
pub(super) async fn transfer(
    quorum: &Arc<QuorumState>,
    attempt: &Attempt,
    successor: &Successor,
) -> Result<HoldAnswer, Fault> {
    let shared = quorum.shared(attempt);
    let mut ballot = Ballot::new(quorum.members.len());
    let (tell, mut heard) = unbounded_channel();
    for member in 0..quorum.members.len() {
        let there = attempt.at_member(shared.machine().holder(member), quorum.proposal(Fence::MAX));
        let (quorum, attempt, successor, tell) =
            (quorum.clone(), attempt.clone(), successor.clone(), tell.clone());
        let runtime = quorum.runtime.clone();
        runtime.spawn(Box::pin(async move {
            // The holder has another id at each member; whoever asks for itself asks for that one.
            let holder = if successor.holder == attempt.holder { there.holder } else { successor.holder };
            let successor = Successor { holder, ..successor };
            let does = async { quorum.members[member].store.transfers()?.transfer(&there, &successor).await };
            let answer = quorum.in_time(member, &attempt, does).await;
            // The caller may have gone.
            let _ = tell.send((member, answer));
        }));
    }
    drop(tell);
    // Slower members are waited for too: a request that follows, such as the successor's first
    // renewal, could otherwise overtake this one there.
    while let Some((member, answer)) = heard.recv().await {
        ballot.handle(member, answer);
    }
    // The attempt is not forgotten: its caller gives it up, and its id differs from member to member.
    quorum.verdict_on(attempt, &ballot, "transferred")
}
