//! Requests to members in batches: what many attempts ask of all members at the same time is sent
//! to each member at once.
//!
//! An attempt's first request for one key is in a batch, and its release. A member that does not
//! serve a request in a batch is asked again for it alone.

use std::future::{Pending, pending};
use std::sync::Arc;

use leasehold_core::{
    AskedInBatch, Asks, Attempt, BatchServed, Batched as _, BoxFuture, Fault, GrantAnswer, MOST_IN_BATCH,
    MemberAnswer, MemberStore, Question, SendBatch,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::attempts::SharedAttempt;
use super::batch_request::{Asker, Done, Request, Waiting};
use super::calls::MemberCall;
use super::member::{End, Member};
use super::state::QuorumState;

/// The future of a request in a batch. It never resolves, and sends the batch.
pub(super) type Sends = AskedInBatch<Waiting, Pending<()>>;

/// The grants of one attempt that several members may serve in a batch.
struct Grants {
    quorum: Arc<QuorumState>,
    shared: Arc<SharedAttempt>,
    /// One for each member.
    questions: Vec<Question>,
}

impl Asker for Grants {
    fn is_wanted(&self) -> bool {
        let machine = self.shared.machine();
        self.questions.iter().any(|question| machine.counts(question))
    }

    fn goes(self: Arc<Self>, there: &Attempt, member: usize, end: End<Done>) {
        let (quorum, shared) = (&self.quorum, &self.shared);
        let question = self.questions.iter().find(|question| question.member == member);
        let mut question = question.copied().expect("only these members are asked");
        let answer = match &end {
            End::Answer(Ok(Done::Granted(fence))) => GrantAnswer::Granted { fence: *fence },
            End::Answer(Ok(_)) if shared.machine().counts(&question) => {
                question.fence = there.proposal.map_or(question.fence, |proposal| proposal.fence);
                return quorum.ask(shared, there, question);
            }
            // Nobody wants the grant any more, or there is no answer.
            _ => GrantAnswer::Unfinished,
        };
        quorum.tell(shared, there, &question, end.with(MemberAnswer::Grant(answer)));
    }
}

/// Returns true if the member was asked for its vote. A batch does not say why it left a grant, so
/// only one that it served shows that the member votes.
fn votes(served: &Result<BatchServed, Fault>) -> bool {
    served.as_ref().map_or(true, |served| served.granted.iter().any(Option::is_some))
}

/// Sends a quorum's batches.
struct Sender(Arc<QuorumState>);

impl SendBatch<Waiting> for Sender {
    // Every member has to serve each batch, so that few large ones cost less than many small ones.
    const MOST_IN_FLIGHT: usize = 2;
    const UNDIVIDED: usize = MOST_IN_BATCH;

    fn send(&self, batch: Vec<Waiting>) -> BoxFuture<'static, ()> {
        let quorum = self.0.clone();
        Box::pin(async move {
            let mut batch: Vec<_> =
                batch.into_iter().filter_map(|mut waiting| waiting.request.take()).collect();
            propose_together(&mut batch);
            quorum.send_batch(batch.into()).await;
        })
    }

    /// No batch serves a key that turned out to be contended while the request waited.
    fn serves(&self) -> impl Fn(&Waiting) -> bool {
        |waiting| !self.0.contended.has(waiting.key, || self.0.runtime.now())
    }

    /// Asks each member alone, if anybody still waits.
    fn decline(&self, mut waiting: Waiting) {
        if waiting.is_wanted()
            && let Some(request) = waiting.request.take()
        {
            request.members.iter().for_each(|member| request.goes(*member, End::Answer(Ok(Done::Nothing))));
        }
    }
}

/// Proposes the greatest fence to all: so each member compares one with its clock, and answers one.
fn propose_together(batch: &mut [Request]) {
    let mut grants: Vec<_> = batch.iter_mut().filter(|request| request.is_grant).collect();
    let proposals = grants.iter().filter_map(|request| request.there.proposal);
    let greatest = proposals.max_by_key(|proposal| proposal.fence);
    grants.iter_mut().for_each(|request| request.there.proposal = greatest);
}

impl QuorumState {
    /// Returns true if a batch may serve the first request of an attempt, and its release. For a key
    /// that somebody waits for, that would be a command in vain.
    pub(super) fn serves_in_batch(&self, attempt: &Attempt) -> bool {
        let is_free = |key| !self.contended.has(self.contended.digest(key), || self.runtime.now());
        attempt.signal.is_none() && attempt.claim.exclusive_key().is_some_and(is_free)
    }

    pub(super) fn has_batches(&self, member: usize) -> bool {
        self.members[member].store.parts().member.is_some_and(MemberStore::serves_batches)
    }

    /// Returns true if this question may be in a batch together with these others, which propose the
    /// same fence.
    pub(super) fn shares_batch(&self, question: &Question, others: &[Question]) -> bool {
        matches!(question.asks, Asks::Grant(_))
            && others.iter().all(|other| other.holder == question.holder)
            && self.has_batches(question.member)
    }

    /// Asks members these questions in a batch, and passes their answers to the machine.
    pub(super) fn ask_together(
        self: &Arc<Self>,
        shared: &Arc<SharedAttempt>,
        attempt: &Attempt,
        questions: Vec<Question>,
    ) -> Option<Sends> {
        let first = questions.first()?;
        let there = attempt.at_member(first.holder, self.proposal(first.fence));
        let members = questions.iter().map(|question| question.member).collect();
        let asker = Arc::new(Grants { quorum: self.clone(), shared: shared.clone(), questions });
        Some(self.queue(Request { asker, there, members, is_grant: true }))
    }

    /// Sends a request to its members in the next batch.
    pub(super) fn queue(self: &Arc<Self>, request: Request) -> Sends {
        let there = &request.there;
        let (key, limit) = (self.contended.digest(there.claim.first_key()), Member::limit(there.ttl));
        let waiting = Waiting { key, limit, request: Some(request) };
        self.batches.ask(waiting, pending(), || Sender(self.clone()), &*self.runtime)
    }

    /// Sends a batch to the members. Resolves when so many have answered that, with all members that
    /// are not asked in the batch, they are a majority; and the queue member, for which the attempts
    /// wait, too. Nobody waits for a silent member. No lease depends on this.
    async fn send_batch(self: Arc<Self>, batch: Arc<[Request]>) {
        let (tell, mut heard) = unbounded_channel();
        let is_asked = |member: &usize| batch.iter().any(|request| request.members.contains(member));
        let asked: Vec<_> = (0..self.members.len()).filter(is_asked).collect();
        let Some(limit) = batch.first().map(|first| Member::limit(first.there.ttl)) else { return };
        let calls = asked.iter().map(|member| self.batch_call(*member, &batch, tell.clone()));
        self.call_all(limit, calls.collect());
        drop(tell);
        let queue_member = self.queue_member();
        let mut missing = self.majority().saturating_sub(self.members.len() - asked.len()).max(1);
        let mut is_awaited = asked.contains(&queue_member);
        while missing > 0 || is_awaited {
            tokio::select! {
                member = heard.recv() => match member {
                    Some(member) => {
                        missing = missing.saturating_sub(1);
                        is_awaited &= member != queue_member;
                    }
                    None => return,
                },
                () = self.members[queue_member].falls_silent(), if is_awaited => is_awaited = false,
            }
        }
    }

    /// The call of a member for all requests of the batch that are for it.
    fn batch_call(
        self: &Arc<Self>,
        member: usize,
        batch: &Arc<[Request]>,
        tell: UnboundedSender<usize>,
    ) -> MemberCall<BatchServed, impl FnMut(End<BatchServed>) + Send + 'static> {
        let does = {
            let (store, batch) = (self.members[member].store.clone(), batch.clone());
            async move {
                let (mut grants, mut releases) = (Vec::new(), Vec::new());
                for request in batch.iter().filter(|request| request.members.contains(&member)) {
                    if request.is_grant { &mut grants } else { &mut releases }.push(&request.there);
                }
                store.member()?.serve_batch(&grants, &releases).await
            }
        };
        let batch = batch.clone();
        // The effects may have to be released, so a program that ends waits for the answer.
        let mut unanswered = Some(self.releases.begin());
        MemberCall::new(member, votes, does, move |end| {
            let (mut granted, mut released) = match &end {
                End::Answer(Ok(BatchServed { granted, released })) => (granted.iter(), released.iter()),
                _ => Default::default(),
            };
            for request in batch.iter().filter(|request| request.members.contains(&member)) {
                let done = if request.is_grant {
                    granted.next().copied().flatten().map(Done::Granted)
                } else {
                    released.next().filter(|is_done| **is_done).map(|_| Done::Released)
                };
                request.goes(member, end.with(done.unwrap_or(Done::Nothing)));
            }
            drop(unanswered.take());
            // The queue may be gone.
            let _ = tell.send(member);
        })
    }
}
