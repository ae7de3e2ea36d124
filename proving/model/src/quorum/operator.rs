//! An operator, who breaks leases through the quorum or at a single member.

use leasehold_core::{
    Answer, Ballot, BreakAnswer, BreakNote, Claim, Fault, Fence, HoldAnswer, LeaseBreak, Owner, Request,
    Vote, shown_by_a_majority,
};

use super::client::Phase;
use super::{Flaw, Member, Quorum, Step};
use crate::server::known;

#[derive(Clone, Debug, Hash)]
pub(super) struct Operator {
    /// The client whose lease it breaks.
    of: usize,
    /// The fence that the lease has at each member.
    shown: Vec<Option<Fence>>,
    /// The fence that a majority shows, or otherwise the greatest.
    agreed: Fence,
    ballot: Ballot,
    calls: Vec<usize>,
    /// Nothing of the client was under way when the operator looked, and no member fails.
    is_calm: bool,
}

impl Quorum {
    pub(super) fn steps_of_the_operator(&self, steps: &mut Vec<Step>) {
        match &self.operator {
            Some(it) => {
                for call in 0..it.calls.len() {
                    steps.push(Step::BreaksAtAMember(call));
                    if self.left.lost > 0 {
                        steps.push(Step::LosesABreak(call));
                    }
                }
            }
            None if self.left.breaks > 0 => {
                let is_shown = |nth: &usize| self.shows(*nth).is_some();
                steps.extend((0..self.clients.len()).filter(is_shown).map(Step::SomebodyLooksAt));
            }
            None => {}
        }
        if self.left.single_breaks > 0 {
            for member in 0..self.members.len() {
                let is_there = |nth: &usize| self.fence_at(member, *nth).is_some();
                let there = (0..self.clients.len()).filter(is_there);
                steps.extend(there.map(|client| Step::SomebodyBreaksAtOneMember { member, client }));
            }
        }
    }

    fn fence_at(&self, member: usize, client: usize) -> Option<Fence> {
        self.members[member].shows(&self.fixed.key, &self.clients[client].attempt, self.now)?.fence
    }

    /// The fence of a client's lease at each member, if a majority shows it.
    fn shows(&self, client: usize) -> Option<Vec<Option<Fence>>> {
        let at = |member: usize| self.fence_at(member, client).filter(|_| !self.members[member].down);
        let shown: Vec<_> = (0..self.members.len()).map(at).collect();
        (shown.iter().flatten().count() >= self.fixed.settings.majority()).then_some(shown)
    }

    pub(super) fn begins_to_break(&mut self, of: usize) {
        let Some(shown) = self.shows(of) else { return };
        let mut ballot = Ballot::new(self.members.len());
        let mut calls = Vec::new();
        for (member, fence) in shown.iter().enumerate() {
            match fence {
                _ if self.members[member].down => ballot.handle(member, Err(lost())),
                Some(_) if calls.is_empty() || !self.fixed.has(Flaw::BreaksAtOneMember) => calls.push(member),
                _ => ballot.handle(member, Ok(HoldAnswer::Done)),
            }
        }
        let is_calm = self.clients[of].calls.is_empty();
        let fences = shown.iter().flatten().copied();
        let agreed = shown_by_a_majority(fences.clone(), self.fixed.settings.majority());
        let Some(agreed) = agreed.or_else(|| fences.max()) else { return };
        self.operator = Some(Operator { of, agreed, ballot, calls, is_calm, shown });
    }

    /// A call of the operator is served, or is lost.
    pub(super) fn goes_on_breaking(&mut self, call: usize, is_lost: bool) {
        let Some(mut it) = self.operator.take() else { return };
        let member = it.calls[call];
        if is_lost {
            it.is_calm = false;
            it.ballot.handle(member, Err(lost()));
        } else if let Some(fence) = it.shown[member]
            && let Some(risen) = self.breaks_at(member, it.of, (fence, it.agreed))
        {
            it.shown[member] = Some(risen);
            self.operator = Some(it);
            return;
        } else {
            it.ballot.handle(member, Ok(HoldAnswer::Done));
        }
        it.calls.remove(call);
        if !it.calls.is_empty() {
            self.operator = Some(it);
        } else if it.ballot.vote() == Vote::Done && (it.is_calm || self.fixed.has(Flaw::BreaksInAHurry)) {
            self.is_broken(it);
        }
    }

    /// Breaks a client's lease at a member. Returns the fence to break instead, if it has risen.
    pub(super) fn breaks_at(
        &mut self,
        member: usize,
        of: usize,
        (fence, recorded): (Fence, Fence),
    ) -> Option<Fence> {
        let lease = LeaseBreak { fence, recorded, note: BreakNote::default() };
        let request = Request::Break { key: self.fixed.key.clone(), lease };
        let Ok(Answer::Break(BreakAnswer::Broken { holding })) = self.serve_at(member, request) else {
            return self.fence_at(member, of);
        };
        let Owner::Holder { holder, .. } = holding.owner else { return None };
        let it = self.client(of);
        if holder.is_same_attempt(it.attempt.holder) {
            it.ghost.broken_at.push((member, holder));
        } else {
            self.fault = Some("a break ends another's lease");
        }
        None
    }

    pub(super) fn breaks_at_one_member(&mut self, member: usize, client: usize) {
        if let Some(fence) = self.fence_at(member, client) {
            self.breaks_at(member, client, (fence, fence));
        }
    }

    /// The break is reported: a newcomer gets the key with a greater fence, if nobody is in the way.
    fn is_broken(&mut self, Operator { of, mut shown, .. }: Operator) {
        // A granted fence was answered by a majority, and none has fallen since.
        shown.sort_unstable();
        let majority = self.fixed.settings.majority();
        let Some(fence) = shown[shown.len() - majority] else { return };
        let ghost = &mut self.client(of).ghost;
        (ghost.broken, ghost.granted) = (Some(fence), ghost.granted.max(Some(fence)));
        let broken = self.clients[of].attempt.holder;
        let count = |is: &dyn Fn(&Member) -> bool| self.members.iter().filter(|it| is(it)).count();
        let knows = |member: &Member, its: bool| {
            known(&member.records, self.now).any(|id| id.is_same_attempt(broken) == its)
        };
        let keep = count(&|member| knows(member, true));
        let abstain = count(&|member| member.down || member.records.voided.is_some());
        let spare = self.members.len() - majority;
        if count(&|member| knows(member, false)) > 0 || keep <= spare && keep + abstain > spare {
            return;
        }
        let mut next = self.clone();
        let nth = next.enters(Claim::exclusive(self.fixed.key.clone()));
        next.client(nth).asks(&self.fixed, self.now);
        while let Phase::Asking { until, .. } = next.clients[nth].phase {
            let it = &next.clients[nth];
            if !it.undos.is_empty() {
                next.undo(nth, 0);
            } else if let Some(call) = it.calls.first() {
                if !next.members[call.member].down {
                    next.serve(nth, 0, false);
                }
                next.end(nth, 0);
            } else {
                next.client(nth).rings(&self.fixed, self.now, until);
            }
        }
        if !matches!(next.clients[nth].phase, Phase::Holding { fence: its, .. } if its > fence) {
            self.fault = Some("a broken lock cannot be granted");
        }
    }
}

pub(super) fn lost() -> Fault {
    Fault::passing("member", "connection reset")
}
