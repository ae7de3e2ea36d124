//! Renewing and releasing leases at the members.

use std::sync::Arc;

use leasehold_core::{Attempt, Ballot, BoxFuture, Fault, FaultKind, Fence, HoldAnswer, Store, Vote};
use tokio::sync::mpsc::unbounded_channel;

use super::asking::COURTESY;
use super::breaking;
use super::contest::{Contest, Stage, Stake};
use super::desk::Desk;

type Answer = Result<HoldAnswer, Fault>;

/// An attempt of a batch, with its ids at the members and its granted fence.
struct Kept<'a> {
    number: usize,
    attempt: &'a Attempt,
    stakes: Vec<Arc<Stake>>,
    fence: Option<Fence>,
}

impl<'a> Kept<'a> {
    fn find(desk: &Desk, number: usize, attempt: &'a Attempt) -> Self {
        let contest = desk.contests.find(attempt.holder);
        let contest = contest.unwrap_or_else(|| Contest::new(attempt, desk.members.len()));
        let fence = if let Stage::Held { fence } = contest.stage { Some(fence) } else { None };
        Self { number, attempt, stakes: contest.stakes, fence }
    }
}

/// Renews leases at all members. Each renewal counts only once a majority has answered this very
/// call, and the lease is lost as soon as so many members do not have it that no majority can. A
/// failed renewal releases nothing.
pub(super) async fn renew(desk: &Arc<Desk>, attempts: &[Attempt]) -> Vec<Answer> {
    // A lease that was not granted to this process is renewed where it exists, and taken again
    // nowhere.
    let (ours, others): (Vec<_>, Vec<_>) = attempts
        .iter()
        .enumerate()
        .map(|(n, attempt)| Kept::find(desk, n, attempt))
        .partition(|one| one.fence.is_some());
    let (rejoined, renewed) = tokio::join!(hold(desk, &ours, true), hold(desk, &others, false));
    let mut answers: Vec<_> = rejoined.into_iter().chain(renewed).collect();
    answers.sort_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

async fn hold(desk: &Arc<Desk>, batch: &[Kept<'_>], rejoins: bool) -> Vec<(usize, Answer)> {
    let mut ballots: Vec<_> = batch.iter().map(|_| Ballot::new(desk.members.len())).collect();
    let (tell, mut heard) = unbounded_channel();
    for (n, member) in desk.members.iter().enumerate().filter(|_| !batch.is_empty()) {
        let here = |one: &Kept<'_>| {
            one.attempt.at_member(one.stakes[n].holder, desk.proposal(one.fence.unwrap_or(Fence::MAX)))
        };
        let there: Vec<_> = batch.iter().map(|one| (here(one), one.stakes[n].clone())).collect();
        let store = member.store.clone();
        let does: BoxFuture<'static, Result<Vec<Answer>, Fault>> = Box::pin(async move {
            let answers = keep_at(&*store, there, rejoins).await;
            // A member that answers only with faults counts as silent.
            match answers.iter().find_map(|answer| answer.as_ref().err()) {
                Some(fault) if answers.iter().all(Result::is_err) => Err(fault.clone()),
                _ => Ok(answers),
            }
        });
        let stakes = batch.iter().map(|one| (one.attempt.clone(), one.stakes[n].clone())).collect();
        desk.call(stakes, n, does, &tell);
    }
    drop(tell);
    while ballots.iter().any(|ballot| ballot.vote() == Vote::Open) {
        let Some((member, answers)) = heard.recv().await.map(|said| *said) else { break };
        let answers = answers.unwrap_or_else(|fault| vec![Err(fault); batch.len()]);
        for (ballot, answer) in ballots.iter_mut().zip(answers) {
            ballot.handle(member, answer);
        }
    }
    let answer = |(one, ballot): (&Kept<'_>, &Ballot)| (one.number, desk.verdict(ballot, "renewed"));
    batch.iter().zip(&ballots).map(answer).collect()
}

/// Renews leases at a member and, where allowed, lets the member take those again that it does not
/// have.
async fn keep_at(store: &dyn Store, there: Vec<(Attempt, Arc<Stake>)>, rejoins: bool) -> Vec<Answer> {
    let mut may_rejoin = Vec::new();
    for (attempt, stake) in &there {
        let agreed = attempt.proposal.map_or(Fence::MAX, |proposal| proposal.fence);
        may_rejoin.push(
            rejoins && stake.may_rejoin() && breaking::is_unbroken(store, attempt, stake, agreed).await,
        );
    }
    let rumours: Vec<_> = there.iter().map(|(_, stake)| stake.rumours()).collect();
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
    let answers = there.iter().zip(may_rejoin).zip(rumours).map(|(((_, stake), may), rumours)| {
        let answer = if may { rejoined.next() } else { renewed.next() };
        let answer =
            answer.unwrap_or_else(|| Err(Fault::passing(store.name(), "it left a renewal unanswered")));
        let has_it = matches!(answer, Ok(HoldAnswer::Done));
        stake.says(has_it);
        if has_it {
            stake.denies(rumours);
        }
        answer
    });
    answers.collect()
}

/// Releases at all members, whatever they answered before, and returns the majority's answer. If a
/// member does not answer, its release continues in the background.
pub(super) async fn release(desk: &Arc<Desk>, attempt: &Attempt) -> Answer {
    let stakes = desk.contests.enter(attempt, desk.members.len(), |contest| contest.stakes.clone());
    let mut ballot = Ballot::new(desk.members.len());
    let (tell, mut heard) = unbounded_channel();
    for stake in stakes {
        stake.lets_go();
        let (desk, attempt, tell) = (desk.clone(), attempt.clone(), tell.clone());
        let (runtime, mut first) = (desk.runtime.clone(), Some(desk.releases.begin()));
        runtime.spawn_cleanup(Box::new(move || {
            let (desk, attempt, stake, tell) = (desk.clone(), attempt.clone(), stake.clone(), tell.clone());
            let unheard = first.take().unwrap_or_else(|| desk.releases.begin());
            Box::pin(async move {
                let there = attempt.at_member(stake.holder, desk.proposal(Fence::MAX));
                let release = desk.members[stake.member].store.release(&there);
                let answer = desk.in_time(stake.member, &attempt, release).await;
                let faulted = answer.is_err();
                let unsettled = stake.let_go(matches!(answer, Ok(HoldAnswer::Done)));
                // The caller may have gone.
                let _ = tell.send(Box::new((stake.member, answer)));
                if faulted || unsettled {
                    desk.undo(attempt, stake, None, unsettled.then_some(unheard));
                }
            })
        }));
    }
    drop(tell);
    // The next requester is refused until the line member knows of the release, so wait for its
    // answer, as a grant does.
    let line = desk.line_member();
    let mut line_heard = false;
    let mut courtesy = desk.runtime.sleep_until(desk.runtime.now() + COURTESY);
    loop {
        let decided = ballot.vote() != Vote::Open;
        if decided && (line_heard || desk.members[line].is_silent()) {
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
    let answer = desk.verdict(&ballot, "released");
    if answer.is_ok() {
        desk.contests.remove(attempt.holder);
    }
    answer
}

/// Gives up everything that the attempt has, or may still be granted. Resolves when that is done at
/// all members that answer, and at a majority at least; for the silent ones it continues in the
/// background.
pub(super) async fn give_up(desk: &Arc<Desk>, attempt: &Attempt) -> Result<(), Fault> {
    let contest = desk.contests.remove(attempt.holder);
    let contest = contest.unwrap_or_else(|| Contest::new(attempt, desk.members.len()));
    let mut ballot = Ballot::new(desk.members.len());
    let mut unheard: Vec<_> = (0..desk.members.len()).collect();
    let (tell, mut heard) = unbounded_channel();
    for stake in contest.stakes {
        stake.gives_up();
        desk.undo(attempt.clone(), stake, Some(tell.clone()), Some(desk.releases.begin()));
    }
    drop(tell);
    while !unheard.is_empty() || ballot.vote() != Vote::Done {
        let Some((member, answer)) = heard.recv().await.map(|said| *said) else { break };
        unheard.retain(|waits| *waits != member);
        ballot.handle(member, answer.map(|()| HoldAnswer::Done));
    }
    desk.verdict(&ballot, "released").map(drop)
}

impl Desk {
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
