//! The requests to a member in a round, each in a separate task.

use std::sync::Arc;

use leasehold_core::{Attempt, Fence, GrantAnswer, Proposal, RaiseAnswer, WaitMode};
use tokio::sync::mpsc::UnboundedSender;

use super::attempts::Stage;
use super::member::Said;
use super::state::QuorumState;

/// A member's answer in a round.
pub(super) enum Heard {
    Grant(GrantAnswer),
    Raise(RaiseAnswer),
}

impl QuorumState {
    pub(super) fn ask_grant(
        self: &Arc<Self>,
        attempt: &Attempt,
        member: usize,
        wait_mode: WaitMode,
        proposal: Proposal,
        tell: &UnboundedSender<Said<Heard>>,
    ) {
        let Some(member_attempt) = self.member_attempt(attempt.holder, member) else { return };
        let at_member = attempt.at_member(member_attempt.holder, proposal);
        let store = self.members[member].store.clone();
        let asked = member_attempt.clone();
        let does = Box::pin(async move {
            let answer = store.grant(&at_member, wait_mode).await;
            if let Ok(GrantAnswer::Granted { fence }) = answer {
                asked.was_granted(fence);
            }
            asked.says(matches!(answer, Ok(GrantAnswer::Granted { .. })));
            answer.map(Heard::Grant)
        });
        self.call(vec![(attempt.clone(), member_attempt)], member, does, tell);
    }

    pub(super) fn ask_raise(
        self: &Arc<Self>,
        attempt: &Attempt,
        member: usize,
        fence: Fence,
        tell: &UnboundedSender<Said<Heard>>,
    ) {
        let Some(member_attempt) = self.member_attempt(attempt.holder, member) else { return };
        let at_member = attempt.at_member(member_attempt.holder, self.proposal(fence));
        let store = self.members[member].store.clone();
        let does = Box::pin(async move { store.member()?.raise(&at_member).await.map(Heard::Raise) });
        self.call(vec![(attempt.clone(), member_attempt)], member, does, tell);
    }

    pub(super) fn set(&self, attempt: &Attempt, stage: Stage) {
        self.quorum_attempts.with(attempt.holder, |quorum_attempt| quorum_attempt.stage = stage);
    }

    /// Releases everything at all members, whatever they answered; the next request starts from the
    /// beginning with new ids.
    pub(super) fn begin_anew(self: &Arc<Self>, attempt: &Attempt) {
        self.abandon(attempt, |_| true);
        self.set(attempt, Stage::Fresh);
    }
}
