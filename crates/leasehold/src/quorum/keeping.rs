//! Renewing leases at the members.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold_core::{
    Attempt, Ballot, BoxFuture, Fault, Fence, HoldAnswer, MemberRenewal, QuorumReport, Rejoin, Store, Vote,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::attempts::SharedAttempt;
use super::member::{End, Member};
use super::state::QuorumState;

type Answer = Result<HoldAnswer, Fault>;

/// A renewal at one member.
#[derive(Debug)]
pub(super) struct Kept {
    /// Its number in the batch.
    nth: usize,
    pub(super) shared: Arc<SharedAttempt>,
    pub(super) renewal: MemberRenewal,
    /// The attempt as the member knows it.
    pub(super) attempt: Attempt,
}

/// Renews leases at all members. Each renewal counts only once a majority has answered this very
/// call, and the lease is lost as soon as so many members do not have it that no majority can. A
/// failed renewal releases nothing.
pub(super) async fn renew(quorum: &Arc<QuorumState>, attempts: &[Attempt]) -> Vec<Answer> {
    let mut ballots: Vec<_> = attempts.iter().map(|_| Ballot::new(quorum.members.len())).collect();
    let Some(shortest) = attempts.iter().map(|attempt| attempt.ttl).min() else { return Vec::new() };
    let limit = Member::limit(shortest);
    let shared: Vec<_> = attempts.iter().map(|attempt| quorum.shared(attempt)).collect();
    let (tell, mut heard) = unbounded_channel();
    for member in 0..quorum.members.len() {
        let kept = attempts.iter().zip(&shared).enumerate().map(|(nth, (attempt, shared))| {
            let renewal = shared.machine().renew(member);
            let proposal = quorum.proposal(renewal.fence.unwrap_or(Fence::MAX));
            let attempt = attempt.at_member(renewal.holder, proposal);
            Kept { nth, shared: shared.clone(), attempt, renewal }
        });
        // Reading the record of a lease in doubt takes a call more. The others need not wait for it.
        let (in_doubt, others): (Vec<_>, Vec<_>) =
            kept.partition(|one| one.renewal.rejoin == Rejoin::UnlessBroken);
        let groups = [(others.is_empty(), in_doubt), (true, others)];
        for (shows_silence, kept) in groups.into_iter().filter(|(_, kept)| !kept.is_empty()) {
            keep(quorum, member, kept.into(), shows_silence, limit, tell.clone());
        }
    }
    drop(tell);
    while ballots.iter().any(|ballot| ballot.vote() == Vote::Open) {
        let Some((member, answers)) = heard.recv().await else { break };
        for (nth, answer) in answers {
            ballots[nth].handle(member, answer);
        }
    }
    let verdicts = attempts.iter().zip(&ballots);
    verdicts.map(|(attempt, ballot)| quorum.verdict_on(attempt, ballot, "renewed")).collect()
}

/// Renews leases at a member in a separate task. `tell` gets the answers, or faults if they are late,
/// and then perhaps the answers.
fn keep(
    quorum: &Arc<QuorumState>,
    member: usize,
    kept: Arc<[Kept]>,
    shows_silence: bool,
    limit: Duration,
    tell: UnboundedSender<(usize, Vec<(usize, Answer)>)>,
) {
    let does = {
        let (quorum, kept) = (quorum.clone(), kept.clone());
        async move {
            let answers = keep_at(&quorum, member, &kept).await;
            // A member that answers only with faults counts as silent.
            match answers.iter().find_map(|answer| answer.as_ref().err()) {
                Some(fault) if shows_silence && answers.iter().all(Result::is_err) => Err(fault.clone()),
                _ => Ok(answers),
            }
        }
    };
    let here = quorum.clone();
    // A lease that a renewal takes again may have to be released, so a program that ends waits
    // for it.
    let mut unanswered = Some(quorum.releases.begin());
    quorum.call(
        limit,
        member,
        |_| true,
        does,
        move |end| {
            let answers = kept.iter().enumerate().map(|(n, one)| {
                let answer = match &end {
                    End::Answer(Ok(answers)) => answers[n].clone(),
                    End::Late(fault) | End::Answer(Err(fault)) => Err(fault.clone()),
                    End::Dropped => Err(here.members[member].left_unanswered()),
                };
                here.with(&one.shared, &one.attempt, |machine| match &end {
                    End::Late(_) => {}
                    End::Answer(_) => machine.handle_renewed(member, &one.renewal, &answer),
                    End::Dropped => machine.handle_dropped(member, one.renewal.holder),
                });
                (one.nth, answer)
            });
            // The caller may have gone.
            let _ = tell.send((member, answers.collect()));
            drop(unanswered.take());
        },
    );
}

/// Renews leases at a member and, where allowed, lets the member take those again that it does not
/// have.
async fn keep_at(quorum: &QuorumState, member: usize, kept: &[Kept]) -> Vec<Answer> {
    let store = &*quorum.members[member].store;
    let (mut rejoins, mut rejoined, mut renewed) = (Vec::new(), Vec::new(), Vec::new());
    let in_doubt = kept.iter().filter(|one| one.renewal.rejoin == Rejoin::UnlessBroken);
    let records = in_doubt.map(|one| -> BoxFuture<'_, bool> { Box::pin(is_unbroken(store, member, one)) });
    let mut unbroken = all_of(records.collect()).await.into_iter();
    for one in kept {
        let may_rejoin = match one.renewal.rejoin {
            Rejoin::No => false,
            Rejoin::Yes => true,
            Rejoin::UnlessBroken => unbroken.next() == Some(true),
        };
        rejoins.push(may_rejoin);
        if may_rejoin { &mut rejoined } else { &mut renewed }.push(one.attempt.clone());
    }
    let (rejoined, renewed) = tokio::join!(
        async {
            match store.member() {
                _ if rejoined.is_empty() => Vec::new(),
                Ok(member) => member.rejoin(&rejoined).await,
                Err(fault) => vec![Err(fault); rejoined.len()],
            }
        },
        async { if renewed.is_empty() { Vec::new() } else { store.renew(&renewed).await } },
    );
    let (mut rejoined, mut renewed) = (rejoined.into_iter(), renewed.into_iter());
    let answers = rejoins.into_iter().map(|rejoins| {
        let answer = if rejoins { rejoined.next() } else { renewed.next() };
        answer.unwrap_or_else(|| Err(Fault::passing(store.name(), "it left a renewal unanswered")))
    });
    answers.collect()
}

/// The results of all these futures, in their order.
async fn all_of<T>(mut futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut results: Vec<_> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, result) in futures.iter_mut().zip(&mut results) {
            if result.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *result = Some(ready);
            }
        }
        if results.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    results.into_iter().flatten().collect()
}

/// Returns true if the member may take a lease again that it had, because its record of breaks does not
/// say that somebody broke it there. If the record cannot be read, it may not. A store that breaks no
/// leases has no records.
async fn is_unbroken(store: &dyn Store, member: usize, kept: &Kept) -> bool {
    let mut last = None;
    if let Some(admin) = store.parts().admin {
        for key in kept.attempt.claim.keys() {
            match admin.last_break(key).await {
                Ok(record) => last = last.max(record.map(|record| record.fence)),
                Err(_) => return false,
            }
        }
    }
    kept.shared.machine().handle_last_break(member, &kept.renewal, last)
}

impl QuorumState {
    /// The result of a count.
    pub(super) fn verdict(&self, ballot: &Ballot, verb: &'static str) -> Answer {
        match ballot.vote() {
            Vote::Done => Ok(HoldAnswer::Done),
            Vote::NotHeld { key, held_by } => Ok(HoldAnswer::NotHeld { key, held_by }),
            Vote::Open | Vote::Unknown => Err(self.fault(ballot.is_hopeless(), self.votes_in(ballot, verb))),
        }
    }

    /// The same for a request of this attempt; notes the votes if they say that it is not held.
    pub(super) fn verdict_on(&self, attempt: &Attempt, ballot: &Ballot, verb: &'static str) -> Answer {
        // By now each member that answered has said which server it is.
        if let Some(fault) = self.same_place_twice() {
            return Err(fault);
        }
        let answer = self.verdict(ballot, verb);
        if let Ok(HoldAnswer::NotHeld { .. }) = answer {
            self.note_votes(attempt, self.votes_in(ballot, verb));
        }
        answer
    }

    pub(super) fn votes_in(&self, ballot: &Ballot, verb: &'static str) -> QuorumReport {
        ballot.quorum_report(self.settings.members.iter().cloned(), verb)
    }
}
