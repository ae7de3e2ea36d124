//! A store that has a vote, and a call to it that nobody need wait for.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{BoxFuture, Fault, Runtime, Store, Ttl};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

/// One store of a quorum, and whether it answers.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: Arc<str>,
    pub(super) store: Arc<dyn Store>,
    /// Its last call ended in a fault, or takes long. Only who is asked first hangs on it, never what is believed.
    silent: watch::Sender<bool>,
}

impl Member {
    /// How long a member may take to answer: small beside the ttl, so that a renewal can be tried often; longer than a Redis
    /// store's own limit, whose fault says more than ours.
    const LIMIT: Duration = Duration::from_millis(600);

    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { name: store.name().into(), store, silent: watch::Sender::new(false) }
    }

    /// How long a call about a lease of this ttl may take.
    pub(super) fn limit(ttl: Ttl) -> Duration {
        let share = ttl.duration() * 3 / 10;
        Self::LIMIT.min(share.max(Self::LIMIT / 10))
    }

    pub(super) fn is_silent(&self) -> bool {
        *self.silent.borrow()
    }

    /// Says whether it answers; `true` when that is news.
    pub(super) fn set_silent(&self, silent: bool) -> bool {
        self.silent.send_if_modified(|was| std::mem::replace(was, silent) != silent)
    }

    /// Resolves when it does not answer.
    pub(super) async fn falls_silent(&self) {
        // The sender is ours, so it is not gone while this is awaited.
        let _ = self.silent.subscribe().wait_for(|silent| *silent).await;
    }

    /// Resolves when it answers, after it did not.
    pub(super) async fn answers_again(&self) {
        let mut silent = self.silent.subscribe();
        if !*silent.borrow_and_update() {
            return std::future::pending().await;
        }
        let _ = silent.wait_for(|silent| !silent).await;
    }

    pub(super) fn timed_out(&self) -> Fault {
        Fault::passing(&self.name, "timed out")
    }
}

/// What a member answered, or why it did not. Boxed, because a channel makes room for many at once.
pub(super) type Said<T> = Box<(usize, Result<T, Fault>)>;

/// One call to a member.
pub(super) struct Call<T> {
    pub(super) member: usize,
    pub(super) does: BoxFuture<'static, Result<T, Fault>>,
    /// After this time the member counts as silent. The call goes on: what it brings late counts, or is undone.
    pub(super) limit: Duration,
    /// After this time nothing that it could bring is of any use.
    pub(super) dropped_after: Duration,
}

impl<T> Call<T> {
    /// Makes the call, and says what came of it: once, or twice when the answer comes late. `ends` is told first, and also when the
    /// call is dropped: what is released after that is released for good.
    pub(super) async fn make(
        mut self,
        member: &Member,
        runtime: &dyn Runtime,
        tell: &UnboundedSender<Said<T>>,
        mut ends: impl FnMut(End<'_>),
    ) {
        let begun = runtime.now();
        let in_time = tokio::select! {
            biased;
            answer = &mut self.does => Some(answer),
            () = runtime.sleep_until(begun + self.limit) => None,
        };
        let answer = if let Some(answer) = in_time {
            answer
        } else {
            ends(End::Limit(&member.timed_out()));
            // Whoever asked may have gone.
            let _ = tell.send(Box::new((self.member, Err(member.timed_out()))));
            tokio::select! {
                biased;
                answer = &mut self.does => answer,
                () = runtime.sleep_until(begun + self.dropped_after) => {
                    return ends(End::Fault(&member.timed_out()));
                }
            }
        };
        ends(answer.as_ref().err().map_or(End::Answer, End::Fault));
        let _ = tell.send(Box::new((self.member, answer)));
    }
}

/// How a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End<'a> {
    /// It takes too long, and goes on.
    Limit(&'a Fault),
    /// It was answered.
    Answer,
    /// It ended without an answer.
    Fault(&'a Fault),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three tenths of the ttl, so that a renewal can be tried again; no more than is good for the longest lease, and not next to nothing.
    #[test]
    fn a_member_is_waited_for_the_shorter_the_lease_is() {
        let limits = [60_000, 10_000, 1_000, 300, 100].map(|ttl| {
            let ttl = Ttl::new(Duration::from_millis(ttl)).unwrap();
            Member::limit(ttl).as_millis()
        });
        assert_eq!(limits, [600, 600, 300, 90, 60]);
    }
}
