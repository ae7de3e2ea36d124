//! Renewing and releasing leases at the members.

use std::sync::Arc;

use leasehold_core::{Attempt, Ballot, BoxFuture, Fault, FaultKind, Fence, HoldAnswer, Store, Vote};
use tokio::sync::mpsc::unbounded_channel;

use super::asking::COURTESY;
use super::attempts::{MemberAttempt, QuorumAttempt, Stage};
use super::breaking;
use super::state::QuorumState;

type Answer = Result<HoldAnswer, Fault>;

/// An attempt of a batch, with its ids at the members and its granted fence.
struct Kept<'a> {
    number: usize,
    attempt: &'a Attempt,
    member_attempts: Vec<Arc<MemberAttempt>>,
    fence: Option<Fence>,
}

impl<'a> Kept<'a> {
    fn find(quorum: &QuorumState, number: usize, attempt: &'a Attempt) -> Self {
        let quorum_attempt = quorum.quorum_attempts.find(attempt.holder);
        let quorum_attempt =
            quorum_attempt.unwrap_or_else(|| QuorumAttempt::new(attempt, quorum.members.len()));
        let fence = if let Stage::Held { fence } = quorum_attempt.stage { Some(fence) } else { None };
        Self { number, attempt, member_attempts: quorum_attempt.member_attempts, fence }
    }
}

/// Renews leases at all members. Each renewal counts only once a majority has answered this very
/// call, and the lease is lost as soon as so many members do not have it that no majority can. A
/// failed renewal releases nothing.
pub(super) async fn renew(quorum: &Arc<QuorumState>, attempts: &[Attempt]) -> Vec<Answer> {
    // A lease that was not granted to this process is renewed where it exists, and taken again
    // nowhere.
    let (ours, others): (Vec<_>, Vec<_>) = attempts
        .iter()
        .enumerate()
        .map(|(n, attempt)| Kept::find(quorum, n, attempt))
        .partition(|one| one.fence.is_some());
    let (rejoined, renewed) = tokio::join!(hold(quorum, &ours, true), hold(quorum, &others, false));
    let mut answers: Vec<_> = rejoined.into_iter().chain(renewed).collect();
    answers.sort_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

async fn hold(quorum: &Arc<QuorumState>, batch: &[Kept<'_>], rejoins: bool) -> Vec<(usize, Answer)> {
    let mut ballots: Vec<_> = batch.iter().map(|_| Ballot::new(quorum.members.len())).collect();
    let (tell, mut heard) = unbounded_channel();
    for (n, member) in quorum.members.iter().enumerate().filter(|_| !batch.is_empty()) {
        let here = |one: &Kept<'_>| {
            one.attempt
                .at_member(one.member_attempts[n].holder, quorum.proposal(one.fence.unwrap_or(Fence::MAX)))
        };
        let there: Vec<_> = batch.iter().map(|one| (here(one), one.member_attempts[n].clone())).collect();
        let store = member.store.clone();
        let does: BoxFuture<'static, Result<Vec<Answer>, Fault>> = Box::pin(async move {
            let answers = keep_at(&*store, there, rejoins).await;
            // A member that answers only with faults counts as silent.
            match answers.iter().find_map(|answer| answer.as_ref().err()) {
                Some(fault) if answers.iter().all(Result::is_err) => Err(fault.clone()),
                _ => Ok(answers),
            }
        });
        let member_attempts =
            batch.iter().map(|one| (one.attempt.clone(), one.member_attempts[n].clone())).collect();
        quorum.call(member_attempts, n, does, &tell);
    }
    drop(tell);
    while ballots.iter().any(|ballot| ballot.vote() == Vote::Open) {
        let Some((member, answers)) = heard.recv().await.map(|said| *said) else { break };
        let answers = answers.unwrap_or_else(|fault| vec![Err(fault); batch.len()]);
        for (ballot, answer) in ballots.iter_mut().zip(answers) {
            ballot.handle(member, answer);
        }
    }
    let answer = |(one, ballot): (&Kept<'_>, &Ballot)| (one.number, quorum.verdict(ballot, "renewed"));
    batch.iter().zip(&ballots).map(answer).collect()
}

/// Renews leases at a member and, where allowed, lets the member take those again that it does not
/// have.
async fn keep_at(store: &dyn Store, there: Vec<(Attempt, Arc<MemberAttempt>)>, rejoins: bool) -> Vec<Answer> {
    let mut may_rejoin = Vec::new();
    for (attempt, member_attempt) in &there {
        let agreed = attempt.proposal.map_or(Fence::MAX, |proposal| proposal.fence);
        may_rejoin.push(
            rejoins
                && member_attempt.may_rejoin()
                && breaking::is_unbroken(store, attempt, member_attempt, agreed).await,
        );
    }
    let rumours: Vec<_> = there.iter().map(|(_, member_attempt)| member_attempt.rumours()).collect();
    let those = |which: bool| {
        let chosen = there.iter().zip(&may_rejoin).filter(move |(_, may)| **may == which);
        chosen.map(|((attempt, _), _)| attempt.clone()).collect::<Vec<_>>()
    };
    let (rejoined, renewed) = (those(true), those(false));
    let rejoin = async |attempts: &[Attempt]| match store.member() {
        Ok(member) => member.rejoin(attempts).await,
        Err(fault) => vec![Err(fault); attempts.len()],
    };
    let (rejoined, renewed) = tokio::join!(
        async { if rejoined.is_empty() { Vec::new() } else { rejoin(&rejoined).await } },
        async { if renewed.is_empty() { Vec::new() } else { store.renew(&renewed).await } },
    );
    let (mut rejoined, mut renewed) = (rejoined.into_iter(), renewed.into_iter());
    let answers = there.iter().zip(may_rejoin).zip(rumours).map(|(((_, member_attempt), may), rumours)| {
        let answer = if may { rejoined.next() } else { renewed.next() };
        let answer =
            answer.unwrap_or_else(|| Err(Fault::passing(store.name(), "it left a renewal unanswered")));
        let has_it = matches!(answer, Ok(HoldAnswer::Done));
        member_attempt.says(has_it);
        if has_it {
            member_attempt.denies(rumours);
        }
        answer
    });
    answers.collect()
}

/// Releases at all members, whatever they answered before, and returns the majority's answer. If a
/// member does not answer, its release continues in the background.
pub(super) async fn release(quorum: &Arc<QuorumState>, attempt: &Attempt) -> Answer {
    let member_attempts = quorum
        .quorum_attempts
        .enter(attempt, quorum.members.len(), |quorum_attempt| quorum_attempt.member_attempts.clone());
    let mut ballot = Ballot::new(quorum.members.len());
    let (tell, mut heard) = unbounded_channel();
    for member_attempt in member_attempts {
        member_attempt.lets_go();
        let (quorum, attempt, tell) = (quorum.clone(), attempt.clone(), tell.clone());
        let (runtime, mut first) = (quorum.runtime.clone(), Some(quorum.releases.begin()));
        runtime.spawn_cleanup(Box::new(move || {
            let (quorum, attempt, member_attempt, tell) =
                (quorum.clone(), attempt.clone(), member_attempt.clone(), tell.clone());
            let unheard = first.take().unwrap_or_else(|| quorum.releases.begin());
            Box::pin(async move {
                let there = attempt.at_member(member_attempt.holder, quorum.proposal(Fence::MAX));
                let release = quorum.members[member_attempt.member].store.release(&there);
                let answer = quorum.in_time(member_attempt.member, &attempt, release).await;
                let faulted = answer.is_err();
                let unsettled = member_attempt.let_go(matches!(answer, Ok(HoldAnswer::Done)));
                // The caller may have gone.
                let _ = tell.send(Box::new((member_attempt.member, answer)));
                if faulted || unsettled {
                    quorum.undo(attempt, member_attempt, None, unsettled.then_some(unheard));
                }
            })
        }));
    }
    drop(tell);
    // The next requester is refused until the line member knows of the release, so wait for its
    // answer, as a grant does.
    let line = quorum.line_member();
    let mut line_heard = false;
    let mut courtesy = quorum.runtime.sleep_until(quorum.runtime.now() + COURTESY);
    loop {
        let decided = ballot.vote() != Vote::Open;
        if decided && (line_heard || quorum.members[line].is_silent()) {
            break;
        }
        let heard = tokio::select! {
            biased;
            heard = heard.recv() => heard,
            () = &mut courtesy, if decided => None,
        };
        let Some((member, answer)) = heard.map(|said| *said) else { break };
        line_heard |= member == line;
        ballot.handle(member, answer);
    }
    let answer = quorum.verdict(&ballot, "released");
    if answer.is_ok() {
        quorum.quorum_attempts.remove(attempt.holder);
    }
    answer
}

/// Gives up everything that the attempt has, or may still be granted. Resolves when that is done at
/// all members that answer, and at a majority at least; for the silent ones it continues in the
/// background.
pub(super) async fn give_up(quorum: &Arc<QuorumState>, attempt: &Attempt) -> Result<(), Fault> {
    let quorum_attempt = quorum.quorum_attempts.remove(attempt.holder);
    let quorum_attempt = quorum_attempt.unwrap_or_else(|| QuorumAttempt::new(attempt, quorum.members.len()));
    let mut ballot = Ballot::new(quorum.members.len());
    let mut unheard: Vec<_> = (0..quorum.members.len()).collect();
    let (tell, mut heard) = unbounded_channel();
    for member_attempt in quorum_attempt.member_attempts {
        member_attempt.gives_up();
        quorum.undo(attempt.clone(), member_attempt, Some(tell.clone()), Some(quorum.releases.begin()));
    }
    drop(tell);
    while !unheard.is_empty() || ballot.vote() != Vote::Done {
        let Some((member, answer)) = heard.recv().await.map(|said| *said) else { break };
        unheard.retain(|waits| *waits != member);
        ballot.handle(member, answer.map(|()| HoldAnswer::Done));
    }
    quorum.verdict(&ballot, "released").map(drop)
}

impl QuorumState {
    /// The result of a count.
    pub(super) fn verdict(&self, ballot: &Ballot, verb: &'static str) -> Answer {
        match ballot.vote() {
            Vote::Done => Ok(HoldAnswer::Done),
            Vote::NotHeld { key, held_by } => Ok(HoldAnswer::NotHeld { key, held_by }),
            Vote::Open | Vote::Unknown => {
                Err(self.fault(FaultKind::Passing, ballot.quorum_report(self.names(), verb)))
            }
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
        let limit = self.runtime.now() + super::member::Member::limit(attempt.ttl);
        let answer = tokio::select! {
            biased;
            answer = call => answer,
            () = self.runtime.sleep_until(limit) => Err(here.timed_out()),
        };
        self.ended(member, answer.as_ref().err());
        answer
    }
}
