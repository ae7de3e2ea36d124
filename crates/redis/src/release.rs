//! Letting go.

use std::time::Duration;

use leasehold_core::{Attempt, Fault, HoldAnswer, Instant, Request};

use crate::batch::{Said, What};
use crate::client::{Client, Route};
use crate::script::call_for;

impl Client {
    /// Takes back what the attempt holds now. Where a grant of it is still on its way, also says when to come again.
    pub(crate) async fn release(&self, attempt: &Attempt) -> Result<(HoldAnswer, Option<Instant>), Fault> {
        let waited = self.leave(attempt);
        let limit = self.limit(attempt.ttl);
        let mut route = self.route(limit).await?;
        self.let_go_on(attempt, waited, &mut route, limit).await
    }

    /// The same by a certain route: in a batch, if that may be enough.
    ///
    /// The value alone makes that sound. A plain one says that nobody waits for the key, readers and those who want permits included,
    /// and so not this attempt either. A value is in one place at a time; so it says that also while its slot moves key by key and the
    /// key's queue lies elsewhere. Where a lease was broken or has ended, or several hold the key, there is another value or none.
    ///
    /// A release is not confirmed by replicas: a lock that a failover brings back ends with its ttl.
    pub(crate) async fn let_go_on(
        &self,
        attempt: &Attempt,
        by_script: bool,
        route: &mut Route,
        limit: Duration,
    ) -> Result<(HoldAnswer, Option<Instant>), Fault> {
        if !by_script && attempt.signal.is_none() {
            match self.ask_in_batch(attempt, What::Release, route, limit).await? {
                Some(Said::Released { sent }) => {
                    return Ok((HoldAnswer::Done, self.unsettled.released(attempt.holder, route.id(), sent)));
                }
                Some(Said::Refused(refusal)) => self.is_served_singly(route, &refusal)?,
                _ => {}
            }
        }
        self.release_on(attempt, route, limit).await
    }

    /// By the script, which says how it stands where there is nothing to take back.
    pub(crate) async fn release_on(
        &self,
        attempt: &Attempt,
        route: &mut Route,
        limit: Duration,
    ) -> Result<(HoldAnswer, Option<Instant>), Fault> {
        let request = Request::Release(attempt.clone());
        let sent = self.runtime.now();
        let heard = self.call(route, &call_for(&request, self.window()), limit).await?;
        let answer = self.hold(&request, heard)?;
        Ok((answer, self.unsettled.released(attempt.holder, route.id(), sent)))
    }

    /// When this resolves without a fault, nothing of the attempt is left and nothing can come any more.
    pub(crate) async fn give_up(&self, attempt: &Attempt) -> Result<(), Fault> {
        while let (_, Some(settles_at)) = self.release(attempt).await? {
            self.runtime.sleep_until(settles_at).await;
        }
        Ok(())
    }
}
