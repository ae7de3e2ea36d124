//! Calls to the members that nobody has to wait for.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold_core::{Attempt, Ballot, Fault, Fence, HoldAnswer, Store, StoreFuture};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::member::{End, Member};
use super::state::QuorumState;

impl QuorumState {
    /// Makes a call in a separate task, so that nobody has to wait for it. `tell` learns how it
    /// goes: that it exceeds the limit, after which the member counts as silent, and how it ends.
    pub(super) fn call<T: Send + 'static>(
        self: &Arc<Self>,
        limit: Duration,
        member: usize,
        votes: fn(&Result<T, Fault>) -> bool,
        does: impl Asking<T>,
        tell: impl FnMut(End<T>) + Send + 'static,
    ) {
        self.call_all(limit, vec![MemberCall::new(member, votes, does, tell)]);
    }

    /// Makes calls to several members in one task.
    pub(super) fn call_all<T: Send + 'static, F: FnMut(End<T>) + Send + 'static>(
        self: &Arc<Self>,
        limit: Duration,
        mut calls: Vec<MemberCall<T, F>>,
    ) {
        let quorum = self.clone();
        self.runtime.spawn(Box::pin(async move {
            let (runtime, begun) = (&quorum.runtime, quorum.runtime.now());
            let timed_out = |member: usize| quorum.members[member].timed_out();
            if runtime.before(begun + limit, quorum.all_end(&mut calls)).await.is_some() {
                return;
            }
            for call in &mut calls {
                (call.tell)(End::Late(timed_out(call.member)));
                quorum.ended(call.member, Some(&timed_out(call.member)), false);
            }
            // After the longest TTL, no answer can be of any use.
            let end = begun + quorum.settings.max_ttl.duration();
            runtime.before(end, quorum.all_end(&mut calls)).await;
        }));
    }

    /// Resolves when all these calls have ended. Those that have ended are removed. One that panics is
    /// dropped, and the others go on.
    async fn all_end<T, F: FnMut(End<T>)>(&self, calls: &mut Vec<MemberCall<T, F>>) {
        poll_fn(|context| {
            calls.retain_mut(|call| {
                let polled = catch_unwind(AssertUnwindSafe(|| call.does.as_mut().poll(context)));
                let answer = match polled {
                    Ok(Poll::Pending) => return true,
                    Ok(Poll::Ready(answer)) => answer,
                    Err(_) => return false,
                };
                let (fault, votes) = (answer.as_ref().err().cloned(), (call.votes)(&answer));
                // The machine hears of a fault before the member counts as silent: nobody waits for
                // the answer of a silent member.
                call.has_ended = true;
                (call.tell)(End::Answer(answer));
                self.ended(call.member, fault.as_ref(), votes);
                false
            });
            if calls.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Asks all members the same, and waits until the result is decided, or each member has
    /// answered or exceeded `limit`. `enough` is checked after each answer.
    pub(super) async fn ask_all<T: Send + 'static, F: Asking<T>>(
        self: &Arc<Self>,
        limit: Duration,
        does: impl Fn(Arc<dyn Store>) -> F,
        mut enough: impl FnMut(usize, Result<T, Fault>) -> bool,
    ) {
        let (tell, mut heard) = unbounded_channel();
        let members = self.members.iter().enumerate();
        let call = |(n, member): (usize, &Member)| {
            MemberCall::new(n, |_| false, does(member.store.clone()), self.answers_to(n, &tell))
        };
        self.call_all(limit, members.map(call).collect());
        drop(tell);
        let mut waiting: Vec<_> = (0..self.members.len()).collect();
        while let Some((member, answer)) = heard.recv().await {
            waiting.retain(|waits| *waits != member);
            if enough(member, answer) || waiting.is_empty() {
                return;
            }
        }
    }

    /// Makes a change at all members, each in a task of its own, and waits for every answer. A majority
    /// is enough, but a request that follows could otherwise overtake this one at a slower member.
    pub(super) async fn change_all<F: Asking<HoldAnswer>>(
        self: &Arc<Self>,
        attempt: &Attempt,
        change: impl Fn(Arc<dyn Store>, Attempt) -> F,
    ) -> Ballot {
        let (shared, mut ballot) = (self.shared(attempt), Ballot::new(self.members.len()));
        let mut heard = self.in_tasks(|nth, member| {
            let there = attempt.at_member(shared.machine().holder(nth), self.proposal(Fence::MAX));
            let changing = change(member.store.clone(), there);
            let (quorum, attempt) = (self.clone(), attempt.clone());
            async move { quorum.in_time(nth, &attempt, changing).await }
        });
        while let Some((member, answer)) = heard.recv().await {
            ballot.handle(member, answer);
        }
        ballot
    }

    /// Runs this for each member in a separate task. The receiver gets each result with the number
    /// of the member.
    pub(super) fn in_tasks<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        does: impl Fn(usize, &Member) -> F,
    ) -> UnboundedReceiver<(usize, T)> {
        let (tell, heard) = unbounded_channel();
        for (nth, member) in self.members.iter().enumerate() {
            let (does, tell) = (does(nth, member), tell.clone());
            self.runtime.spawn(Box::pin(async move {
                // The caller may have gone.
                let _ = tell.send((nth, does.await));
            }));
        }
        heard
    }

    /// Sends what a member answers: a fault if it is late, and then perhaps the answer; or a fault if
    /// no answer can come.
    pub(super) fn answers_to<T>(
        &self,
        member: usize,
        tell: &UnboundedSender<MemberResult<T>>,
    ) -> impl FnMut(End<T>) + use<T> {
        let (tell, unanswered) = (tell.clone(), self.members[member].left_unanswered());
        move |end| {
            let answer = match end {
                End::Late(fault) => Err(fault),
                End::Answer(answer) => answer,
                End::Dropped => Err(unanswered.clone()),
            };
            // The caller may have gone.
            let _ = tell.send((member, answer));
        }
    }

    /// A member's answer, if it comes in time.
    pub(super) async fn in_time<T>(
        &self,
        member: usize,
        attempt: &Attempt,
        call: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let here = &self.members[member];
        let answer = self.runtime.within(Member::limit(attempt.ttl), call).await;
        let answer = answer.unwrap_or_else(|| Err(here.timed_out()));
        self.ended(member, answer.as_ref().err(), false);
        answer
    }
}

/// A call to a member. It may be dropped together with the async runtime when the program ends; then
/// a release that was answered before undoes nothing of this call.
pub(super) struct MemberCall<T, F: FnMut(End<T>)> {
    member: usize,
    /// Returns true if this is the answer to a request for the member's vote.
    votes: fn(&Result<T, Fault>) -> bool,
    does: StoreFuture<'static, T>,
    tell: F,
    has_ended: bool,
}

impl<T, F: FnMut(End<T>)> MemberCall<T, F> {
    pub(super) fn new(
        member: usize,
        votes: fn(&Result<T, Fault>) -> bool,
        does: impl Asking<T>,
        tell: F,
    ) -> Self {
        Self { member, votes, does: Box::pin(does), tell, has_ended: false }
    }
}

impl<T, F: FnMut(End<T>)> Drop for MemberCall<T, F> {
    fn drop(&mut self) {
        if !self.has_ended {
            (self.tell)(End::Dropped);
        }
    }
}

/// A call of a member's store, which may go on when nobody waits for it any more.
pub(super) trait Asking<T>: Future<Output = Result<T, Fault>> + Send + 'static {}

impl<T, F: Future<Output = Result<T, Fault>> + Send + 'static> Asking<T> for F {}

/// A member's answer or fault.
pub(super) type MemberResult<T> = (usize, Result<T, Fault>);
