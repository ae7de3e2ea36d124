//! Waiting in the members' queues.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use leasehold_core::{Attempt, BoxFuture, Fence, Holder, QuorumWait, Wake};

use super::state::QuorumState;

/// Resolves when the attempt should ask again.
///
/// Cancel safe: a member's wake-up is recorded before this resolves, and members keep wake-ups that
/// nobody has received.
pub(super) async fn woken(quorum: &Arc<QuorumState>, attempt: &Attempt) -> Wake {
    let Some(shared) = quorum.attempts.find(attempt.holder) else { return std::future::pending().await };
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
            QuorumWait::Nothing => return std::future::pending().await,
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
