//! Waiting in the server's queue: joining, being notified, and cleaning up after waiters that have
//! gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_core::{
    Attempt, Channel, Fault, FaultKind, GrantAnswer, HoldAnswer, Instant, Key, News, Nonce, Notice, Proof,
    Request, Wait, WaitMode, WaitQueue,
};

use crate::batch::{Said, What};
use crate::channels::Channels;
use crate::client::{Client, Route, Source};
use crate::ear::Tell;
use crate::wire::{PushMessage, read_push};

/// The pause between tries of a release that nobody waits for: the server is down, and others retry
/// too.
const REST: Duration = Duration::from_secs(1);

impl Client {
    pub(crate) async fn grant(&self, attempt: &Attempt, wait_mode: WaitMode) -> Result<GrantAnswer, Fault> {
        let limit = self.limit(attempt.ttl);
        let mut route = self.route(limit).await?;
        self.grant_on(attempt, wait_mode, &mut route, limit).await
    }

    pub(crate) async fn grant_on(
        &self,
        attempt: &Attempt,
        wait_mode: WaitMode,
        route: &mut Route,
        limit: Duration,
    ) -> Result<GrantAnswer, Fault> {
        let run = self.run(std::slice::from_ref(attempt), route, limit).await?;
        self.reading(route, limit).await?;
        let mut unknown = false;
        match self.ask_in_batch(attempt, What::Grant(run), route, limit).await? {
            Some(Said::Granted { fence, heard }) => {
                self.confirm(route, heard).await?;
                return Ok(GrantAnswer::Granted { fence });
            }
            Some(Said::TooLate { now }) => return Ok(GrantAnswer::TooLate { now }),
            Some(Said::Refused(refusal)) => {
                self.is_served_singly(route, &refusal)?;
                unknown = true;
            }
            _ => {}
        }
        let answer = match wait_mode {
            WaitMode::Wait { line_limit } => self.ask_in_line(attempt, line_limit, route, limit).await,
            _ => self.ask(attempt, None, route, limit).await,
        };
        // A caller that gets a lasting error gives nothing up, although the batch may have been
        // partly served.
        if unknown && answer.as_ref().is_err_and(Fault::is_lasting) {
            self.give_up_later(attempt.clone(), self.runtime.now());
        }
        answer
    }

    /// Asks, and makes sure that an attempt that then waits can be notified.
    ///
    /// The first attempt on a connection that must wait asks once without a channel: without
    /// waiters there is no subscription.
    async fn ask_in_line(
        &self,
        attempt: &Attempt,
        line_limit: Option<u64>,
        route: &mut Route,
        limit: Duration,
    ) -> Result<GrantAnswer, Fault> {
        let may_hear = self.channels().is_none_or(|channels| channels.are_for(&attempt.claim));
        let mut channel = if !may_hear {
            None
        } else if self.tended.load(Ordering::Relaxed) {
            self.listen(route, limit).await
        } else {
            route.live.as_ref().and_then(|live| live.ear.channel()).cloned()
        };
        loop {
            let hears = channel.is_some();
            let nonce = hears.then(|| Nonce::from_bits(self.runtime.random()));
            let proof = channel.clone().zip(nonce).map(|(channel, nonce)| Proof { channel, nonce });
            let ticket = self.waiting.asks(attempt.holder, proof, self.runtime.now());
            if !hears {
                self.waiting.cannot_be_told(attempt.holder);
            }
            let wait = Wait { channel, nonce, ticket, line_limit };
            let answer = self.ask(attempt, Some(wait), route, limit).await;
            match &answer {
                Ok(answer) => self.waiting.answered(attempt, answer, self.runtime.now()),
                // The attempt will not be given up, because nothing of it is left; so remove it
                // here.
                Err(fault) if fault.kind != FaultKind::Passing => {
                    self.leave(attempt);
                }
                Err(_) => {}
            }
            let Ok(GrantAnswer::Busy { place: Some(_), .. }) = &answer else { return answer };
            self.tend(route);
            if hears || !may_hear {
                return answer;
            }
            channel = self.listen(route, limit).await;
            if channel.is_none() {
                return answer;
            }
        }
    }

    /// The channel on which this process is notified for requests on this route; subscribes if
    /// necessary.
    pub(crate) async fn listen(&self, route: &Route, limit: Duration) -> Option<Channel> {
        match (&self.source, &route.live) {
            (Source::Ours(link), Some(live)) => link.listen(live, limit).await,
            _ => None,
        }
    }

    /// The names of the channels, if this process listens at all.
    pub(crate) fn channels(&self) -> Option<&Channels> {
        match &self.source {
            Source::Ours(link) => Some(link.connector.channels()),
            Source::Lent { .. } => None,
        }
    }

    /// Handles a push that came at `since` at the earliest.
    ///
    /// Anybody who may publish may have sent it. So a push causes no request to the server except
    /// those of the attempt itself. For example, the lease of an attempt that has gone is released
    /// by the release of that attempt, and not because of a push with a grant.
    fn told(&self, channel: &[u8], payload: &[u8], since: Instant) {
        let Some(PushMessage { holder, mut news, nonce }) = read_push(payload) else { return };
        match &mut news {
            News::Broken => return self.notice_bus.say(&Notice::Broken { holder }),
            News::Granted { lasts, .. } => *lasts = lasts.up_to(self.window()),
            News::First { .. } | News::AskAgain => {}
        }
        let proof = nonce.map(|nonce| Proof { channel: Channel::new(channel), nonce });
        self.waiting.hears(holder, news, proof.as_ref(), since, self.runtime.now());
    }

    /// The handler of pushes for a connection.
    pub(crate) fn tell(me: std::sync::Weak<Self>) -> Tell {
        Arc::new(move |channel, payload, since| {
            if let Some(client) = me.upgrade() {
                client.told(channel, payload, since);
            }
        })
    }

    /// Removes the waiter. Returns true if the attempt was ever in a queue.
    pub(crate) fn leave(&self, attempt: &Attempt) -> bool {
        self.waiting.leave(attempt.holder, self.runtime.now())
    }

    /// An attempt that lost what it was handed was not reached in time, so other waiters may have
    /// been skipped too.
    pub(crate) fn ask_again_after(&self, attempt: &Attempt, answer: &Result<HoldAnswer, Fault>) {
        if matches!(answer, Ok(HoldAnswer::NotHeld { .. })) {
            let now = self.runtime.now();
            attempt.claim.keys().for_each(|key| self.waiting.ask_for(key, now));
        }
    }

    /// Hands keys over in the background, because one request could not handle all of them.
    pub(crate) fn advance_later(&self, mut keys: Vec<Key>) {
        let me = self.me.clone();
        self.runtime.spawn(Box::pin(async move {
            while let Some(client) = me.upgrade().filter(|_| !keys.is_empty()) {
                match client.advance(std::mem::take(&mut keys)).await {
                    Ok(unfinished) => keys = unfinished,
                    // Waiters ask again on their own.
                    Err(_) => return,
                }
            }
        }));
    }

    async fn advance(&self, keys: Vec<Key>) -> Result<Vec<Key>, Fault> {
        let mut route = self.route(self.call_limit).await?;
        let request = Request::Advance(keys);
        Ok(self.reply_to(&request, &mut route, self.call_limit).await?.unfinished)
    }

    /// Gives an attempt up at this instant, in the background.
    pub(crate) fn give_up_later(&self, attempt: Attempt, at: Instant) {
        if let Some(cluster) = &self.cluster {
            return cluster
                .upgrade()
                .into_iter()
                .for_each(|cluster| cluster.give_up_later(attempt.clone(), at));
        }
        let (me, runtime) = (self.me.clone(), Arc::clone(&self.runtime));
        self.runtime.spawn(Box::pin(async move {
            runtime.sleep_until(at).await;
            // By then the lease has expired.
            let end = at + attempt.ttl.duration();
            while let Some(client) = me.upgrade() {
                if client.give_up(&attempt).await.is_ok() || runtime.now() >= end {
                    return;
                }
                drop(client);
                runtime.sleep_until(runtime.now() + REST).await;
            }
        }));
    }

    /// How long a lock that is handed over may remain unclaimed: long enough for a PING and a
    /// renewal, each sent twice.
    pub(crate) fn window(&self) -> Duration {
        WaitQueue::CLAIM_WINDOW.max(4 * self.call_limit)
    }
}
