//! Waiting in the members' queues.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold_core::{Attempt, BoxFuture, Fence, Wake};

use super::attempts::{QuorumAttempt, Stage};
use super::state::QuorumState;

/// The longest pause of rivals that have released everything: some round trips, so that one of them
/// can finish before the next asks.
pub(super) const APART: Duration = Duration::from_millis(100);

/// Resolves when the attempt should ask again.
///
/// Cancel safe: a member's wake-up is recorded before this resolves, and members keep wake-ups that
/// nobody has received.
pub(super) async fn woken(quorum: &Arc<QuorumState>, attempt: &Attempt) -> Wake {
    loop {
        let Some(QuorumAttempt { member_attempts, stage }) = quorum.quorum_attempts.find(attempt.holder)
        else {
            return std::future::pending().await;
        };
        let at =
            |member: usize| attempt.at_member(member_attempts[member].holder, quorum.proposal(Fence::MAX));
        match stage {
            Stage::Queued { line, .. } => {
                let (here, member) = (at(line), &quorum.members[line]);
                tokio::select! {
                    biased;
                    wake = member.store.woken(&here) => {
                        if let Wake::Granted { .. } = wake {
                            change(quorum, attempt, &stage, Stage::Handed { line });
                        }
                    }
                    () = member.falls_silent() => {}
                    () = quorum.loses_majority() => {}
                }
                return Wake::AskAgain;
            }
            Stage::Contested { ref refusers, until, .. } => {
                let there: Vec<_> = refusers.iter().map(|member| (*member, at(*member))).collect();
                let calls = there.iter().map(|(member, there)| quorum.members[*member].store.woken(there));
                tokio::select! {
                    biased;
                    _ = first_of(calls.collect()) => return Wake::AskAgain,
                    () = quorum.runtime.sleep_until(until) => {}
                }
                quorum.begin_anew(attempt);
                let until = quorum.runtime.now() + quorum.about(APART);
                change(quorum, attempt, &Stage::Fresh, Stage::Resting { until });
            }
            Stage::Resting { until } => {
                quorum.runtime.sleep_until(until).await;
                change(quorum, attempt, &stage, Stage::Fresh);
                return Wake::AskAgain;
            }
            Stage::Fresh | Stage::Handed { .. } | Stage::Held { .. } => return std::future::pending().await,
        }
    }
}

/// Moves to the next stage, unless the stage has changed in the meantime.
fn change(quorum: &QuorumState, attempt: &Attempt, from: &Stage, to: Stage) {
    quorum.quorum_attempts.with(attempt.holder, |quorum_attempt| {
        if quorum_attempt.stage == *from {
            quorum_attempt.stage = to;
        }
    });
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
