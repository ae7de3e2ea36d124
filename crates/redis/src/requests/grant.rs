//! Requests for keys: in a batch if the keys may be free, and otherwise by the script that joins
//! the server's queue.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leasehold_core::{
    Attempt, BoxFuture, Fault, FaultCause, FaultKind, GrantAnswer, Instant, Nonce, Proof, Reading,
    StoreFuture, Wait, WaitMode,
};

use crate::address::parameters::Confirmation;
use crate::batch::{BatchAnswer, BatchKind};
use crate::client::Client;
use crate::connection::route::Route;
use crate::reply::{grant_in, time_of_grant};
use crate::script::grant_call;

impl Client {
    pub(crate) async fn grant(
        &self,
        attempt: &Attempt,
        wait_mode: WaitMode,
        route: &mut Route,
    ) -> Result<GrantAnswer, Fault> {
        let mut unknown = false;
        // A quorum makes the batches of its members.
        if attempt.proposal.is_none() {
            let (_, now) = self.reading(route).await?;
            match self.ask_in_batch(attempt, BatchKind::Grant(None), route, now).await? {
                BatchAnswer::Granted { fence, heard } => {
                    if let Some(confirmation) = self.confirmation {
                        self.confirm_grant(confirmation, attempt, route, heard).await?;
                    }
                    return Ok(GrantAnswer::Granted { fence });
                }
                BatchAnswer::TooLate { now } => return Ok(GrantAnswer::TooLate { now }),
                BatchAnswer::Refused(refusal) => {
                    self.is_served_singly(route, &refusal)?;
                    unknown = true;
                }
                _ => {}
            }
        }
        // Boxed, so that the future of an uncontended request is small: it is moved several times.
        let answer = Box::pin(async {
            let endpoint = Arc::clone(&route.endpoint);
            // Its time limit counts from when it is sent.
            let _in_flight = endpoint.grants.acquire().await.expect("it is never closed");
            match wait_mode {
                WaitMode::Wait { queue_limit } => self.ask_to_wait(attempt, queue_limit, route).await,
                _ => self.ask_once(attempt, None, route).await,
            }
        })
        .await;
        // The batch may have been partly served; so may a script with a command that this user may not
        // run, because the server refuses only that command.
        if let Err(fault) = &answer
            && (unknown || fault.cause == FaultCause::Permission)
        {
            self.undo_after(attempt, fault).await;
        }
        answer
    }

    /// Waits until a grant that was answered at this instant is confirmed, and undoes it if it cannot
    /// be.
    fn confirm_grant<'a>(
        &'a self,
        confirmation: Confirmation,
        attempt: &'a Attempt,
        route: &'a mut Route,
        written: Instant,
    ) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let confirmed = self.confirm(confirmation, route, written).await;
            if let Err(fault) = &confirmed {
                self.undo_after(attempt, fault).await;
            }
            confirmed
        })
    }

    /// Undoes what the server served before it refused the rest: a lasting fault says that the
    /// request was not served, and so its caller gives nothing up. A quorum does.
    fn undo_after<'a>(&'a self, attempt: &'a Attempt, fault: &Fault) -> BoxFuture<'a, ()> {
        let is_over = !fault.is_lasting() || attempt.proposal.is_some();
        Box::pin(async move {
            if !is_over && self.give_up(attempt).await.is_err_and(|fault| !fault.is_lasting()) {
                self.give_up_later(attempt.clone(), self.runtime.now());
            }
        })
    }

    /// Asks, and makes sure that an attempt that then waits can be notified.
    ///
    /// The first attempt on a connection that must wait asks once without a channel: without
    /// waiters there is no subscription.
    async fn ask_to_wait(
        &self,
        attempt: &Attempt,
        queue_limit: Option<u64>,
        route: &mut Route,
    ) -> Result<GrantAnswer, Fault> {
        let may_hear = self.channels().is_none_or(|channels| channels.are_for(&attempt.claim));
        let mut channel = if !may_hear {
            None
        } else if self.is_monitored.load(Ordering::Relaxed) {
            self.listen(route).await
        } else {
            route.live().and_then(|live| live.own_channel.channel.get()).cloned()
        };
        loop {
            let has_push = channel.is_some();
            let nonce = has_push.then(|| Nonce::from_bits(self.runtime.random()));
            let proof = channel.clone().zip(nonce).map(|(channel, nonce)| Proof { channel, nonce });
            let ticket = self.shared.waiting.asks(attempt.holder, proof, self.runtime.now());
            let is_queued = ticket.is_some();
            let named = channel.take().unwrap_or_else(|| self.shared.waiting.cannot_be_told(attempt.holder));
            let wait = Wait { channel: Some(named), nonce, ticket, queue_limit };
            let answer = self.ask_once(attempt, Some(wait), route).await;
            match &answer {
                Ok(answer) => self.shared.waiting.answered(attempt, answer, self.runtime.now()),
                // The attempt will not be given up, so remove it here.
                Err(fault) if fault.kind != FaultKind::Passing => {
                    self.leave(attempt);
                    if is_queued {
                        self.undo_after(attempt, fault).await;
                    }
                }
                Err(_) => {}
            }
            let Ok(GrantAnswer::Busy { place: Some(_), .. }) = &answer else { return answer };
            self.monitor(route);
            if has_push || !may_hear {
                return answer;
            }
            channel = self.listen(route).await;
            if channel.is_none() {
                return answer;
            }
        }
    }

    /// Asks once for the keys of an attempt, and for a place in the queue if it waits.
    async fn ask_once(
        &self,
        attempt: &Attempt,
        wait: Option<Wait>,
        route: &mut Route,
    ) -> Result<GrantAnswer, Fault> {
        let run = self.run(std::slice::from_ref(attempt), route).await?;
        let (reading, sent) = self.reading(route).await?;
        let not_after = reading.latest(sent) + route.limit;
        let settles_at = reading.surely_past(not_after);
        // From here on the grant is in doubt, even if this future is dropped.
        let sending = self.shared.unsettled.sending(attempt.holder, route.id(), sent, settles_at);
        let call = grant_call(attempt, wait.as_ref(), Some(not_after), self.window(), self.asked(&run));
        let heard = self.call(route, &call).await?;
        self.shared.unsettled.answered([sending]);
        if let Some(server) = heard.as_ref().ok().and_then(time_of_grant) {
            route.endpoint.clock.note(Reading { sent, heard: self.runtime.now(), server });
        }
        let (answer, unfinished) = self.read_all(heard, |value| grant_in(value, attempt))?;
        // A caller that is told that its own key is not handed over yet asks again at once.
        if !unfinished.is_empty() && answer != GrantAnswer::Unfinished {
            self.advance_later(unfinished);
        }
        match &answer {
            GrantAnswer::Granted { .. } => {
                if let Some(confirmation) = self.confirmation {
                    self.confirm_grant(confirmation, attempt, route, self.runtime.now()).await?;
                }
            }
            GrantAnswer::Busy { held_by, place: Some(_) } => {
                self.contended.note(self.contended.digest(&held_by.key), self.runtime.now());
            }
            _ => {}
        }
        Ok(answer)
    }
}
