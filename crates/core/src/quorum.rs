//! An attempt at a quorum: the decisions about one claim at a majority of independent members.
//!
//! [`QuorumAttempt`] is the state machine. [`Round`](crate::Round) and [`Ballot`](crate::Ballot)
//! count the votes.

mod ids;
mod member;
mod request;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::backoff::jitter;
use crate::{
    Attempt, Drift, Fault, Fence, GrantAnswer, HoldAnswer, Holder, Instant, QuorumReport, RaiseAnswer, Ttl,
    WaitMode, Wake, majority_of,
};

use ids::{Ids, Stage};
use request::GrantRequest;

pub use member::{MemberRenewal, Rejoin};

/// The settings of a quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a quorum has no more to it")]
pub struct QuorumSettings {
    /// Its name, for faults.
    pub name: String,
    /// The names of the members, in configured order.
    pub members: Vec<Arc<str>>,
    /// The widest drift of the members.
    pub drift: Drift,
    /// The longest TTL of the deployment.
    pub max_ttl: Ttl,
}

impl QuorumSettings {
    /// The size of a majority of the members.
    #[must_use]
    pub fn majority(&self) -> usize {
        majority_of(self.members.len())
    }
}

/// A process's knowledge when it calls a machine, in addition to the answers of members.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "callers must set every field")]
pub struct QuorumView<'a> {
    /// The lease clock.
    pub now: Instant,
    /// The rest, as far as the machine asks for it.
    pub process: &'a dyn QuorumProcess,
}

/// A process that has attempts at a quorum. Its answers affect how soon a claim is granted, never
/// the validity of a lease.
pub trait QuorumProcess: fmt::Debug {
    /// True if a member is too slow to wait for: its last call ended in a fault, or takes long.
    fn is_silent(&self, member: usize) -> bool;

    /// The fence to propose: above every fence that this process has seen, or the wall clock if
    /// that is greater, so that mostly all members answer exactly this fence. Members limit it by
    /// their own clocks.
    fn proposed(&self) -> Fence;

    /// A random number, which spreads pauses. It need not be secret.
    fn random(&self) -> u64;
}

impl QuorumView<'_> {
    /// The first member that answers, in configured order: all processes that know the same order
    /// queue at the same member.
    #[must_use]
    pub fn queue_member(&self, members: usize) -> usize {
        (0..members).find(|member| !self.process.is_silent(*member)).unwrap_or(0)
    }

    /// A random duration between half of this time and the whole.
    fn about(&self, whole: Duration) -> Duration {
        whole / 2 + jitter(whole / 2, self.process.random())
    }
}

/// A question to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Question {
    /// The number of the member.
    pub member: usize,
    /// The attempt's id at this member.
    pub holder: Holder,
    /// The proposed fence.
    pub fence: Fence,
    /// The requested action.
    pub asks: Asks,
    /// The round. An answer to a question of an earlier round does not count, because the lease of
    /// this round is counted from later.
    round: u32,
}

/// The action that a question requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every variant")]
pub enum Asks {
    /// A grant.
    Grant(WaitMode),
    /// A raise of the fence of what it granted.
    Raise,
}

/// A member's answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every variant")]
pub enum MemberAnswer {
    /// To [`Asks::Grant`].
    Grant(GrantAnswer),
    /// To [`Asks::Raise`].
    Raise(RaiseAnswer),
}

/// The next step of a request for a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every variant")]
pub enum QuorumStep {
    /// Ask a member this.
    Ask(Question),
    /// Count this member as silent until it answers again: it is slower than others by too much.
    Silent {
        /// Its number.
        member: usize,
    },
    /// Wait for an answer, but come back at this instant.
    WaitUntil(Instant),
    /// The request is over.
    Done(Result<GrantAnswer, Fault>),
    /// The request is over: others hold the keys at so many members that no majority is left. The
    /// attempt is in a queue if the answer has a place.
    Refused {
        /// The answer, with the holder at a majority, or at the member that decides between rivals.
        answer: GrantAnswer,
        /// The vote of each member.
        votes: QuorumReport,
    },
}

/// For what an attempt waits between two requests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every variant")]
pub enum QuorumWait {
    /// For its turn in the queue of this member, or until the member or the majority is silent.
    AtQueueMember {
        /// The number of the member.
        member: usize,
        /// The attempt's id there.
        holder: Holder,
    },
    /// For its turn in the queue of any of these members, until this instant.
    AtRefusers {
        /// The members, and its ids there.
        members: Vec<(usize, Holder)>,
        /// When it leaves them.
        until: Instant,
    },
    /// For this instant.
    Until(Instant),
    /// For nothing: it holds, or asks.
    Nothing,
}

/// The state machine of one attempt to hold a claim at a majority of members.
///
/// A caller makes the calls that the machine requests, in any order and without waiting for one
/// another, and passes in how each of them ends:
///
/// - A request for a grant begins with [`ask`](Self::ask). Then call [`next`](Self::next) until it
///   says to wait, and again after each answer and at the time that it named. A question that it
///   returns counts as sent.
/// - How a question ends is passed to [`handle_answer`](Self::handle_answer), or to
///   [`handle_dropped`](Self::handle_dropped) if it was late and no answer can come any more; before
///   that, [`handle_late`](Self::handle_late) says that the answer takes long. In the same way
///   [`renew`](Self::renew) begins what [`handle_renewed`](Self::handle_renewed) ends, and
///   [`release`](Self::release) what [`handle_released`](Self::handle_released) ends.
/// - After every call, take the ids that must be given up from [`undo`](Self::undo). Give each of
///   them up at its member, until that succeeds or nothing of it can be left, and then call
///   [`handle_undone`](Self::handle_undone). The same goes for an id of
///   [`give_up`](Self::give_up).
///
/// Invariant: a grant is one of [`Round`](crate::Round), of which each answer belongs to a question
/// that was sent after the request began, under an id that was not given up before. An id that may
/// have something at a member is in use, is given up, or is being released.
#[derive(Clone, Debug, Hash)]
pub struct QuorumAttempt {
    ids: Ids,
    request: Option<Box<GrantRequest>>,
    /// The last request ended so that its caller does not give the attempt up.
    over: bool,
}

impl QuorumAttempt {
    /// The longest pause of rivals that have released everything: some round trips, so that one of
    /// them can finish before the next asks.
    const APART: Duration = Duration::from_millis(100);

    /// How long a call to all members waits for the queue member's answer after the others have
    /// answered, because somebody may be waiting in its queue. After that time the member counts as
    /// silent, and nobody waits for it until it answers again.
    pub const COURTESY: Duration = Duration::from_millis(100);

    /// An attempt of which no member knows. Its first id at each member is its own.
    #[must_use]
    pub fn new(settings: Arc<QuorumSettings>, holder: Holder) -> Self {
        Self { ids: Ids::new(settings, holder), request: None, over: false }
    }

    /// Begins a request: asks all members, or, for an attempt that waits, first the member in whose
    /// queue it is. The earlier request, if there was one, has been dropped by its caller.
    pub fn ask(&mut self, attempt: &Attempt, wait_mode: WaitMode, view: &QuorumView<'_>) {
        self.over = false;
        self.request = Some(Box::new(GrantRequest::new(&mut self.ids, attempt, wait_mode, view)));
    }

    /// The next step of the request.
    pub fn next(&mut self, view: &QuorumView<'_>) -> QuorumStep {
        let Some(request) = &mut self.request else {
            let reason = "the attempt was given up while it asked";
            return QuorumStep::Done(Err(Fault::passing(&self.ids.settings.name, reason)));
        };
        let step = request.next(&mut self.ids, view);
        let over = match &step {
            QuorumStep::Done(Ok(GrantAnswer::Granted { .. })) => Some(false),
            QuorumStep::Done(Ok(_)) | QuorumStep::Refused { .. } => Some(request.is_a_try()),
            QuorumStep::Done(Err(fault)) => Some(fault.is_lasting()),
            _ => None,
        };
        if let Some(over) = over {
            self.request = None;
            if over {
                self.quit();
            }
        }
        step
    }

    /// Returns true if the request only waits for more answers, until the time that
    /// [`next`](Self::next) named: then `next` need not be called.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.is_open())
    }

    /// Notes that a member takes long to answer a question. The question remains open.
    pub fn handle_late(&mut self, question: &Question, fault: Fault) {
        self.tell(question, Err(fault));
    }

    /// Notes a member's answer or fault, with which the question ends.
    pub fn handle_answer(&mut self, question: &Question, answer: Result<MemberAnswer, Fault>) {
        if let Some(id) = self.ids.find(question.member, question.holder)
            && let Asks::Grant(_) = question.asks
        {
            id.hears(answer.as_ref().ok());
        }
        self.ids.call_ends(question.member, question.holder, answer.is_ok());
        self.tell(question, answer);
    }

    /// Notes that a question or a renewal under this id has ended, and can bring no answer now.
    pub fn handle_dropped(&mut self, member: usize, holder: Holder) {
        self.ids.call_ends(member, holder, false);
    }

    /// Returns true if an answer to this question would count: it belongs to this round, and its id
    /// was not given up.
    #[must_use]
    pub fn counts(&self, question: &Question) -> bool {
        let is_in_use = self.ids.holder(question.member) == question.holder;
        is_in_use && self.request.as_ref().is_some_and(|request| request.number == question.round)
    }

    fn tell(&mut self, question: &Question, answer: Result<MemberAnswer, Fault>) {
        if self.counts(question)
            && let Some(request) = &mut self.request
        {
            request.handle(&self.ids, question, answer);
        }
    }

    /// Ends the attempt, which nobody gives up: releases everything at all members.
    pub fn quit(&mut self) {
        self.request = None;
        self.ids.begin_anew();
        self.over = true;
    }

    /// Returns true if it has ended, and is only kept for what it may have left at members.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.over
    }

    /// Returns true if it has ended, and nothing of it is left.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.over && self.ids.is_clean()
    }

    /// For what it waits between two requests.
    #[must_use]
    pub fn waits(&self) -> QuorumWait {
        match &self.ids.stage {
            Stage::Queued { queue_member, .. } => {
                QuorumWait::AtQueueMember { member: *queue_member, holder: self.ids.holder(*queue_member) }
            }
            Stage::Contested { refusers, until, .. } => {
                let members = refusers.iter().map(|member| (*member, self.ids.holder(*member))).collect();
                QuorumWait::AtRefusers { members, until: *until }
            }
            Stage::Resting { until } => QuorumWait::Until(*until),
            Stage::Fresh | Stage::Handed { .. } | Stage::Held { .. } => QuorumWait::Nothing,
        }
    }

    /// Notes that a member woke the attempt in its queue. Then it should ask again.
    pub fn handle_wake(&mut self, member: usize, wake: Wake) {
        if let Stage::Queued { queue_member, .. } = self.ids.stage
            && queue_member == member
            && let Wake::Granted { .. } = wake
        {
            self.ids.stage = Stage::Handed { queue_member };
        }
    }

    /// Notes that the time of [`QuorumWait`] has come. True if it should ask again now.
    pub fn handle_time(&mut self, view: &QuorumView<'_>) -> bool {
        match self.ids.stage {
            Stage::Contested { until, .. } if view.now >= until => {
                self.ids.begin_anew();
                let until = view.now + view.about(Self::APART);
                self.ids.stage = Stage::Resting { until };
                false
            }
            Stage::Resting { until } if view.now >= until => {
                self.ids.stage = Stage::Fresh;
                true
            }
            _ => false,
        }
    }

    /// Notes that the claim was transferred to this attempt by another one, with this fence.
    pub fn handle_transferred(&mut self, fence: Fence) {
        self.ids.is_successor(fence);
    }

    /// The fence of its grant, if this machine was granted the claim, or it was transferred to it.
    #[must_use]
    pub const fn fence(&self) -> Option<Fence> {
        match self.ids.stage {
            Stage::Held { fence } => Some(fence),
            _ => None,
        }
    }

    /// Its id at a member.
    #[must_use]
    pub fn holder(&self, member: usize) -> Holder {
        self.ids.holder(member)
    }

    /// Begins a renewal at a member: how it is renewed there. A lease that neither was
    /// granted to this machine nor transferred to it is renewed where it exists, and taken again nowhere.
    pub fn renew(&mut self, member: usize) -> MemberRenewal {
        let fence = self.fence();
        self.ids.call_begins(member).renewal(fence)
    }

    /// Notes the fence of the last break of the attempt's keys that the member remembers, for a
    /// renewal that asks for it. Returns true if the member may take the lease again.
    pub fn handle_last_break(&mut self, member: usize, renewal: &MemberRenewal, last: Option<Fence>) -> bool {
        self.ids.find(member, renewal.holder).is_some_and(|id| id.is_unbroken(renewal, last))
    }

    /// Notes a member's answer to a renewal, or its fault, with which the renewal ends there.
    pub fn handle_renewed(
        &mut self,
        member: usize,
        renewal: &MemberRenewal,
        answer: &Result<HoldAnswer, Fault>,
    ) {
        if let Some(id) = self.ids.find(member, renewal.holder) {
            id.is_renewed(renewal, answer.as_ref().ok().map(|answer| *answer == HoldAnswer::Done));
        }
        self.ids.call_ends(member, renewal.holder, answer.is_ok());
    }

    /// Begins a release at a member, and returns the id to release.
    pub fn release(&mut self, member: usize) -> Holder {
        self.ids.releases(member)
    }

    /// Notes that a release has ended. Returns true if the id must be given up, because the release
    /// failed, or a call that was sent before it may have been served after it.
    pub fn handle_released(
        &mut self,
        member: usize,
        holder: Holder,
        answer: &Result<HoldAnswer, Fault>,
    ) -> bool {
        let done = matches!(answer, Ok(HoldAnswer::Done));
        let unsettled = self.ids.find(member, holder).is_some_and(|id| id.let_go(done));
        let undoes = unsettled || answer.is_err();
        self.ids.undoing += usize::from(undoes);
        undoes
    }

    /// Gives up the id at a member, and returns it for the caller to give up there.
    pub fn give_up(&mut self, member: usize) -> Holder {
        self.request = None;
        self.ids.gives_up(member)
    }

    /// Takes the ids that must be given up, and their members.
    pub fn undo(&mut self) -> Vec<(usize, Holder)> {
        self.ids.undo()
    }

    /// Notes that an id was given up, or that nothing of it can be left any more.
    pub fn handle_undone(&mut self) {
        self.ids.undoing -= 1;
    }

    /// Notes a message that the member broke the lease with this id. Returns true if the lease is
    /// lost if the message is true, because no majority can keep it any more. The message may be
    /// false; the next renewal tells.
    pub fn handle_broken(&mut self, member: usize, holder: Holder) -> bool {
        self.ids.is_broken(member, holder)
    }
}

/// Without its round: [`QuorumAttempt::counts`] says all that matters of it.
impl Hash for Question {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.member, self.holder, self.fence, self.asks).hash(state);
    }
}
