//! One ask of the driver's: a round, or as many as it takes to know.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Attempt, BoxFuture, Fault, FaultKind, Fence, GrantAnswer, Instant, Lease, Line, Manner, Place, Proposal,
    RaiseAnswer, Round, Tenancy, Turn,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::contest::Stage;
use super::desk::Desk;
use super::looking::is_same;
use super::member::Said;
use super::questions::Heard;

/// How long a grant waits for the line member's word when the others were faster: somebody may stand in its line. Once it passed,
/// that member counts as silent and is not waited for again until it answers.
pub(super) const COURTESY: Duration = Duration::from_millis(100);

/// A try that has the line member's key and meets others who have only some of the rest asks those so often once more: whoever
/// is refused by the line member goes at once.
const SPLIT_TRIES: u32 = 2;

/// The longest rest between these asks.
const SPLIT_REST: Duration = Duration::from_millis(15);

/// Asks for an attempt: all members at once, but for one that waits, which asks the member in whose line it stands first.
pub(super) async fn grant(desk: &Arc<Desk>, attempt: &Attempt, manner: Manner) -> Result<GrantAnswer, Fault> {
    let answer = ask(desk, attempt, manner).await;
    // Whoever is certain to have nothing under way is not given up, and so is forgotten here.
    let over = match &answer {
        Ok(GrantAnswer::Granted { .. }) => false,
        Ok(_) => manner == Manner::Try,
        Err(fault) => fault.is_lasting(),
    };
    if over {
        desk.begin_anew(attempt);
        desk.contests.remove(attempt.holder);
    }
    answer
}

async fn ask(desk: &Arc<Desk>, attempt: &Attempt, manner: Manner) -> Result<GrantAnswer, Fault> {
    if let Some(fault) = desk.same_place_twice() {
        return Err(fault);
    }
    let until = Lease::counted_from(desk.runtime.now(), attempt.ttl, desk.drift).end();
    let mut had = None;
    match desk.contests.enter(attempt, desk.members.len(), |contest| contest.stage.clone()) {
        Stage::Standing { line } if desk.has_majority() => {
            match ask_the_line(desk, attempt, manner, line).await {
                Ok(GrantAnswer::Granted { fence }) => {
                    desk.set(attempt, Stage::Handed { line });
                    had = Some((line, fence));
                }
                Ok(answer) => return Ok(answer),
                // Whoever stands first in a line that is gone waits for nobody.
                Err(_) => desk.begin_anew(attempt),
            }
        }
        Stage::Standing { .. } => desk.begin_anew(attempt),
        Stage::Contested { until, .. } if desk.runtime.now() >= until => desk.begin_anew(attempt),
        Stage::Resting { .. } => desk.set(attempt, Stage::Fresh),
        _ => {}
    }
    // Each time around one more member is known to be silent.
    for _ in 0..desk.members.len() {
        let mut asking = Asking::new(desk, attempt, manner, until, had.take());
        if let Some(answer) = asking.run().await {
            return answer;
        }
    }
    desk.begin_anew(attempt);
    Err(Fault::passing(&desk.name, "none of its stores can keep the line of this key"))
}

async fn ask_the_line(
    desk: &Arc<Desk>,
    attempt: &Attempt,
    manner: Manner,
    line: usize,
) -> Result<GrantAnswer, Fault> {
    let (tell, mut heard) = unbounded_channel();
    desk.ask_grant(attempt, line, manner, desk.propose(), &tell);
    drop(tell);
    let ended = || Fault::passing(&desk.name, "the runtime that keeps it has ended");
    let Some((_, answer)) = heard.recv().await.map(|said| *said) else { return Err(ended()) };
    match answer? {
        Heard::Grant(answer) => Ok(answer),
        Heard::Raise(_) => Err(ended()),
    }
}

/// One round, and what the attempt makes of it.
struct Asking<'a> {
    desk: &'a Arc<Desk>,
    attempt: &'a Attempt,
    manner: Manner,
    /// When the lease would have ended.
    until: Instant,
    /// The same for all members, so that they can answer the same.
    proposal: Proposal,
    line: usize,
    /// In whose lines it stands besides the line member's.
    refusers: Vec<usize>,
    contested_until: Option<Instant>,
    round: Round,
    tell: UnboundedSender<Said<Heard>>,
    heard: UnboundedReceiver<Said<Heard>>,
    courtesy_until: Option<Instant>,
    /// What it last waited with: mostly for several answers until the same time.
    timer: Option<(Instant, BoxFuture<'static, ()>)>,
    split_tries: u32,
    /// The line member's refusal, and where the attempt stands in its line.
    refused: Option<(Tenancy, Option<Place>)>,
    place_elsewhere: Option<Place>,
    /// What only one member needs to say to end it all, if no majority says otherwise.
    odd: Option<GrantAnswer>,
}

type Outcome = Option<Result<GrantAnswer, Fault>>;

impl<'a> Asking<'a> {
    fn new(
        desk: &'a Arc<Desk>,
        attempt: &'a Attempt,
        manner: Manner,
        until: Instant,
        had: Option<(usize, Fence)>,
    ) -> Self {
        let stage = desk.contests.with(attempt.holder, |contest| contest.stage.clone());
        let stage = stage.unwrap_or(Stage::Fresh);
        let line = stage.line().unwrap_or_else(|| desk.line_member());
        let (refusers, contested_until) = match stage {
            Stage::Contested { refusers, until, .. } => (refusers, Some(until)),
            _ => (Vec::new(), None),
        };
        let mut round = Round::new(desk.members.len(), until);
        let mut proposal = desk.propose();
        if let Some((member, fence)) = had {
            round.handle_granted(member, fence);
            proposal = desk.proposal(fence);
        }
        let (tell, heard) = unbounded_channel();
        Self {
            desk,
            attempt,
            manner,
            until,
            proposal,
            line,
            refusers,
            contested_until,
            round,
            tell,
            heard,
            courtesy_until: None,
            timer: None,
            split_tries: 0,
            refused: None,
            place_elsewhere: None,
            odd: None,
        }
    }

    /// `None` when the line member fell silent, so that another is to be it.
    async fn run(&mut self) -> Outcome {
        loop {
            let now = self.desk.runtime.now();
            match self.round.next(now) {
                Turn::Grant { member } => self.ask(member),
                Turn::Raise { member, fence } => {
                    self.desk.ask_raise(self.attempt, member, fence, &self.tell);
                }
                Turn::WaitUntil(at) => {
                    if let Some(answer) = self.hear(at).await {
                        return Some(answer);
                    }
                }
                Turn::Granted { fence } => {
                    if let Some(courtesy) = self.courtesy(now) {
                        if let Some(answer) = self.hear(courtesy).await {
                            return Some(answer);
                        }
                        continue;
                    }
                    self.desk.sees(fence);
                    self.desk.set(self.attempt, Stage::Held { fence });
                    return Some(Ok(GrantAnswer::Granted { fence }));
                }
                Turn::Failed => match self.failed(now).await {
                    Next::GoOn => {}
                    Next::Elsewhere => {
                        self.desk.begin_anew(self.attempt);
                        return None;
                    }
                    Next::Over(answer) => return Some(answer),
                },
            }
        }
    }

    fn ask(&self, member: usize) {
        let manner = match self.manner {
            Manner::Wait { .. } if member == self.line => self.manner,
            Manner::Wait { .. } if self.refusers.contains(&member) => Manner::Wait { line_limit: None },
            _ => Manner::Try,
        };
        self.desk.ask_grant(self.attempt, member, manner, self.proposal, &self.tell);
    }

    fn waits(&self) -> bool {
        matches!(self.manner, Manner::Wait { .. })
    }

    /// Until when to wait for the line member although it could be decided without; `None`: no longer.
    fn courtesy(&mut self, now: Instant) -> Option<Instant> {
        let line = self.line;
        if !self.round.awaits(line) || self.desk.members[line].is_silent() {
            return None;
        }
        let until = *self.courtesy_until.get_or_insert(now + COURTESY);
        if now >= until {
            self.desk.note(line, true);
            return None;
        }
        Some(until)
    }

    /// Waits for one answer, no longer than until then.
    async fn hear(&mut self, until: Instant) -> Outcome {
        let timer = self.timer.take().filter(|(at, _)| *at == until);
        let (_, timer) =
            self.timer.insert(timer.unwrap_or_else(|| (until, self.desk.runtime.sleep_until(until))));
        let heard = tokio::select! {
            biased;
            heard = self.heard.recv() => heard,
            () = timer => {
                self.timer = None;
                None
            }
        };
        let (member, answer) = *heard?;
        match answer {
            Ok(Heard::Grant(answer)) => return self.hear_grant(member, answer),
            Ok(Heard::Raise(RaiseAnswer::Raised { fence })) => {
                self.desk.sees(fence);
                self.round.handle_raised(member, fence);
            }
            Ok(Heard::Raise(RaiseAnswer::NotHeld { held_by, .. })) => {
                self.round.handle_refused(member, held_by);
            }
            Err(fault) => self.round.handle_fault(member, fault),
        }
        None
    }

    fn hear_grant(&mut self, member: usize, answer: GrantAnswer) -> Outcome {
        let passing = |why: &str| Fault::passing(&self.desk.members[member].name, why);
        match answer {
            GrantAnswer::Granted { fence } => {
                self.desk.sees(fence);
                self.round.handle_granted(member, fence);
            }
            GrantAnswer::Busy { held_by, place } if member == self.line => {
                if !self.waits() {
                    return Some(Ok(self.leave(held_by)));
                }
                if self.desk.has_majority() {
                    return Some(Ok(self.stand(held_by, place)));
                }
                self.refused = Some((held_by.clone(), place));
                self.round.handle_refused(member, Some(held_by));
            }
            GrantAnswer::Busy { held_by, place } => {
                self.place_elsewhere = self.place_elsewhere.or(place);
                self.round.handle_refused(member, Some(held_by));
            }
            GrantAnswer::LineFull { .. } if member == self.line => {
                self.desk.begin_anew(self.attempt);
                return Some(Ok(answer));
            }
            GrantAnswer::LineFull { held_by, .. } => self.round.handle_refused(member, Some(held_by)),
            GrantAnswer::Unfinished => self.ask(member),
            GrantAnswer::TooLate { .. } => {
                self.round.handle_fault(member, passing("it was asked too late"));
            }
            GrantAnswer::NotALock { .. } => {
                let fault =
                    Fault::lasting(&self.desk.members[member].name, "the key has something that is no lock");
                self.round.handle_fault(member, fault);
                self.odd = Some(answer);
            }
            GrantAnswer::FencesSpent { .. } => {
                let fault =
                    Fault::lasting(&self.desk.members[member].name, "the fences of the key are used up");
                self.round.handle_fault(member, fault);
                self.odd = Some(answer);
            }
        }
        None
    }

    /// Stands in the line member's line, and has nothing anywhere else.
    fn stand(&self, held_by: Tenancy, place: Option<Place>) -> GrantAnswer {
        self.desk.abandon(self.attempt, |member| member != self.line);
        // A store without a line keeps nothing of a refusal.
        let stage = if place.is_some() { Stage::Standing { line: self.line } } else { Stage::Fresh };
        self.desk.set(self.attempt, stage);
        GrantAnswer::Busy { held_by, place }
    }

    /// Goes, and leaves nothing.
    fn leave(&self, held_by: Tenancy) -> GrantAnswer {
        self.desk.begin_anew(self.attempt);
        GrantAnswer::Busy { held_by, place: None }
    }

    async fn failed(&mut self, now: Instant) -> Next {
        if now >= self.until {
            return self.too_few();
        }
        let winnable = self.round.could_be_won(|member| !self.desk.members[member].is_silent());
        if let Some((held_by, place)) = self.refused.take().filter(|_| winnable) {
            return Next::Over(Ok(self.stand(held_by, place)));
        }
        let held: Vec<(usize, Tenancy)> =
            self.round.held_elsewhere().map(|(member, held_by)| (member, held_by.clone())).collect();
        let Some((_, held_by)) = held.first().cloned().filter(|_| winnable) else {
            return self.too_few();
        };
        if let Some(courtesy) = self.courtesy(now) {
            return self.hear(courtesy).await.map_or(Next::GoOn, Next::Over);
        }
        let has_line = self.round.has_granted(self.line);
        if self.waits() {
            if !has_line {
                return Next::Elsewhere;
            }
            return self.join_the_refusers(now, &held, held_by);
        }
        let split = has_line && !self.round.is_held_by_one(is_same);
        if split && self.split_tries < SPLIT_TRIES {
            self.split_tries += 1;
            self.desk.runtime.sleep_until(now + self.desk.about(SPLIT_REST)).await;
            held.iter().for_each(|(member, _)| self.round.ask_again(*member));
            return Next::GoOn;
        }
        if self.round.is_held_elsewhere() {
            return Next::Over(Ok(self.leave(held_by)));
        }
        // That it is held by too few is only what was heard so far: the word of the next line member decides.
        if !has_line && self.desk.members[self.line].is_silent() { Next::Elsewhere } else { self.too_few() }
    }

    /// It is this attempt's turn, but others have a majority, or a part of one. It waits where they are, without asking; not for
    /// long, since one of them may be waiting here.
    fn join_the_refusers(&mut self, now: Instant, held: &[(usize, Tenancy)], held_by: Tenancy) -> Next {
        let window = Line::WINDOW.min(self.attempt.ttl.duration() / 2);
        let until = *self.contested_until.get_or_insert_with(|| now + self.desk.about(window));
        let joined = self.refusers.len();
        for (member, _) in held {
            if !self.refusers.contains(member) {
                self.refusers.push(*member);
                self.round.ask_again(*member);
            }
        }
        if self.refusers.len() > joined {
            return Next::GoOn;
        }
        let stage = Stage::Contested { line: self.line, refusers: self.refusers.clone(), until };
        self.desk.set(self.attempt, stage);
        Next::Over(Ok(GrantAnswer::Busy { held_by, place: self.place_elsewhere }))
    }

    fn too_few(&mut self) -> Next {
        self.desk.begin_anew(self.attempt);
        if let Some(odd) = self.odd.take().filter(|_| self.round.is_hopeless()) {
            return Next::Over(Ok(odd));
        }
        let kind = if self.round.is_hopeless() { FaultKind::Lasting } else { FaultKind::Passing };
        Next::Over(Err(self.desk.fault(kind, self.round.tally(self.desk.names()))))
    }
}

/// What to do when no majority can grant any more.
enum Next {
    GoOn,
    Elsewhere,
    Over(Result<GrantAnswer, Fault>),
}
