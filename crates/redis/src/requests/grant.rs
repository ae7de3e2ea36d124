//! Requests for keys, and their release: in a batch if the keys may be free, and otherwise by the
//! script of a single request, which joins the server's queue.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leasehold_core::{
    Attempt, BoxFuture, Fault, FaultCause, FaultKind, GrantAnswer, HoldAnswer, Instant, Nonce, Proof,
    Reading, StoreFuture, Wait, WaitMode,
};

use crate::address::parameters::Confirmation;
use crate::batch::{BatchAnswer, BatchKind};
use crate::client::Client;
use crate::connection::route::Route;
use crate::reply::{grant_in, released_in, time_of_grant};
use crate::script::{grant_call, release_call};

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
            if !is_over && self.give_up(attempt).await.is_err() {
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

    /// Releases what the attempt holds now. If a grant of it is still in doubt, also returns when
    /// to release again.
    pub(crate) async fn release(&self, attempt: &Attempt) -> Result<(HoldAnswer, Option<Instant>), Fault> {
        let waited = self.leave(attempt);
        let mut route = self.route_for(attempt).await?;
        self.let_go_on(attempt, waited, &mut route).await
    }

    /// The same on this route: in a batch, if that may suffice.
    ///
    /// The value alone makes this safe. A plain value means that nobody waits for the key,
    /// including readers and requests for permits, so this attempt does not wait either. A value is
    /// in one place at a time, so this holds even while its slot moves key by key and the key's
    /// queue is on another node. If a lease was broken or has ended, or several holders share the
    /// key, the value is another one or absent.
    ///
    /// Replicas do not confirm a release: a lock that a failover restores expires with its TTL.
    pub(crate) async fn let_go_on(
        &self,
        attempt: &Attempt,
        by_script: bool,
        route: &mut Route,
    ) -> Result<(HoldAnswer, Option<Instant>), Fault> {
        if !by_script && attempt.signal.is_none() && attempt.proposal.is_none() {
            let now = self.runtime.now();
            match self.ask_in_batch(attempt, BatchKind::Release, route, now).await? {
                BatchAnswer::Released { sent } => {
                    let settles_at = self.shared.unsettled.released(attempt.holder, route.id(), sent);
                    return Ok((HoldAnswer::Done, settles_at));
                }
                BatchAnswer::Refused(refusal) => self.is_served_singly(route, &refusal)?,
                _ => {}
            }
        }
        // The script returns the state of the key if there is nothing to release.
        Box::pin(async {
            let sent = self.runtime.now();
            let call = release_call(attempt, self.window(), self.asked_alone());
            let answer = self.ask(route, &call, |value| released_in(value, attempt)).await?;
            Ok((answer, self.shared.unsettled.released(attempt.holder, route.id(), sent)))
        })
        .await
    }

    /// When this resolves without a fault, nothing of the attempt is left or can appear.
    pub(crate) async fn give_up(&self, attempt: &Attempt) -> Result<(), Fault> {
        while let (_, Some(settles_at)) = self.release(attempt).await? {
            self.runtime.sleep_until(settles_at).await;
        }
        Ok(())
    }
}
