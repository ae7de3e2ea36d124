//! The possible next steps in a quorum.

use super::{At, CALLS, Flaw, Phase, Quorum, Step};

impl<const N: usize> Quorum<N> {
    pub(super) fn steps_of_client(&self, attempt: usize, steps: &mut Vec<Step>) {
        let it = &self.attempts[attempt];
        match it.phase {
            // Who begins first is number 0: until then all are alike.
            Phase::Idle => {
                if attempt == 0 || self.attempts[attempt - 1].phase != Phase::Idle {
                    steps.extend(self.rules.lowest.iter().map(|t| Step::AsksAll { attempt, t: *t }));
                }
                return;
            }
            Phase::Asking | Phase::Raising => {
                let at_once = self.has(Flaw::ClaimsTheHighestAtOnce);
                let above = self.highest(attempt).filter(|fence| *fence > it.fence);
                steps.extend(above.map(|fence| match at_once || self.is_exact(attempt, fence) {
                    true => Step::IsGranted { attempt, fence },
                    false => Step::RaisesTo { attempt, fence },
                }));
                if it.phase == Phase::Raising && self.is_exact(attempt, it.fence) {
                    steps.push(Step::IsGranted { attempt, fence: it.fence });
                }
                let first = self.members.iter().all(|member| member.links[attempt].round == 0);
                if self.waits > 0 && first && it.calls == 1 {
                    steps.push(Step::ReleasesTheOthersAndWaits { attempt });
                }
            }
            Phase::Waiting => {
                if self.members.iter().any(|member| member.links[attempt].answered != 0) {
                    steps.push(Step::AsksTheOthersAgain { attempt });
                }
            }
            Phase::Holding => {
                if self.renewals > 0 && it.calls < CALLS && it.believes() {
                    steps.push(Step::RenewsEverywhere { attempt });
                }
                let in_time = it.believes() || self.has(Flaw::RevivesAfterTheEnd);
                if it.renewal > it.since && it.renewal >= it.over && in_time {
                    if Self::is_majority(self.count(|member| member.links[attempt].renewed)) {
                        steps.push(Step::RenewalIsConfirmed { attempt });
                    } else if self.has(Flaw::FailedRenewalReleases) {
                        steps.push(Step::RenewalFailsAndItReleases { attempt });
                    }
                }
            }
            Phase::Gone | Phase::Dead => return,
        }
        let is_last = attempt == self.rules.attempts - 1 && it.phase != Phase::Holding;
        steps.push(match is_last {
            true => Step::ChangesItsMind { attempt },
            false => Step::GivesUpOrReleases { attempt },
        });
        if self.crashes > 0 {
            steps.push(Step::Crashes { attempt });
        }
    }

    pub(super) fn steps_of_member(&self, at: usize, steps: &mut Vec<Step>) {
        let it = &self.members[at];
        if it.down {
            return;
        }
        let member = At(u8::try_from(at).expect("few members"), self.names.0[at]);
        for attempt in 0..self.rules.attempts {
            self.steps_between(member, attempt, steps);
        }
        if let Some(owner) = it.owner {
            let attempt = usize::from(owner.attempt);
            let waits = attempt == self.rules.attempts - 1 && self.attempts[attempt].phase != Phase::Holding;
            steps.push(match waits && it.is_owned(attempt) {
                true => Step::LeaseEndsBeforeItCounts { member },
                false => Step::LeaseEnds { member },
            });
        }
        if self.restarts > 0 && self.may_restart(at) {
            steps.push(Step::RestartsEmpty { member });
        }
        if self.forgets > 0 && it.owner.is_none() && it.fence > 0 {
            steps.push(Step::ForgetsTheFence { member });
        }
        if it.quarantine.is_some() && self.learns().is_some() {
            steps.push(Step::QuarantineEnds { member });
        }
    }

    fn steps_between(&self, member: At, attempt: usize, steps: &mut Vec<Step>) {
        let (it, of) = (&self.members[usize::from(member.0)], &self.attempts[attempt]);
        let link = &it.links[attempt];
        let (is_own, is_free) = (it.is_owned(attempt), it.owner.is_none());
        if it.answers() {
            let asked = match of.phase {
                Phase::Asking | Phase::Raising | Phase::Holding => true,
                Phase::Waiting => it.has_line,
                _ => false,
            };
            if asked && (is_own || is_free) && (!link.served || self.twins > 0) {
                steps.push(Step::Grants { member, attempt });
            }
            if of.phase == Phase::Raising && (is_own || self.has(Flaw::RaiseCountsWhereNotOwned)) {
                steps.push(Step::Raises { member, attempt });
            }
            if of.phase == Phase::Holding && of.renewal > 0 && (is_own || is_free) {
                // The one before it may be late.
                let earlier = (of.renewal > 1).then(|| of.renewal - 1);
                let calls = earlier.into_iter().chain([of.renewal]);
                steps.extend(calls.map(|call| Step::Renews { member, attempt, call }));
            }
        }
        for (round, left) in (0..).zip(link.left) {
            let owns = it.owner.is_some_and(|it| usize::from(it.attempt) == attempt && it.round == round);
            if left.grant && it.answers() && (owns || is_free) && (!left.again || self.twins > 0) {
                steps.push(Step::GrantsLate { member, attempt, round });
            }
            if left.release {
                if owns && left.grant {
                    steps.push(Step::Releases { member, attempt, round });
                }
                steps.push(Step::ReleasesForGood { member, attempt, round });
            }
        }
    }
}
