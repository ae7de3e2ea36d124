//! What was done, as a majority of the members remembers it.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Attempt, Ballot, BoxFuture, Fault, Fence, HoldAnswer, Key, Mark, Marked, Stamp, Store};
use tokio::sync::mpsc::unbounded_channel;

use super::contest::Contest;
use super::desk::Desk;
use super::looking::all_say;

/// Marks the keys at all members, and says what a majority said: whoever reads from a majority then finds it.
pub(super) async fn mark(
    desk: &Arc<Desk>,
    attempt: &Attempt,
    mark: &Mark,
    keep: Duration,
) -> Result<HoldAnswer, Fault> {
    let contest = desk.contests.find(attempt.holder);
    let contest = contest.unwrap_or_else(|| Contest::new(attempt, desk.members.len()));
    let mut ballot = Ballot::new(desk.members.len());
    let (tell, mut heard) = unbounded_channel();
    for stake in contest.stakes {
        let (desk, attempt, mark, tell) = (desk.clone(), attempt.clone(), mark.clone(), tell.clone());
        let runtime = desk.runtime.clone();
        runtime.spawn(Box::pin(async move {
            let there = attempt.at_member(stake.holder, desk.proposal(Fence::MAX));
            let does = async { desk.members[stake.member].store.marks()?.mark(&there, &mark, keep).await };
            let answer = desk.in_time(stake.member, &attempt, does).await;
            // Whoever asked may have gone.
            let _ = tell.send((stake.member, answer));
        }));
    }
    drop(tell);
    // A majority is enough, but a member that was only slower is waited for: the release that comes next could overtake its mark, and
    // then fewer would remember it than could.
    while let Some((member, answer)) = heard.recv().await {
        ballot.handle(member, answer);
    }
    desk.verdict(&ballot, "marked")
}

/// The latest mark that a majority of the members has between them. A member that was started without its state has none, so a mark
/// outlasts what a majority of the members outlasts.
pub(super) async fn marked(desk: &Arc<Desk>, key: &Key) -> Result<Marked, Fault> {
    let look = |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
        let key = key.clone();
        Box::pin(async move { store.marks()?.marked(&key).await })
    };
    let answers = all_say(desk, desk.look_limit(), look).await?;
    // A clock of a minority that is far ahead must not make everything due, nor one that is far behind nothing.
    let mut clocks: Vec<Stamp> = answers.iter().map(|answer| answer.now).collect();
    clocks.sort_unstable();
    let now = clocks[clocks.len() / 2];
    let mark = answers.into_iter().filter_map(|answer| answer.mark).max_by_key(|mark| (mark.at, mark.fence));
    Ok(Marked { mark, now })
}
