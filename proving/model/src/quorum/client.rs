//! A client of a quorum: its attempt's machine, and its calls to the members.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use leasehold_core::{
    Answer, Asks, Attempt, Ballot, Channel, Fault, Fence, GrantAnswer, HoldAnswer, Holder, Instant, Lease,
    MemberAnswer, MemberRenewal, Proposal, Question, QuorumAttempt, QuorumProcess, QuorumStep, QuorumView,
    QuorumWait, RaiseAnswer, Rejoin, Request, Vote, Wait, WaitMode, Wake,
};

use super::ghost::Ghost;
use super::{Fixed, Flaw};
use crate::name::Now;

#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) attempt: Attempt,
    pub(super) machine: QuorumAttempt,
    pub(super) phase: Phase,
    pub(super) calls: Vec<Call>,
    /// Ids that are being given up, and their members.
    pub(super) undos: Vec<(usize, Holder)>,
    pub(super) process: Process,
    /// Its clock, when a timer rang between two ticks.
    rang: Option<Instant>,
    /// Wake-ups that it has not noticed: the member, the id, and whether it was granted the key.
    pub(super) wakes: Vec<(usize, Holder, bool)>,
    /// Messages about breaks that it has not read: the member, and its id there.
    pub(super) messages: Vec<(usize, Holder)>,
    pub(super) ghost: Ghost,
    /// The members that answered with a grant, and its ids there, if a flaw asks for it.
    granted: Vec<(usize, Holder)>,
    asks: u8,
}

#[derive(Clone, Debug, Hash)]
pub(super) enum Phase {
    Idle,
    /// A request is under way, since then, and its machine waits until that time.
    Asking {
        sent: Instant,
        until: Instant,
    },
    /// Between two requests. Before a tick has passed, it asks only if it is woken.
    Waiting {
        rested: bool,
    },
    Holding {
        fence: Fence,
        end: Instant,
        renewal: Option<Renewal>,
    },
    /// It has released or given up, and only undoes.
    Gone,
    Dead,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Renewal {
    sent: Instant,
    ballot: Ballot,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Process {
    pub(super) silent: Vec<bool>,
    /// The wall clock.
    floor: Fence,
    seen: Option<Fence>,
}

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) member: usize,
    pub(super) holder: Holder,
    pub(super) sent: Instant,
    pub(super) does: Does,
    /// The answer that is on its way back.
    pub(super) answer: Option<Result<Answer, Fault>>,
    /// It was served before, and comes again.
    pub(super) again: bool,
    /// The client was told that it takes long.
    pub(super) late: bool,
}

#[derive(Clone, Debug, Hash)]
pub(super) enum Does {
    Ask(Question),
    Renew(MemberRenewal),
    Release,
}

impl Hash for Client {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.machine, &self.phase, &self.undos, self.rang, &self.wakes, &self.granted, self.asks)
            .hash(state);
        (&self.process.silent, self.process.seen, &self.messages, &self.ghost).hash(state);
        for Call { member, sent, does, answer, again, late, holder } in &self.calls {
            let counts = matches!(does, Does::Ask(question) if self.machine.counts(question));
            (member, sent, does, answer, again, late, holder, counts).hash(state);
        }
    }
}

impl Call {
    pub(super) const fn is_release(&self) -> bool {
        matches!(self.does, Does::Release)
    }
}

impl QuorumProcess for Process {
    fn is_silent(&self, member: usize) -> bool {
        self.silent[member]
    }

    fn proposed(&self) -> Fence {
        let next = self.seen.and_then(|seen| Fence::new(seen.get() + 1));
        self.floor.max(next.unwrap_or(self.floor))
    }

    /// The longest pauses, so that there are few.
    fn random(&self) -> u64 {
        u64::MAX
    }
}

impl Client {
    pub(super) fn new(fixed: &Fixed, attempt: Attempt, now: Now) -> Self {
        let members = fixed.settings.members.len();
        let machine = QuorumAttempt::new(fixed.settings.clone(), attempt.holder);
        let process = Process { silent: vec![false; members], floor: now.floor(), seen: None };
        Self {
            attempt,
            machine,
            phase: Phase::Idle,
            calls: Vec::new(),
            undos: Vec::new(),
            process,
            rang: None,
            wakes: Vec::new(),
            messages: Vec::new(),
            ghost: Ghost::default(),
            granted: Vec::new(),
            asks: fixed.asks,
        }
    }

    pub(super) fn believes(&self, now: Now) -> bool {
        matches!(self.phase, Phase::Holding { end, .. } if now.instant() < end)
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Idle | Phase::Gone | Phase::Dead)
    }

    /// Calls the machine, and notes what it wants undone.
    fn with<T>(
        &mut self,
        now: Now,
        change: impl FnOnce(&mut QuorumAttempt, &Attempt, &QuorumView<'_>) -> T,
    ) -> T {
        let view = QuorumView { now: self.rang.unwrap_or(now.instant()), process: &self.process };
        let changed = change(&mut self.machine, &self.attempt, &view);
        self.undos.extend(self.machine.undo());
        self.undos.sort_unstable();
        self.ghost.broken_at.retain(|(member, id)| self.machine.holder(*member) == *id);
        changed
    }

    pub(super) fn asks(&mut self, fixed: &Fixed, now: Now) {
        self.wakes.clear();
        self.asks -= 1;
        self.with(now, |machine, attempt, view| machine.ask(attempt, fixed.wait_mode, view));
        // The members' clocks show this moment, also after a timer rang between two ticks.
        let sent = now.instant();
        self.phase = Phase::Asking { sent, until: sent };
        self.goes_on(fixed, now);
    }

    /// Does what the machine wants until it waits.
    fn goes_on(&mut self, fixed: &Fixed, now: Now) {
        let Phase::Asking { sent, .. } = self.phase else { return };
        loop {
            match self.with(now, |machine, _, view| machine.next(view)) {
                QuorumStep::Ask(question)
                    if question.asks == Asks::Raise && fixed.has(Flaw::RaisesNothing) =>
                {
                    let raised = RaiseAnswer::Raised { fence: question.fence };
                    self.machine.handle_answer(&question, Ok(MemberAnswer::Raise(raised)));
                }
                QuorumStep::Ask(question) => {
                    self.calls(question.member, question.holder, now, Does::Ask(question));
                }
                QuorumStep::Silent { member } => self.process.silent[member] = true,
                QuorumStep::WaitUntil(_) if fixed.has(Flaw::TwoAreEnough) && self.granted.len() > 1 => {
                    return self.holds(fixed, now, sent, self.process.seen.unwrap_or(self.process.floor));
                }
                QuorumStep::WaitUntil(until) => {
                    self.phase = Phase::Asking { sent, until };
                    return;
                }
                QuorumStep::Done(Ok(GrantAnswer::Granted { fence })) => {
                    return self.holds(fixed, now, sent, fence);
                }
                QuorumStep::Done(_) | QuorumStep::Refused { .. } => {
                    self.forgets_what_was_not_granted(fixed);
                    self.phase = Phase::Waiting { rested: false };
                    return;
                }
            }
        }
    }

    fn holds(&mut self, fixed: &Fixed, now: Now, sent: Instant, fence: Fence) {
        let from = if fixed.has(Flaw::CountedFromTheReply) { now.instant() } else { sent };
        let end = Lease::counted_from(from, self.attempt.ttl, fixed.settings.drift).end();
        self.phase = Phase::Holding { fence, end, renewal: None };
    }

    fn calls(&mut self, member: usize, holder: Holder, now: Now, does: Does) {
        let (sent, answer) = (now.instant(), None);
        self.calls.push(Call { member, holder, sent, does, answer, again: false, late: false });
    }

    pub(super) fn request(&self, fixed: &Fixed, call: &Call) -> Request {
        let at = |fence| {
            let proposal = Proposal { fence, max_ttl: fixed.settings.max_ttl };
            self.attempt.at_member(call.holder, proposal)
        };
        match &call.does {
            Does::Ask(Question { asks: Asks::Grant(mode), fence, .. }) => {
                let channel = Some(Channel::new(self.attempt.holder.digits()));
                let wait = Wait { channel, ..Wait::default() };
                let wait = (*mode != WaitMode::Try).then_some(wait);
                Request::Grant { attempt: at(*fence), wait, not_after: None }
            }
            Does::Ask(question) => Request::Raise(at(question.fence)),
            Does::Renew(renewal) => {
                let attempt = at(renewal.fence.unwrap_or(Fence::MAX));
                match renewal.rejoin {
                    Rejoin::No if !fixed.has(Flaw::RejoinsWhatItHad) => Request::Renew(attempt),
                    _ => Request::Rejoin { attempt, not_after: None },
                }
            }
            Does::Release => Request::Release(at(Fence::MAX)),
        }
    }

    /// The request that gives up an id.
    pub(super) fn release_of(&self, fixed: &Fixed, holder: Holder) -> Request {
        let proposal = Proposal { fence: Fence::MAX, max_ttl: fixed.settings.max_ttl };
        Request::Release(self.attempt.at_member(holder, proposal))
    }

    /// Notes the answer or fault with which a call ends.
    pub(super) fn hears(&mut self, fixed: &Fixed, now: Now, call: &Call, answer: Result<Answer, Fault>) {
        if let Ok(
            Answer::Grant(GrantAnswer::Granted { fence }) | Answer::Raise(RaiseAnswer::Raised { fence }),
        ) = &answer
        {
            self.process.seen = self.process.seen.max(Some(*fence));
            if fixed.has(Flaw::ReleasesOnlyWhereGranted) || fixed.has(Flaw::TwoAreEnough) {
                self.granted.push((call.member, call.holder));
            }
        }
        self.process.silent[call.member] = answer.is_err();
        match &call.does {
            Does::Ask(question) => {
                let answer = answer.map(|answer| match answer {
                    Answer::Grant(answer) => MemberAnswer::Grant(answer),
                    Answer::Raise(answer) => MemberAnswer::Raise(answer),
                    other => unreachable!("{other:?} to a question"),
                });
                self.with(now, |machine, _, _| machine.handle_answer(question, answer));
                if fixed.has(Flaw::LateGrantsAreKept) && self.is_over() {
                    self.undos.retain(|undo| *undo != (call.member, question.holder));
                }
                self.goes_on(fixed, now);
            }
            Does::Renew(renewal) => {
                let answer = answer.map(|answer| match answer {
                    Answer::Renew(answer) | Answer::Rejoin(answer) => answer,
                    other => unreachable!("{other:?} to a renewal"),
                });
                self.with(now, |machine, _, _| machine.handle_renewed(call.member, renewal, &answer));
                self.hears_of_the_renewal(fixed, now, call, answer);
            }
            Does::Release => {
                let answer = answer.map(|answer| match answer {
                    Answer::Release(answer) => answer,
                    other => unreachable!("{other:?} to a release"),
                });
                if self.machine.handle_released(call.member, call.holder, &answer) {
                    self.undos.push((call.member, call.holder));
                }
            }
        }
    }

    fn hears_of_the_renewal(
        &mut self,
        fixed: &Fixed,
        now: Now,
        call: &Call,
        answer: Result<HoldAnswer, Fault>,
    ) {
        let Phase::Holding { end, renewal, .. } = &mut self.phase else { return };
        let Some(Renewal { sent, ballot }) = renewal.as_mut().filter(|it| it.sent == call.sent) else {
            return;
        };
        ballot.handle(call.member, answer);
        let in_time = now.instant() < *end;
        match ballot.vote() {
            Vote::Open => {}
            Vote::Done if in_time => {
                *end = (*end).max(Lease::counted_from(*sent, self.attempt.ttl, fixed.settings.drift).end());
                *renewal = None;
            }
            Vote::NotHeld { .. } => self.is_lost(fixed, now),
            Vote::Unknown if fixed.has(Flaw::FailedRenewalReleases) => {
                *renewal = None;
                self.releases(now);
            }
            Vote::Unknown | Vote::Done => *renewal = None,
        }
    }

    pub(super) fn is_late(&mut self, fixed: &Fixed, now: Now, nth: usize) {
        self.calls[nth].late = true;
        let Call { member, does, .. } = self.calls[nth].clone();
        self.process.silent[member] = true;
        let fault = Fault::passing("member", "timed out");
        match &does {
            Does::Ask(question) => {
                self.with(now, |machine, _, _| machine.handle_late(question, fault));
                self.goes_on(fixed, now);
            }
            Does::Renew(_) => {
                let call = self.calls[nth].clone();
                self.hears_of_the_renewal(fixed, now, &call, Err(fault));
            }
            Does::Release => {}
        }
    }

    /// Notes that no answer to a call can come any more.
    pub(super) fn drops(&mut self, fixed: &Fixed, now: Now, call: &Call) {
        let Does::Release = call.does else {
            if !call.late
                && let Does::Ask(question) = &call.does
            {
                let fault = Fault::passing("member", "timed out");
                self.with(now, |machine, _, _| machine.handle_late(question, fault));
            }
            self.with(now, |machine, _, _| machine.handle_dropped(call.member, call.holder));
            return self.goes_on(fixed, now);
        };
        self.hears(fixed, now, call, Err(Fault::passing("member", "timed out")));
    }

    pub(super) fn renews(&mut self, now: Now) {
        let members = self.process.silent.len();
        let begun = Renewal { sent: now.instant(), ballot: Ballot::new(members) };
        for member in 0..members {
            let renewal = self.machine.renew(member);
            self.calls(member, renewal.holder, now, Does::Renew(renewal));
        }
        if let Phase::Holding { renewal, .. } = &mut self.phase {
            *renewal = Some(begun);
        }
    }

    pub(super) fn releases(&mut self, now: Now) {
        self.messages.clear();
        for member in 0..self.process.silent.len() {
            let holder = self.machine.release(member);
            self.calls(member, holder, now, Does::Release);
        }
    }

    /// Its lease is lost before its end.
    fn is_lost(&mut self, fixed: &Fixed, now: Now) {
        if self.believes(now) && self.ghost.broken_at.is_empty() {
            self.ghost.fault = Some("a lease is lost that nobody broke");
        }
        self.gives_up(fixed);
    }

    /// A message comes that says that its lease was broken at this member.
    pub(super) fn is_told(&mut self, member: usize) {
        self.messages.push((member, self.machine.holder(member)));
        self.messages.sort_unstable();
    }

    pub(super) fn reads(&mut self, fixed: &Fixed, now: Now, message: usize) {
        let (member, id) = self.messages.remove(message);
        let may_be_lost = self.machine.handle_broken(member, id);
        match self.phase {
            Phase::Holding { .. } if may_be_lost && fixed.has(Flaw::BelievesMessages) => {
                self.is_lost(fixed, now);
            }
            Phase::Holding { renewal: None, .. } if may_be_lost => self.renews(now),
            _ => {}
        }
    }

    pub(super) fn gives_up(&mut self, fixed: &Fixed) {
        for member in 0..self.process.silent.len() {
            let id = self.machine.give_up(member);
            self.undos.push((member, id));
        }
        self.wakes.clear();
        self.messages.clear();
        self.phase = Phase::Gone;
        self.forgets_what_was_not_granted(fixed);
    }

    fn forgets_what_was_not_granted(&mut self, fixed: &Fixed) {
        if fixed.has(Flaw::ReleasesOnlyWhereGranted) {
            self.undos.retain(|undo| self.granted.contains(undo));
        }
    }

    pub(super) fn timer(&self) -> Option<Instant> {
        match self.phase {
            Phase::Asking { until, .. } => Some(until),
            Phase::Waiting { .. } => match self.machine.waits() {
                QuorumWait::AtRefusers { until, .. } | QuorumWait::Until(until) => Some(until),
                QuorumWait::AtQueueMember { .. } | QuorumWait::Nothing => None,
            },
            _ => None,
        }
    }

    /// Its timer rings, perhaps between two ticks.
    pub(super) fn rings(&mut self, fixed: &Fixed, now: Now, at: Instant) {
        self.rang = Some(at.max(self.rang.unwrap_or(now.instant())));
        match self.phase {
            Phase::Asking { .. } => self.goes_on(fixed, now),
            _ => {
                if self.with(now, |machine, _, view| machine.handle_time(view)) && self.asks > 0 {
                    self.asks(fixed, now);
                }
            }
        }
    }

    pub(super) fn has_no_asks_left(&self) -> bool {
        matches!(self.phase, Phase::Waiting { .. }) && self.asks == 0
    }

    pub(super) fn may_ask(&self) -> bool {
        if self.asks == 0 {
            return false;
        }
        match self.phase {
            Phase::Idle => true,
            Phase::Waiting { rested } => match self.machine.waits() {
                QuorumWait::AtQueueMember { member, holder } => {
                    rested || self.process.silent[member] || self.is_woken(member, holder)
                }
                QuorumWait::AtRefusers { members, .. } => {
                    members.iter().any(|(member, holder)| self.is_woken(*member, *holder))
                }
                QuorumWait::Until(_) => false,
                QuorumWait::Nothing => rested,
            },
            _ => false,
        }
    }

    fn is_woken(&self, member: usize, holder: Holder) -> bool {
        self.wakes.iter().any(|wake| (wake.0, wake.1) == (member, holder))
    }

    /// Notices its wake-ups, and asks again.
    pub(super) fn asks_again(&mut self, fixed: &Fixed, now: Now) {
        for (member, holder, granted) in std::mem::take(&mut self.wakes) {
            if granted && holder == self.machine.holder(member) {
                let (since, lasts) = (now.instant(), self.attempt.ttl);
                let fence = self.process.floor;
                self.machine.handle_wake(member, Wake::Granted { fence, since, lasts });
            }
        }
        self.asks(fixed, now);
    }

    pub(super) fn time_passes(&mut self, now: Now) {
        self.rang = None;
        self.process.floor = now.floor();
        if let Phase::Waiting { rested } = &mut self.phase {
            *rested = true;
        }
    }
}

/// Shared, because most steps change one client.
pub(super) type Shared = Rc<Client>;
