//! The effects of a step in a quorum.

use super::{Attempt, Flaw, Memory, Phase, Quarantine, Quorum, Step};

impl<const N: usize> Quorum<N> {
    pub(super) fn serve(&mut self, step: &Step) {
        let flaw = self.rules.flaw;
        match *step {
            Step::AsksAll { attempt, t } => {
                let low = if self.rules.has_time { 0 } else { self.low() };
                self.attempts[attempt] = Attempt::begin(t, low);
            }
            Step::ReleasesTheOthersAndWaits { attempt } => self.wait_at_the_line(attempt),
            Step::AsksTheOthersAgain { attempt } => {
                let it = &mut self.attempts[attempt];
                let call = it.call();
                it.phase = Phase::Asking;
                if flaw == Some(Flaw::CountedFromTheLaterAsking) {
                    it.since = call;
                }
                let others = self.members.iter_mut().filter(|member| !member.has_line);
                others.for_each(|member| member.links[attempt].call = call);
            }
            Step::RaisesTo { attempt, fence } => {
                let it = &mut self.attempts[attempt];
                (it.phase, it.fence) = (Phase::Raising, fence);
            }
            Step::IsGranted { attempt, fence } => self.is_granted(attempt, fence),
            Step::RenewsEverywhere { attempt } => {
                self.renewals -= 1;
                self.attempts[attempt].renewal = self.attempts[attempt].call();
                self.members.iter_mut().for_each(|member| member.links[attempt].renewed = false);
            }
            Step::RenewalIsConfirmed { attempt } => {
                let low = self.low();
                let it = &mut self.attempts[attempt];
                it.since = it.renewal;
                if it.fence < low {
                    self.fault = Some("a fence does not rise");
                }
                self.members.iter_mut().for_each(|member| member.links[attempt].renewed = false);
            }
            Step::RenewalFailsAndItReleases { attempt } => {
                for member in &mut self.members {
                    let link = &mut member.links[attempt];
                    link.left[usize::from(link.round)].release = true;
                }
            }
            Step::GivesUpOrReleases { attempt } | Step::ChangesItsMind { attempt } => {
                self.end(attempt, Phase::Gone);
            }
            Step::Crashes { attempt } => {
                self.crashes -= 1;
                self.end(attempt, Phase::Dead);
            }
            Step::Grants { member, attempt } => {
                let it = &mut self.members[usize::from(member.0)];
                self.twins -= u8::from(it.links[attempt].served);
                it.grant(attempt, self.attempts[attempt].t.max(self.clock + 1), flaw);
                if self.attempts[attempt].phase == Phase::Holding {
                    it.links[attempt].answered = 0;
                }
            }
            Step::GrantsLate { member, attempt, round } => {
                let it = &mut self.members[usize::from(member.0)];
                self.twins -= u8::from(it.links[attempt].left[usize::from(round)].again);
                it.grant_late(attempt, round, flaw);
            }
            Step::Raises { member, attempt } => {
                self.members[usize::from(member.0)].raise(attempt, self.attempts[attempt].fence, flaw);
            }
            Step::Renews { member, attempt, call } => {
                self.members[usize::from(member.0)].renew(attempt, &self.attempts[attempt], call, flaw);
            }
            Step::Releases { member, attempt, round } => {
                self.members[usize::from(member.0)].release(attempt, round, false, flaw);
            }
            Step::ReleasesForGood { member, attempt, round } => {
                self.members[usize::from(member.0)].release(attempt, round, true, flaw);
            }
            Step::LeaseEnds { member } | Step::LeaseEndsBeforeItCounts { member } => {
                self.lease_ends(usize::from(member.0));
            }
            Step::ForgetsTheFence { member } => {
                self.forgets -= 1;
                let lost = std::mem::take(&mut self.members[usize::from(member.0)].fence);
                self.clock_shows_more_than(lost);
            }
            Step::RestartsEmpty { member } => self.restart(usize::from(member.0)),
            Step::QuarantineEnds { member } => self.quarantine_ends(usize::from(member.0)),
        }
    }

    /// The highest fence that was granted.
    fn low(&self) -> u8 {
        u8::try_from(u16::BITS - self.granted.leading_zeros()).expect("few fences").saturating_sub(1)
    }

    fn is_granted(&mut self, attempt: usize, fence: u8) {
        let it = &mut self.attempts[attempt];
        (it.phase, it.fence) = (Phase::Holding, fence);
        let low = it.low;
        let before = if self.rules.has_time { self.low() } else { low };
        if fence <= before {
            self.fault = Some("a fence does not rise");
        } else if self.granted & 1 << fence != 0 {
            self.fault = Some("two have one fence");
        }
        self.granted = if self.rules.has_time { 1 << fence } else { self.granted | 1 << fence };
        self.members.iter_mut().for_each(|member| member.links[attempt].answered = 0);
        if !self.rules.has_time {
            // Whether it still believes is of no interest.
            self.end(attempt, Phase::Gone);
        }
    }

    fn wait_at_the_line(&mut self, attempt: usize) {
        self.waits -= 1;
        let call = self.attempts[attempt].call();
        let it = &mut self.attempts[attempt];
        (it.phase, it.fence, it.since) = (Phase::Waiting, 0, call);
        for member in &mut self.members {
            if !member.has_line {
                let answered = member.links[attempt].answered;
                member.give_up(attempt, it, true);
                let link = &mut member.links[attempt];
                link.round = u8::from(self.rules.flaw != Some(Flaw::OneIdForAllRounds));
                if self.rules.flaw == Some(Flaw::CountsWhatItReleased) {
                    link.answered = answered;
                }
                continue;
            }
            let link = &mut member.links[attempt];
            (link.answered, link.served, link.call) = (0, false, call);
        }
    }

    fn end(&mut self, attempt: usize, phase: Phase) {
        let everywhere = !self.has(Flaw::ReleasesOnlyWhereGranted);
        for member in &mut self.members {
            let link = &member.links[attempt];
            let release = phase == Phase::Gone && (everywhere || link.answered != 0 || link.renewed);
            member.give_up(attempt, &self.attempts[attempt], release);
            member.links[attempt].round = 0;
            if let Some(quarantine) = &mut member.quarantine {
                quarantine.sent[attempt] = 0;
            }
        }
        self.attempts[attempt] = Attempt { phase, ..Attempt::default() };
    }

    /// Beliefs that rest on the first so many calls have ended.
    fn calls_are_over(&mut self, attempt: usize, calls: u8) {
        let it = &mut self.attempts[attempt];
        it.over = it.over.max(calls);
        let revives = self.rules.flaw == Some(Flaw::RevivesAfterTheEnd) && it.phase == Phase::Holding;
        if it.is_live() && it.is_over() && !revives {
            self.end(attempt, Phase::Gone);
        }
    }

    fn lease_ends(&mut self, at: usize) {
        let Some(owner) = self.members[at].owner else { return };
        let attempt = usize::from(owner.attempt);
        let is_current = self.attempts[attempt].is_live() && self.members[at].is_owned(attempt);
        self.members[at].free(self.rules.flaw);
        let is_last = self.count(|member| member.is_owned(attempt)) == 0;
        if is_current && self.rules.has_time && (is_last || !self.has(Flaw::CountedFromTheLastReply)) {
            self.calls_are_over(attempt, owner.call + 1);
        }
    }

    pub(super) fn may_restart(&self, at: usize) -> bool {
        if self.rules.memory != Memory::Holder {
            return true;
        }
        let holds = |attempt: usize| {
            let others = self.members.iter().enumerate().filter(|(other, _)| *other != at);
            let held = others.filter(|(_, member)| member.answers() && member.is_owned(attempt)).count();
            self.attempts[attempt].believes() && Self::is_majority(held)
        };
        (0..self.rules.attempts).any(holds)
    }

    fn restart(&mut self, at: usize) {
        self.restarts -= 1;
        let it = &mut self.members[at];
        let lost = it.quarantine.map_or(it.fence, |before| before.lost);
        let lost = if self.rules.memory == Memory::Clock { lost } else { 0 };
        let sent = self.attempts.map(|attempt| attempt.calls);
        (it.owner, it.fence) = (None, 0);
        it.quarantine = (self.rules.flaw != Some(Flaw::NoQuarantine)).then_some(Quarantine { lost, sent });
        // Connections broke; whoever still asks does so again.
        it.links.iter_mut().for_each(|link| link.served = false);
    }

    /// What a member that was quarantined takes for its last fence: the least that the others, of whom it may ask any, know.
    pub(super) fn learns(&self) -> Option<u8> {
        if self.rules.memory != Memory::Others {
            return Some(0);
        }
        let mut known: Vec<u8> =
            self.members.iter().filter(|it| it.answers()).map(|member| member.fence).collect();
        known.sort_unstable();
        let asked = if self.has(Flaw::LearnsFromOne) { 1 } else { N / 2 + 1 };
        known.get(asked - 1).copied()
    }

    fn clock_shows_more_than(&mut self, fence: u8) {
        if self.rules.memory == Memory::Clock && !self.has(Flaw::PureCounter) {
            self.clock = self.clock.max(fence);
        }
    }

    fn quarantine_ends(&mut self, at: usize) {
        let learnt = self.learns().unwrap_or(0);
        let Some(Quarantine { lost, sent }) = self.members[at].quarantine.take() else { return };
        self.members[at].fence = learnt;
        self.clock_shows_more_than(lost);
        let beyond = usize::from(self.has(Flaw::QuarantineOfMyTtl));
        for (attempt, calls) in sent.into_iter().enumerate().skip(beyond) {
            self.calls_are_over(attempt, calls);
        }
    }
}
