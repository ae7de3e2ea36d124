//! One request for a grant: one round, or as many as are needed for an answer.

use std::time::Duration;

use super::ids::{Ids, Stage};
use super::{Asks, MemberAnswer, Question, QuorumAttempt, QuorumStep, QuorumView};
use crate::{
    Attempt, Fault, FaultKind, Fence, GrantAnswer, HolderInfo, Instant, Lease, Mode, QueuePosition,
    QuorumReport, RaiseAnswer, Round, RoundAction, WaitMode, WaitQueue, Want,
};

/// How long a single try keeps asking while rivals hold only a minority and this attempt holds the
/// deciding member. It is longer than a member may take to answer the rivals, after which they
/// release what they hold.
const SPLIT: Duration = Duration::from_secs(1);

/// The longest pause before the first of these requests; each further pause is longer.
const SPLIT_REST: Duration = Duration::from_millis(15);

/// The decisions of one request.
///
/// The *queue member* only keeps the queue: a majority's grant counts, whatever the queue member
/// answers. While nobody has a majority, it decides which of several rivals continues: the one that
/// holds its key. It is the first member that answers, in configured order, or a later one if
/// another program's lock is in the way there.
#[derive(Clone, Debug, Hash)]
pub(super) struct GrantRequest {
    attempt: Attempt,
    wait_mode: WaitMode,
    /// The number of the round; see [`Question`].
    pub(super) number: u32,
    /// When the lease of this request would end. Counted from before the queue member is asked.
    until: Instant,
    /// The proposed fence: the same for all members, so that they can all answer it.
    fence: Option<Fence>,
    queue_member: usize,
    /// Only the queue member is asked so far. Its answer, if it has come.
    at_queue_member: Option<Option<Result<GrantAnswer, Fault>>>,
    /// The queue member's next answer was asked for by [`GrantAnswer::Unfinished`], or by
    /// `at_queue_member`.
    again: Vec<usize>,
    /// The members other than the queue member in whose queues this attempt is.
    refusers: Vec<usize>,
    contested_until: Option<Instant>,
    round: Round,
    courtesy: Courtesy,
    /// Nothing is asked before this.
    pause: Option<Instant>,
    split_until: Option<Instant>,
    last_words_until: Option<Instant>,
    split_tries: u32,
    /// The attempt had a majority, and let the holder of the queue member's key go first.
    gave_way: bool,
    /// The attempt's position in the queue member's queue, or why it is not in that queue.
    refused: Option<GrantAnswer>,
    place_elsewhere: Option<QueuePosition>,
    /// An [odd](is_odd) answer. It ends the request, unless a majority grants.
    odd: Option<GrantAnswer>,
}

/// The wait for the queue member after the others have decided.
#[derive(Clone, Copy, Debug, Hash)]
enum Courtesy {
    None,
    Until(Instant),
    Over,
}

impl GrantRequest {
    pub(super) fn new(ids: &mut Ids, attempt: &Attempt, wait_mode: WaitMode, view: &QuorumView<'_>) -> Self {
        let members = ids.settings.members.len();
        let answering = (0..members).filter(|member| !view.process.is_silent(*member)).count();
        match ids.stage {
            Stage::Queued { .. } if answering < ids.settings.majority() => ids.begin_anew(),
            Stage::Contested { until, .. } if view.now >= until => ids.begin_anew(),
            _ => {}
        }
        let queue_member = ids.stage.queue_member().unwrap_or_else(|| view.queue_member(members));
        let (refusers, contested_until) = match &ids.stage {
            Stage::Contested { refusers, until, .. } => (refusers.clone(), Some(*until)),
            _ => (Vec::new(), None),
        };
        let at_queue_member = matches!(ids.stage, Stage::Queued { .. });
        let until = Lease::counted_from(view.now, attempt.ttl, ids.settings.drift).end();
        ids.rounds = ids.rounds.wrapping_add(1);
        Self {
            attempt: attempt.clone(),
            wait_mode,
            number: ids.rounds,
            until,
            fence: None,
            queue_member,
            at_queue_member: at_queue_member.then_some(None),
            again: if at_queue_member { vec![queue_member] } else { Vec::new() },
            refusers,
            contested_until,
            round: new_round(members, until, view),
            courtesy: Courtesy::None,
            pause: None,
            split_until: None,
            last_words_until: None,
            split_tries: 0,
            gave_way: false,
            refused: None,
            place_elsewhere: None,
            odd: None,
        }
    }

    pub(super) fn is_a_try(&self) -> bool {
        self.wait_mode == WaitMode::Try
    }

    /// See [`QuorumAttempt::is_open`].
    pub(super) fn is_open(&self) -> bool {
        self.again.is_empty() && self.round.is_open()
    }

    pub(super) fn next(&mut self, ids: &mut Ids, view: &QuorumView<'_>) -> QuorumStep {
        if let Some(until) = self.pause {
            if view.now < until {
                return QuorumStep::WaitUntil(until);
            }
            self.pause = None;
        }
        if let Some(member) = self.again.pop() {
            return self.ask(ids, view, member);
        }
        if let Some(answer) = &mut self.at_queue_member {
            let answer = answer.take();
            if answer.is_none() && view.now < self.until {
                return QuorumStep::WaitUntil(self.until);
            }
            self.at_queue_member = None;
            if let Some(answer) = answer.and_then(Result::ok).filter(|answer| !is_odd(answer)) {
                if let Some(answer) = self.handle_queue_member(ids, answer) {
                    return QuorumStep::Done(Ok(answer));
                }
            } else {
                // If the member's queue is gone, being first in it means nothing: start again. An odd
                // answer comes again then, and counts only if no majority grants.
                ids.begin_anew();
                self.queue_member = view.queue_member(ids.settings.members.len());
            }
        }
        loop {
            match self.round.next(view.now) {
                RoundAction::Grant { member } => return self.ask(ids, view, member),
                RoundAction::Raise { member, fence } => {
                    return self.question(ids, member, fence, Asks::Raise);
                }
                RoundAction::WaitUntil(at) => return QuorumStep::WaitUntil(at),
                RoundAction::Granted { fence } => {
                    if let Some(step) = self.courtesy(view) {
                        return step;
                    }
                    if let Some(held_by) = self.queues_before().cloned() {
                        // Counting this majority would let readers pass a waiting writer, and
                        // starve it if they come often.
                        let queue_member = self.queue_member;
                        if let Some(step) = self.stand(ids, queue_member, held_by, false) {
                            return step;
                        }
                    } else if self.is_to_give_way() {
                        return self.give_way(ids, view);
                    } else {
                        ids.stage = Stage::Held { fence };
                        return QuorumStep::Done(Ok(GrantAnswer::Granted { fence }));
                    }
                }
                RoundAction::Failed => {
                    if let Some(step) = self.failed(ids, view) {
                        return step;
                    }
                }
            }
        }
    }

    fn ask(&mut self, ids: &mut Ids, view: &QuorumView<'_>, member: usize) -> QuorumStep {
        let wait_mode = match self.wait_mode {
            WaitMode::Wait { .. } if member == self.queue_member => self.wait_mode,
            WaitMode::Wait { .. } if self.refusers.contains(&member) => WaitMode::Wait { queue_limit: None },
            _ => WaitMode::Try,
        };
        let fence = *self.fence.get_or_insert_with(|| view.process.proposed());
        self.question(ids, member, fence, Asks::Grant(wait_mode))
    }

    fn question(&self, ids: &mut Ids, member: usize, fence: Fence, asks: Asks) -> QuorumStep {
        let holder = ids.call_begins(member).holder;
        QuorumStep::Ask(Question { member, holder, fence, asks, round: self.number })
    }

    fn waits(&self) -> bool {
        matches!(self.wait_mode, WaitMode::Wait { .. })
    }

    /// Goes on from the queue member's answer to an attempt in its queue. Returns the answer to the
    /// request if the other members need not be asked.
    fn handle_queue_member(&mut self, ids: &mut Ids, answer: GrantAnswer) -> Option<GrantAnswer> {
        let queue_member = self.queue_member;
        let looks_on = matches!(ids.stage, Stage::Queued { looks_on: true, .. }) || self.may_be_left(&answer);
        match answer {
            GrantAnswer::Granted { fence } => {
                ids.stage = Stage::Handed { queue_member };
                self.round.handle_fence(queue_member, fence);
                self.fence = Some(fence);
                None
            }
            // The other members may grant the keys nevertheless.
            GrantAnswer::Busy { ref held_by, .. } if looks_on || is_foreign(held_by) => {
                self.round.handle_refused(queue_member, Some(held_by.clone()));
                self.refused = Some(answer);
                None
            }
            answer => Some(answer),
        }
    }

    /// Returns true for the answer to the first in the queue if nobody seems to renew the lease at
    /// the queue member: what a majority has released may still be held there.
    fn may_be_left(&self, answer: &GrantAnswer) -> bool {
        let GrantAnswer::Busy { held_by, place: Some(place) } = answer else { return false };
        place.before == 0 && held_by.remaining.is_some_and(|left| left < self.attempt.ttl.duration() / 2)
    }

    /// Waits for the queue member although the others have decided; `None` to stop waiting.
    fn courtesy(&mut self, view: &QuorumView<'_>) -> Option<QuorumStep> {
        let queue_member = self.queue_member;
        if !self.round.awaits(queue_member) || view.process.is_silent(queue_member) {
            return None;
        }
        match self.courtesy {
            Courtesy::None => {
                let until = view.now + QuorumAttempt::COURTESY;
                self.courtesy = Courtesy::Until(until);
                Some(QuorumStep::WaitUntil(until))
            }
            Courtesy::Until(until) if view.now < until => Some(QuorumStep::WaitUntil(until)),
            Courtesy::Until(_) => {
                self.courtesy = Courtesy::Over;
                Some(QuorumStep::Silent { member: queue_member })
            }
            Courtesy::Over => None,
        }
    }

    pub(super) fn handle(&mut self, ids: &Ids, question: &Question, answer: Result<MemberAnswer, Fault>) {
        let member = question.member;
        match answer {
            Ok(MemberAnswer::Grant(answer)) => self.hear_grant(ids, member, answer),
            Ok(MemberAnswer::Raise(RaiseAnswer::Raised { fence })) => {
                self.round.handle_fence(member, fence);
            }
            Ok(MemberAnswer::Raise(RaiseAnswer::NotHeld { held_by, .. })) => {
                self.round.handle_refused(member, held_by);
            }
            Err(fault) => match &mut self.at_queue_member {
                Some(answer) => *answer = Some(Err(fault)),
                None => self.round.handle_fault(member, fault),
            },
        }
    }

    fn hear_grant(&mut self, ids: &Ids, member: usize, answer: GrantAnswer) {
        if let Some(at_queue_member) = &mut self.at_queue_member {
            *at_queue_member = Some(Ok(answer));
            return;
        }
        let store = &ids.settings.members[member];
        match &answer {
            GrantAnswer::Granted { fence } => self.round.handle_fence(member, *fence),
            GrantAnswer::Busy { held_by, .. } | GrantAnswer::QueueFull { held_by, .. } => {
                self.round.handle_refused(member, Some(held_by.clone()));
                if member == self.queue_member {
                    self.refused = Some(answer);
                } else if let GrantAnswer::Busy { place, .. } = answer {
                    self.place_elsewhere = self.place_elsewhere.or(place);
                }
            }
            GrantAnswer::Unfinished => self.again.push(member),
            GrantAnswer::TooLate { .. } => {
                self.round.handle_fault(member, Fault::passing(store, "it was asked too late"));
            }
            GrantAnswer::NotALock { .. } => {
                let fault = Fault::lasting(store, "the key has something that is not a lock");
                self.round.handle_fault(member, fault);
                self.odd = Some(answer);
            }
            GrantAnswer::FencesSpent { .. } => {
                let fault = Fault::lasting(store, "the fences of the key are used up");
                self.round.handle_fault(member, fault);
                self.odd = Some(answer);
            }
        }
    }

    /// The reader that holds the queue member's key, if this reader was refused there nevertheless:
    /// then others are queued before it. A claim wants all its keys in one mode.
    fn queues_before(&self) -> Option<&HolderInfo> {
        let held_by = self.round.held_by(self.queue_member)?;
        let reads = |want: &Want| want.mode == Mode::Shared;
        (held_by.mode == Mode::Shared && self.attempt.claim.wants().iter().all(reads)).then_some(held_by)
    }

    /// Returns true if another of our attempts holds the queue member's key. Mostly that is the
    /// first attempt in its queue, which is about to ask the other members; sometimes a dead
    /// process left it behind. Giving way once distinguishes the two.
    fn is_to_give_way(&self) -> bool {
        let held_by = self.round.held_by(self.queue_member);
        held_by.is_some_and(|held_by| !self.gave_way && !is_foreign(held_by) && !self.is_our_own(held_by))
    }

    /// Releases what a majority granted, pauses, and asks again. The attempt keeps its position in
    /// the queue.
    fn give_way(&mut self, ids: &mut Ids, view: &QuorumView<'_>) -> QuorumStep {
        self.gave_way = true;
        let queue_member = self.queue_member;
        ids.abandon(|member| member != queue_member);
        let until = view.now + view.about(QuorumAttempt::APART.min(self.attempt.ttl.duration() / 8));
        self.pause = Some(until);
        self.round = new_round(ids.settings.members.len(), self.until, view);
        self.refusers.clear();
        self.courtesy = Courtesy::None;
        (self.fence, self.refused, self.place_elsewhere) = (None, None, None);
        QuorumStep::WaitUntil(until)
    }

    /// Returns true if this attempt itself holds the key there, under an id that is being released.
    fn is_our_own(&self, held_by: &HolderInfo) -> bool {
        let own = self.attempt.holder;
        held_by.owner.holder().is_some_and(|holder| holder.is_same_attempt(own))
    }

    /// Decides what to do when no majority can grant any more; `None` to look at the round again.
    fn failed(&mut self, ids: &mut Ids, view: &QuorumView<'_>) -> Option<QuorumStep> {
        if view.now >= self.until {
            return Some(self.too_few(ids));
        }
        let winnable = self.round.could_be_won(|member| !view.process.is_silent(member));
        let held: Vec<(usize, HolderInfo)> =
            self.round.held_elsewhere().map(|(member, held_by)| (member, held_by.clone())).collect();
        let Some((_, held_by)) = held.first().cloned().filter(|_| winnable) else {
            let last_words = self.last_words(ids.settings.members.len(), view);
            return Some(last_words.map_or_else(|| self.too_few(ids), QuorumStep::WaitUntil));
        };
        let holder = self.round.held_by_one().cloned();
        let is_held = holder.is_some();
        if let Some(holder) = holder.filter(|_| !self.waits()) {
            return Some(self.leave(ids, holder));
        }
        if let Some(step) = self.courtesy(view) {
            return Some(step);
        }
        let queue_member = self.choose_queue_member(ids, &held);
        let goes_on = self.round.has_granted(queue_member);
        match self.waits() {
            true if goes_on => {
                self.queue_member = queue_member;
                self.join_the_refusers(ids, view, &held, held_by)
            }
            true => self.stand(ids, queue_member, held_by, !is_held),
            false if goes_on || held.iter().any(|(_, held_by)| self.is_our_own(held_by)) => {
                Some(self.ask_the_rivals(ids, view, &held, held_by))
            }
            false => Some(self.leave(ids, held_by)),
        }
    }

    /// Chooses the queue member: the first member that answers and where no other program's lock is
    /// in the way. The holder of its key continues, and waiters join its queue. If other programs
    /// hold so many members that no majority is left, all wait for their locks.
    fn choose_queue_member(&self, ids: &Ids, held: &[(usize, HolderInfo)]) -> usize {
        let foreign = |member: usize| self.round.held_by(member).is_some_and(is_foreign);
        let count = held.iter().filter(|(_, held_by)| is_foreign(held_by)).count();
        let members = ids.settings.members.len();
        let skips = members - count >= ids.settings.majority();
        let serves = |member: &usize| {
            let member = *member;
            self.round.has_granted(member)
                || self.round.held_by(member).is_some() && !(skips && foreign(member))
        };
        (0..members).find(serves).unwrap_or(self.queue_member)
    }

    /// Keeps asking in a single try while rivals hold only a minority; they release it when they
    /// find that another attempt continues.
    fn ask_the_rivals(
        &mut self,
        ids: &mut Ids,
        view: &QuorumView<'_>,
        held: &[(usize, HolderInfo)],
        held_by: HolderInfo,
    ) -> QuorumStep {
        let split = SPLIT.min(self.attempt.ttl.duration() / 4);
        if view.now < *self.split_until.get_or_insert(view.now + split) {
            self.split_tries += 1;
            let until = view.now + view.about(SPLIT_REST * self.split_tries);
            self.pause = Some(until);
            held.iter().for_each(|(member, _)| self.round.ask_again(*member));
            return QuorumStep::WaitUntil(until);
        }
        if self.round.is_held_elsewhere() { self.leave(ids, held_by) } else { self.too_few(ids) }
    }

    /// Joins one member's queue, and releases everything elsewhere.
    fn stand(
        &mut self,
        ids: &mut Ids,
        queue_member: usize,
        held_by: HolderInfo,
        looks_on: bool,
    ) -> Option<QuorumStep> {
        if queue_member != self.queue_member {
            let before = std::mem::replace(&mut self.queue_member, queue_member);
            self.refused = None;
            self.courtesy = Courtesy::None;
            // A member that has not answered may still grant the request, so it is not given up:
            // its answer counts.
            if self.round.held_by(before).is_some() {
                ids.abandon(|member| member == before);
            }
            self.round.ask_again(queue_member);
            return None;
        }
        let queue_member = self.queue_member;
        Some(match self.refused.take() {
            Some(answer @ GrantAnswer::Busy { place: Some(_), .. }) => {
                let votes = self.votes(ids);
                ids.abandon(|member| member != queue_member);
                ids.stage = Stage::Queued { queue_member, looks_on };
                QuorumStep::Refused { answer, votes }
            }
            Some(answer @ GrantAnswer::QueueFull { .. }) => {
                let votes = self.votes(ids);
                ids.begin_anew();
                QuorumStep::Refused { answer, votes }
            }
            // A store without a queue keeps nothing of a refused request.
            _ => self.leave(ids, held_by),
        })
    }

    /// Ends the attempt and releases everything.
    fn leave(&self, ids: &mut Ids, held_by: HolderInfo) -> QuorumStep {
        let votes = self.votes(ids);
        ids.begin_anew();
        QuorumStep::Refused { answer: GrantAnswer::Busy { held_by, place: None }, votes }
    }

    /// It is this attempt's turn, but others hold a majority or part of one. It waits in their
    /// members' queues instead of polling, but only for a limited time, because one of them may be
    /// waiting here.
    fn join_the_refusers(
        &mut self,
        ids: &mut Ids,
        view: &QuorumView<'_>,
        held: &[(usize, HolderInfo)],
        held_by: HolderInfo,
    ) -> Option<QuorumStep> {
        let window = WaitQueue::CLAIM_WINDOW.min(self.attempt.ttl.duration() / 2);
        let until = *self.contested_until.get_or_insert_with(|| view.now + view.about(window));
        let joined = self.refusers.len();
        for (member, _) in held {
            if !self.refusers.contains(member) {
                self.refusers.push(*member);
                self.round.ask_again(*member);
            }
        }
        if self.refusers.len() > joined {
            return None;
        }
        ids.stage =
            Stage::Contested { queue_member: self.queue_member, refusers: self.refusers.clone(), until };
        let answer = GrantAnswer::Busy { held_by, place: self.place_elsewhere };
        Some(QuorumStep::Refused { answer, votes: self.votes(ids) })
    }

    /// Until when to wait for more answers, so that an error can say each member's; `None` to stop.
    fn last_words(&mut self, members: usize, view: &QuorumView<'_>) -> Option<Instant> {
        // A member that has just failed is already silent, and its fault says why.
        let awaits = |member| self.round.awaits(member) && !view.process.is_silent(member);
        if !(0..members).any(awaits) {
            return None;
        }
        let until = *self.last_words_until.get_or_insert(view.now + QuorumAttempt::COURTESY);
        (view.now < until).then_some(until)
    }

    fn too_few(&mut self, ids: &mut Ids) -> QuorumStep {
        ids.begin_anew();
        if let Some(odd) = self.odd.take().filter(|_| self.round.is_hopeless()) {
            return QuorumStep::Done(Ok(odd));
        }
        let kind = match () {
            () if self.round.is_hopeless() => FaultKind::Lasting,
            () if self.round.waits_for_quarantine() => FaultKind::Quarantined,
            () => FaultKind::Passing,
        };
        QuorumStep::Done(Err(Fault::of_quorum(kind, &ids.settings.name, self.votes(ids))))
    }

    fn votes(&self, ids: &Ids) -> QuorumReport {
        self.round.quorum_report(ids.settings.members.iter().cloned())
    }
}

/// A round whose raises go up to a few hundred above an answer.
fn new_round(members: usize, until: Instant, view: &QuorumView<'_>) -> Round {
    Round::new(members, until, view.process.random() & 0x3ff)
}

/// Returns true for an answer that one member alone may give, and that no repetition changes.
const fn is_odd(answer: &GrantAnswer) -> bool {
    matches!(answer, GrantAnswer::NotALock { .. } | GrantAnswer::FencesSpent { .. })
}

/// A lock of another program, which may never end and which takes no part in rounds.
fn is_foreign(held_by: &HolderInfo) -> bool {
    held_by.owner.holder().is_none()
}
