//! One request of the driver to a quorum: makes the calls that the attempt's machine asks for, or waits
//! in the members' queues.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use leasehold_core::{
    Asks, Attempt, BoxFuture, Fault, Fence, GrantAnswer, Holder, Instant, MemberAnswer, Question,
    QuorumAttempt, QuorumStep, QuorumWait, RaiseAnswer, WaitMode, Wake,
};

use super::attempts::SharedAttempt;
use super::batching::Sends;
use super::member::{End, Member};
use super::state::QuorumState;

/// Requests a grant for an attempt.
pub(super) async fn grant(
    quorum: &Arc<QuorumState>,
    attempt: &Attempt,
    wait_mode: WaitMode,
) -> Result<GrantAnswer, Fault> {
    let shared = quorum.enter(attempt, |machine| machine.ask(attempt, wait_mode, &quorum.view()));
    let in_batches = quorum.serves_in_batch(attempt);
    // The questions for the next batch, and what sends the last one.
    let (mut together, mut sends) = (Vec::new(), None);
    // The last timer, which is mostly reused for several answers with the same time limit.
    let mut timer: Option<(Instant, BoxFuture<'static, ()>)> = None;
    let answer = loop {
        let step = quorum.with(&shared, attempt, |machine| machine.next(&quorum.view()));
        if !matches!(step, QuorumStep::Ask(_)) && !together.is_empty() {
            sends = quorum.ask_together(&shared, attempt, std::mem::take(&mut together));
        }
        match step {
            QuorumStep::Ask(question) if in_batches && quorum.shares_batch(&question, &together) => {
                together.push(question);
            }
            QuorumStep::Ask(question) => quorum.ask(&shared, attempt, question),
            QuorumStep::Silent { member } => quorum.note(member, true),
            QuorumStep::WaitUntil(at) => {
                let last = timer.take().filter(|(until, _)| *until == at);
                let (_, rings) = timer.insert(last.unwrap_or_else(|| (at, quorum.runtime.sleep_until(at))));
                tokio::select! {
                    biased;
                    () = shared.heard.notified() => {}
                    () = rings => timer = None,
                    () = sent(&mut sends) => {}
                }
            }
            QuorumStep::Refused { answer, votes } => {
                quorum.note_refused(attempt);
                // A try is forgotten once nothing of it is left; an attempt that waits is not.
                if wait_mode == WaitMode::Try {
                    quorum.note_votes(attempt, votes);
                } else {
                    shared.note_votes(votes);
                }
                break Ok(answer);
            }
            QuorumStep::Done(answer) => {
                if matches!(answer, Ok(GrantAnswer::Granted { .. })) {
                    shared.take_votes();
                }
                break answer;
            }
        }
    };
    // By now each member that answered has said which server it is.
    match quorum.same_place_twice() {
        Some(fault) => {
            quorum.with(&shared, attempt, QuorumAttempt::quit);
            Err(fault)
        }
        None => answer,
    }
}

/// Sends a batch as long as this is polled.
async fn sent(sends: &mut Option<Sends>) {
    match sends {
        Some(sends) => sends.await,
        None => pending().await,
    }
}

impl QuorumState {
    /// Asks a member in a separate task, and passes its answer to the machine.
    pub(super) fn ask(self: &Arc<Self>, shared: &Arc<SharedAttempt>, attempt: &Attempt, question: Question) {
        let store = self.members[question.member].store.clone();
        let there = attempt.at_member(question.holder, self.proposal(question.fence));
        let does = async move {
            match question.asks {
                Asks::Grant(wait_mode) => store.grant(&there, wait_mode).await.map(MemberAnswer::Grant),
                Asks::Raise => store.member()?.raise(&there).await.map(MemberAnswer::Raise),
            }
        };
        let (quorum, shared, attempt) = (self.clone(), shared.clone(), attempt.clone());
        let limit = Member::limit(attempt.ttl);
        // The call's effects may have to be released, so a program that ends waits for its answer.
        let mut unanswered = Some(self.releases.begin());
        self.call(
            limit,
            question.member,
            |_| true,
            does,
            move |end| {
                quorum.tell(&shared, &attempt, &question, end);
                drop(unanswered.take());
            },
        );
    }

    /// Passes how a question goes to the machine, and wakes its request if it can go on.
    pub(super) fn tell(
        self: &Arc<Self>,
        shared: &Arc<SharedAttempt>,
        attempt: &Attempt,
        question: &Question,
        end: End<MemberAnswer>,
    ) {
        if let End::Answer(Ok(
            MemberAnswer::Grant(GrantAnswer::Granted { fence })
            | MemberAnswer::Raise(RaiseAnswer::Raised { fence }),
        )) = &end
        {
            self.sees(*fence);
        }
        let is_open = self.with(shared, attempt, |machine| {
            match end {
                End::Late(fault) => machine.handle_late(question, fault),
                End::Answer(answer) => machine.handle_answer(question, answer),
                End::Dropped => {
                    machine.handle_answer(question, Err(self.members[question.member].left_unanswered()));
                }
            }
            machine.is_open()
        });
        if !is_open {
            shared.heard.notify_one();
        }
    }
}

/// Resolves when the attempt should ask again.
///
/// Cancel safe: a member's wake-up is recorded before this resolves, and members keep wake-ups that
/// nobody has received.
pub(super) async fn woken(quorum: &Arc<QuorumState>, attempt: &Attempt) -> Wake {
    let Some(shared) = quorum.attempts.find(attempt.holder) else { return pending().await };
    let at = |holder: Holder| attempt.at_member(holder, quorum.proposal(Fence::MAX));
    loop {
        let wait = shared.machine().waits();
        match wait {
            QuorumWait::AtQueueMember { member, holder } => {
                let (here, there) = (at(holder), &quorum.members[member]);
                tokio::select! {
                    biased;
                    wake = there.store.woken(&here) => shared.machine().handle_wake(member, wake),
                    () = there.falls_silent() => {}
                    () = quorum.loses_majority() => {}
                }
                return Wake::AskAgain;
            }
            QuorumWait::AtRefusers { members, until } => {
                let there: Vec<_> = members.iter().map(|(member, holder)| (*member, at(*holder))).collect();
                let calls = there.iter().map(|(member, there)| quorum.members[*member].store.woken(there));
                tokio::select! {
                    biased;
                    _ = first_of(calls.collect()) => return Wake::AskAgain,
                    () = quorum.runtime.sleep_until(until) => {}
                }
            }
            QuorumWait::Until(at) => quorum.runtime.sleep_until(at).await,
            QuorumWait::Nothing => return pending().await,
        }
        if quorum.with(&shared, attempt, |machine| machine.handle_time(&quorum.view())) {
            return Wake::AskAgain;
        }
    }
}

/// The result of the first future that is ready.
async fn first_of<T>(mut futures: Vec<BoxFuture<'_, T>>) -> T {
    poll_fn(|context| {
        for future in &mut futures {
            if let Poll::Ready(done) = future.as_mut().poll(context) {
                return Poll::Ready(done);
            }
        }
        Poll::Pending
    })
    .await
}
