//! Giving up ids at members in the background.

use std::sync::Arc;

use leasehold_core::{Attempt, BackgroundRelease, Fence, Holder, Instant, QuorumAttempt};
use tokio::sync::mpsc::UnboundedSender;

use super::attempts::SharedAttempt;
use super::calls::MemberResult;
use super::state::QuorumState;
use crate::lock::rest;

/// The background release of one id at one member.
struct Undoing {
    quorum: Arc<QuorumState>,
    shared: Arc<SharedAttempt>,
    member: usize,
    /// The attempt as the member knows it.
    attempt: Attempt,
    tell: Option<UnboundedSender<MemberResult<()>>>,
    end: Instant,
}

impl Undoing {
    /// Tries once; returns true if the release is over.
    async fn try_once(&self) -> bool {
        let (runtime, member) = (&*self.quorum.runtime, &self.quorum.members[self.member]);
        let give_up = member.store.give_up(&self.attempt);
        let answer = self.quorum.in_time(self.member, &self.attempt, give_up).await;
        let over = match &answer {
            Ok(()) => true,
            Err(fault) => fault.is_lasting() || runtime.now() >= self.end,
        };
        if over {
            self.quorum.with(&self.shared, &self.attempt, QuorumAttempt::handle_undone);
        }
        if let Some(tell) = &self.tell {
            // The caller may have gone.
            let _ = tell.send((self.member, answer));
        }
        over
    }

    /// Waits before the next try: longer each time, because there may be thousands of these for a
    /// member that is down; and at once when it is back.
    async fn try_again(&self, tries: u32) -> bool {
        let (runtime, member) = (&*self.quorum.runtime, &self.quorum.members[self.member]);
        let again = runtime.now() + rest(tries, runtime) * (tries + 1);
        tokio::select! {
            () = runtime.sleep_until(again.min(self.end)) => {}
            () = member.answers_again() => {}
        }
        self.try_once().await
    }

    async fn go_on(self: Arc<Self>) {
        for tries in 1.. {
            if self.try_again(tries).await {
                return;
            }
        }
    }
}

impl QuorumState {
    /// Gives up an attempt's id at a member, and retries for as long as the lease could last there.
    /// Sends the result of each try to the caller; `unheard` ends with the first result. The end of
    /// a program waits for at most two tries.
    pub(super) fn undo(
        self: &Arc<Self>,
        shared: &Arc<SharedAttempt>,
        attempt: &Attempt,
        member: usize,
        id: Holder,
        tell: Option<UnboundedSender<MemberResult<()>>>,
        mut unheard: Option<BackgroundRelease>,
    ) {
        let attempt = attempt.at_member(id, self.proposal(Fence::MAX));
        let end = self.runtime.now() + attempt.lingers().max(self.settings.max_ttl.duration());
        let (quorum, shared) = (self.clone(), shared.clone());
        let undoing = Arc::new(Undoing { quorum, shared, member, attempt, tell, end });
        self.runtime.spawn_cleanup(Box::new(move || {
            let (undoing, unheard) = (undoing.clone(), unheard.take());
            Box::pin(async move {
                let over = undoing.try_once().await;
                drop(unheard);
                // The connection may have ended with its runtime; the second try opens a new one.
                if !over && !undoing.try_again(0).await {
                    undoing.quorum.runtime.spawn(Box::pin(undoing.clone().go_on()));
                }
            })
        }));
    }
}
