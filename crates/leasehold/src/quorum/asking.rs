//! One request of the driver to a quorum: one round, or as many as are needed for an answer.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Attempt, BoxFuture, Fault, FaultKind, GrantAnswer, HolderInfo, Instant, Lease, Mode, Owner, Proposal,
    QueuePosition, RaiseAnswer, Round, Turn, WaitMode, WaitQueue, Want,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::attempts::{Stage, is_same_attempt};
use super::looking::is_same;
use super::member::Said;
use super::questions::Heard;
use super::state::QuorumState;
use super::waiting::APART;

/// How long a grant waits for the line member's answer after the others have answered, because
/// somebody may be waiting in its queue. After that time the member counts as silent, and nobody
/// waits for it until it answers again.
pub(super) const COURTESY: Duration = Duration::from_millis(100);

/// How long a single try keeps asking while rivals hold only a minority and this attempt holds the
/// deciding member. It is longer than a member may take to answer the rivals, after which they
/// release what they hold.
const SPLIT: Duration = Duration::from_secs(1);

/// The longest pause before the first of these requests; each further pause is longer.
const SPLIT_REST: Duration = Duration::from_millis(15);

/// Requests a grant for an attempt: from all members at once, or, for an attempt that waits, first
/// from the member in whose queue it is.
pub(super) async fn grant(
    quorum: &Arc<QuorumState>,
    attempt: &Attempt,
    wait_mode: WaitMode,
) -> Result<GrantAnswer, Fault> {
    let answer = ask(quorum, attempt, wait_mode).await;
    // An attempt that certainly has nothing in flight is not given up later, so it is removed here.
    let over = match &answer {
        Ok(GrantAnswer::Granted { .. }) => false,
        Ok(_) => wait_mode == WaitMode::Try,
        Err(fault) => fault.is_lasting(),
    };
    if over {
        quorum.begin_anew(attempt);
        quorum.quorum_attempts.remove(attempt.holder);
    }
    answer
}

async fn ask(
    quorum: &Arc<QuorumState>,
    attempt: &Attempt,
    wait_mode: WaitMode,
) -> Result<GrantAnswer, Fault> {
    if let Some(fault) = quorum.same_place_twice() {
        return Err(fault);
    }
    let until = Lease::counted_from(quorum.runtime.now(), attempt.ttl, quorum.drift).end();
    let mut known = None;
    match quorum
        .quorum_attempts
        .enter(attempt, quorum.members.len(), |quorum_attempt| quorum_attempt.stage.clone())
    {
        Stage::Queued { line, looks_on } if quorum.has_majority() => {
            match ask_the_line(quorum, attempt, wait_mode, line).await {
                Ok(GrantAnswer::Granted { fence }) => {
                    quorum.set(attempt, Stage::Handed { line });
                    known = Some((line, GrantAnswer::Granted { fence }));
                }
                // The other members may grant the keys nevertheless.
                Ok(GrantAnswer::Busy { held_by, place }) if looks_on || is_foreign(&held_by) => {
                    known = Some((line, GrantAnswer::Busy { held_by, place }));
                }
                Ok(answer) => return Ok(answer),
                // If the member's queue is gone, being first in it means nothing: start again.
                Err(_) => quorum.begin_anew(attempt),
            }
        }
        Stage::Queued { .. } => quorum.begin_anew(attempt),
        Stage::Contested { until, .. } if quorum.runtime.now() >= until => quorum.begin_anew(attempt),
        Stage::Resting { .. } => quorum.set(attempt, Stage::Fresh),
        _ => {}
    }
    Asking::new(quorum, attempt, wait_mode, until, known).run().await
}

async fn ask_the_line(
    quorum: &Arc<QuorumState>,
    attempt: &Attempt,
    wait_mode: WaitMode,
    line: usize,
) -> Result<GrantAnswer, Fault> {
    let (tell, mut heard) = unbounded_channel();
    quorum.ask_grant(attempt, line, wait_mode, quorum.propose(), &tell);
    drop(tell);
    let ended = || Fault::passing(&quorum.name, "the runtime that keeps it has ended");
    let Some((_, answer)) = heard.recv().await.map(|said| *said) else { return Err(ended()) };
    match answer? {
        Heard::Grant(answer) => Ok(answer),
        Heard::Raise(_) => Err(ended()),
    }
}

/// A lock of another program, which may never end and which takes no part in rounds.
fn is_foreign(held_by: &HolderInfo) -> bool {
    !matches!(held_by.owner, Owner::Holder { .. })
}

/// One round, and the attempt's decisions in it.
///
/// The *line member* only keeps the queue: a majority's grant counts, whatever the line member
/// answers. While nobody has a majority, it decides which of several rivals continues: the one that
/// holds its key. It is the first member that answers, in configured order, or a later one if
/// another program's lock is in the way there.
struct Asking<'a> {
    quorum: &'a Arc<QuorumState>,
    attempt: &'a Attempt,
    wait_mode: WaitMode,
    /// When the lease of this round would end.
    until: Instant,
    /// The same for all members, so that they can all answer the same fence.
    proposal: Proposal,
    line: usize,
    /// How often another member became the line member.
    moves: usize,
    /// The members other than the line member in whose queues this attempt is.
    refusers: Vec<usize>,
    contested_until: Option<Instant>,
    round: Round,
    tell: UnboundedSender<Said<Heard>>,
    heard: UnboundedReceiver<Said<Heard>>,
    courtesy_until: Option<Instant>,
    /// The last timer, which is mostly reused for several answers with the same time limit.
    timer: Option<(Instant, BoxFuture<'static, ()>)>,
    split_until: Option<Instant>,
    last_words_until: Option<Instant>,
    split_tries: u32,
    /// The attempt had a majority, and let the holder of the line member's key go first.
    gave_way: bool,
    /// The attempt's position in the line member's queue, or why it is not in that queue.
    refused: Option<GrantAnswer>,
    place_elsewhere: Option<QueuePosition>,
    /// An answer that one member alone may give and that ends the request, unless a majority
    /// grants.
    odd: Option<GrantAnswer>,
}

type Outcome = Option<Result<GrantAnswer, Fault>>;

impl<'a> Asking<'a> {
    fn new(
        quorum: &'a Arc<QuorumState>,
        attempt: &'a Attempt,
        wait_mode: WaitMode,
        until: Instant,
        known: Option<(usize, GrantAnswer)>,
    ) -> Self {
        let stage =
            quorum.quorum_attempts.with(attempt.holder, |quorum_attempt| quorum_attempt.stage.clone());
        let stage = stage.unwrap_or(Stage::Fresh);
        let line = stage.line().unwrap_or_else(|| quorum.line_member());
        let (refusers, contested_until) = match stage {
            Stage::Contested { refusers, until, .. } => (refusers, Some(until)),
            _ => (Vec::new(), None),
        };
        let mut round = quorum.round(until);
        let mut proposal = quorum.propose();
        let mut refused = None;
        match known {
            Some((member, GrantAnswer::Granted { fence })) => {
                round.handle_granted(member, fence);
                proposal = quorum.proposal(fence);
            }
            Some((member, answer)) => {
                if let GrantAnswer::Busy { held_by, .. } = &answer {
                    round.handle_refused(member, Some(held_by.clone()));
                }
                refused = Some(answer);
            }
            None => {}
        }
        let (tell, heard) = unbounded_channel();
        Self {
            quorum,
            attempt,
            wait_mode,
            until,
            proposal,
            line,
            moves: 0,
            refusers,
            contested_until,
            round,
            tell,
            heard,
            courtesy_until: None,
            timer: None,
            split_until: None,
            last_words_until: None,
            split_tries: 0,
            gave_way: false,
            refused,
            place_elsewhere: None,
            odd: None,
        }
    }

    async fn run(&mut self) -> Result<GrantAnswer, Fault> {
        loop {
            let now = self.quorum.runtime.now();
            match self.round.next(now) {
                Turn::Grant { member } => self.ask(member),
                Turn::Raise { member, fence } => {
                    self.quorum.ask_raise(self.attempt, member, fence, &self.tell);
                }
                Turn::WaitUntil(at) => self.hear(at).await,
                Turn::Granted { fence } => {
                    if let Some(courtesy) = self.courtesy(now) {
                        self.hear(courtesy).await;
                    } else if let Some(fault) = self.quorum.same_place_twice() {
                        // By now each member of the majority has reported its location.
                        self.quorum.begin_anew(self.attempt);
                        return Err(fault);
                    } else if let Some(held_by) = self.queues_before().cloned() {
                        // Counting this majority would let readers pass a waiting writer, and
                        // starve it if they come often.
                        let (line, waits) = (self.line, self.waits());
                        let answer = if waits {
                            self.stand(line, held_by, false)
                        } else {
                            Some(Ok(self.leave(held_by)))
                        };
                        if let Some(answer) = answer {
                            return answer;
                        }
                    } else if self.is_to_give_way() {
                        self.give_way().await;
                    } else {
                        self.quorum.sees(fence);
                        self.quorum.set(self.attempt, Stage::Held { fence });
                        return Ok(GrantAnswer::Granted { fence });
                    }
                }
                Turn::Failed => {
                    if let Some(answer) = self.failed(now).await {
                        return answer;
                    }
                }
            }
        }
    }

    fn ask(&self, member: usize) {
        let wait_mode = match self.wait_mode {
            WaitMode::Wait { .. } if member == self.line => self.wait_mode,
            WaitMode::Wait { .. } if self.refusers.contains(&member) => WaitMode::Wait { line_limit: None },
            _ => WaitMode::Try,
        };
        self.quorum.ask_grant(self.attempt, member, wait_mode, self.proposal, &self.tell);
    }

    fn waits(&self) -> bool {
        matches!(self.wait_mode, WaitMode::Wait { .. })
    }

    /// Until when to wait for the line member although the others have decided; `None` to stop
    /// waiting.
    fn courtesy(&mut self, now: Instant) -> Option<Instant> {
        let line = self.line;
        if !self.round.awaits(line) || self.quorum.members[line].is_silent() {
            return None;
        }
        let until = *self.courtesy_until.get_or_insert(now + COURTESY);
        if now >= until {
            self.quorum.note(line, true);
            return None;
        }
        Some(until)
    }

    /// Waits for one answer, at most until this time.
    async fn hear(&mut self, until: Instant) {
        let timer = self.timer.take().filter(|(at, _)| *at == until);
        let (_, timer) =
            self.timer.insert(timer.unwrap_or_else(|| (until, self.quorum.runtime.sleep_until(until))));
        let heard = tokio::select! {
            biased;
            heard = self.heard.recv() => heard,
            () = timer => {
                self.timer = None;
                None
            }
        };
        let Some((member, answer)) = heard.map(|said| *said) else { return };
        match answer {
            Ok(Heard::Grant(answer)) => self.hear_grant(member, answer),
            Ok(Heard::Raise(RaiseAnswer::Raised { fence })) => {
                self.quorum.sees(fence);
                self.round.handle_raised(member, fence);
            }
            Ok(Heard::Raise(RaiseAnswer::NotHeld { held_by, .. })) => {
                self.round.handle_refused(member, held_by);
            }
            Err(fault) => self.round.handle_fault(member, fault),
        }
    }

    fn hear_grant(&mut self, member: usize, answer: GrantAnswer) {
        let store = &self.quorum.members[member].name;
        match &answer {
            GrantAnswer::Granted { fence } => {
                self.quorum.sees(*fence);
                self.round.handle_granted(member, *fence);
            }
            GrantAnswer::Busy { held_by, .. } | GrantAnswer::LineFull { held_by, .. } => {
                self.round.handle_refused(member, Some(held_by.clone()));
                if member == self.line {
                    self.refused = Some(answer);
                } else if let GrantAnswer::Busy { place, .. } = answer {
                    self.place_elsewhere = self.place_elsewhere.or(place);
                }
            }
            GrantAnswer::Unfinished => self.ask(member),
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

    /// The reader that holds the line member's key, if this reader was refused there nevertheless:
    /// then others are queued before it.
    fn queues_before(&self) -> Option<&HolderInfo> {
        let held_by = self.round.held_by(self.line)?;
        let shares = |want: &Want| want.key == held_by.key && want.mode == Mode::Shared;
        (held_by.mode == Mode::Shared && self.attempt.claim.wants().iter().any(shares)).then_some(held_by)
    }

    /// Returns true if another of our attempts holds the line member's key. Mostly that is the
    /// first attempt in its queue, which is about to ask the other members; sometimes a dead
    /// process left it behind. Giving way once distinguishes the two.
    fn is_to_give_way(&self) -> bool {
        let held_by = self.round.held_by(self.line);
        held_by.is_some_and(|held_by| !self.gave_way && !is_foreign(held_by) && !self.is_our_own(held_by))
    }

    /// Releases what a majority granted, pauses, and asks again. The attempt keeps its position in
    /// the queue.
    async fn give_way(&mut self) {
        self.gave_way = true;
        let line = self.line;
        self.quorum.abandon(self.attempt, |member| member != line);
        let rest = APART.min(self.attempt.ttl.duration() / 8);
        let until = self.quorum.runtime.now() + self.quorum.about(rest);
        self.quorum.runtime.sleep_until(until).await;
        self.round = self.quorum.round(self.until);
        self.proposal = self.quorum.propose();
        (self.tell, self.heard) = unbounded_channel();
        self.refusers.clear();
        (self.refused, self.place_elsewhere, self.courtesy_until) = (None, None, None);
    }

    /// Returns true if this attempt itself holds the key there, under an id that is being released.
    fn is_our_own(&self, held_by: &HolderInfo) -> bool {
        matches!(held_by.owner, Owner::Holder { holder, .. } if is_same_attempt(holder, self.attempt.holder))
    }

    /// Decides what to do when no majority can grant any more.
    async fn failed(&mut self, now: Instant) -> Outcome {
        if now >= self.until {
            return Some(self.too_few());
        }
        let winnable = self.round.could_be_won(|member| !self.quorum.members[member].is_silent());
        let held: Vec<(usize, HolderInfo)> =
            self.round.held_elsewhere().map(|(member, held_by)| (member, held_by.clone())).collect();
        let Some((_, held_by)) = held.first().cloned().filter(|_| winnable) else {
            if let Some(until) = self.last_words(now) {
                self.hear(until).await;
                return None;
            }
            return Some(self.too_few());
        };
        let is_held = self.round.is_held_by_one(is_same);
        if is_held && !self.waits() {
            return Some(Ok(self.leave(held_by)));
        }
        if let Some(courtesy) = self.courtesy(now) {
            self.hear(courtesy).await;
            return None;
        }
        let line = self.choose_line(&held);
        let goes_on = self.round.has_granted(line);
        match self.waits() {
            true if goes_on => {
                self.line = line;
                self.join_the_refusers(now, &held, held_by)
            }
            true => self.stand(line, held_by, !is_held),
            false if goes_on || held.iter().any(|(_, held_by)| self.is_our_own(held_by)) => {
                self.ask_the_rivals(now, &held, held_by).await
            }
            false => Some(Ok(self.leave(held_by))),
        }
    }

    /// Chooses the line member: the first member that answers and where no other program's lock is
    /// in the way. The holder of its key continues, and waiters join its queue. If other programs
    /// hold so many members that no majority is left, all wait for their locks.
    fn choose_line(&self, held: &[(usize, HolderInfo)]) -> usize {
        let foreign = |member: usize| self.round.held_by(member).is_some_and(is_foreign);
        let count = held.iter().filter(|(_, held_by)| is_foreign(held_by)).count();
        let skips = self.quorum.members.len() - count >= self.quorum.majority();
        let serves = |member: &usize| {
            let member = *member;
            self.round.has_granted(member)
                || self.round.held_by(member).is_some() && !(skips && foreign(member))
        };
        (0..self.quorum.members.len()).find(serves).unwrap_or(self.line)
    }

    /// Keeps asking in a single try while rivals hold only a minority; they release it when they
    /// find that another attempt continues.
    async fn ask_the_rivals(
        &mut self,
        now: Instant,
        held: &[(usize, HolderInfo)],
        held_by: HolderInfo,
    ) -> Outcome {
        let split = SPLIT.min(self.attempt.ttl.duration() / 4);
        if now < *self.split_until.get_or_insert(now + split) {
            self.split_tries += 1;
            let rest = self.quorum.about(SPLIT_REST * self.split_tries);
            self.quorum.runtime.sleep_until(now + rest).await;
            held.iter().for_each(|(member, _)| self.round.ask_again(*member));
            return None;
        }
        Some(if self.round.is_held_elsewhere() { Ok(self.leave(held_by)) } else { self.too_few() })
    }

    /// Joins one member's queue, and releases everything elsewhere.
    fn stand(&mut self, line: usize, held_by: HolderInfo, looks_on: bool) -> Outcome {
        if line != self.line && self.moves < self.quorum.members.len() {
            let before = std::mem::replace(&mut self.line, line);
            self.moves += 1;
            self.refused = None;
            self.courtesy_until = None;
            // A member that has not answered may still grant the request, so it is not given up:
            // its answer counts.
            if self.round.held_by(before).is_some() {
                self.quorum.abandon(self.attempt, |member| member == before);
            }
            self.round.ask_again(line);
            return None;
        }
        let line = self.line;
        match self.refused.take() {
            Some(GrantAnswer::Busy { held_by, place: place @ Some(_) }) => {
                self.quorum.abandon(self.attempt, |member| member != line);
                self.quorum.set(self.attempt, Stage::Queued { line, looks_on });
                Some(Ok(GrantAnswer::Busy { held_by, place }))
            }
            Some(answer @ GrantAnswer::LineFull { .. }) => {
                self.quorum.begin_anew(self.attempt);
                Some(Ok(answer))
            }
            // A store without a queue keeps nothing of a refused request.
            _ => Some(Ok(self.leave(held_by))),
        }
    }

    /// Ends the attempt and releases everything.
    fn leave(&self, held_by: HolderInfo) -> GrantAnswer {
        self.quorum.begin_anew(self.attempt);
        GrantAnswer::Busy { held_by, place: None }
    }

    /// It is this attempt's turn, but others hold a majority or part of one. It waits in their
    /// members' queues instead of polling, but only for a limited time, because one of them may be
    /// waiting here.
    fn join_the_refusers(
        &mut self,
        now: Instant,
        held: &[(usize, HolderInfo)],
        held_by: HolderInfo,
    ) -> Outcome {
        let window = WaitQueue::CLAIM_WINDOW.min(self.attempt.ttl.duration() / 2);
        let until = *self.contested_until.get_or_insert_with(|| now + self.quorum.about(window));
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
        let stage = Stage::Contested { line: self.line, refusers: self.refusers.clone(), until };
        self.quorum.set(self.attempt, stage);
        Some(Ok(GrantAnswer::Busy { held_by, place: self.place_elsewhere }))
    }

    /// Until when to wait for further answers, so that an error can say what each member answered;
    /// `None` to stop waiting.
    fn last_words(&mut self, now: Instant) -> Option<Instant> {
        // A member that has just failed is already silent, and its fault says why.
        let says = |member: usize| !self.quorum.members[member].is_silent() || !self.heard.is_empty();
        let awaits = |member| self.round.awaits(member) && says(member);
        if !(0..self.quorum.members.len()).any(awaits) {
            return None;
        }
        let until = *self.last_words_until.get_or_insert(now + COURTESY);
        (now < until).then_some(until)
    }

    fn too_few(&mut self) -> Result<GrantAnswer, Fault> {
        self.quorum.begin_anew(self.attempt);
        if let Some(odd) = self.odd.take().filter(|_| self.round.is_hopeless()) {
            return Ok(odd);
        }
        let kind = match () {
            () if self.round.is_hopeless() => FaultKind::Lasting,
            () if self.round.waits_for_quarantine() => FaultKind::Quarantined,
            () => FaultKind::Passing,
        };
        Err(self.quorum.fault(kind, self.round.quorum_report(self.quorum.names())))
    }
}
