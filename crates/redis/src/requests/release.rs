//! Releasing and giving up.

use leasehold_core::{Attempt, Fault, HoldAnswer, Instant};

use crate::batch::{BatchAnswer, BatchKind};
use crate::client::Client;
use crate::connection::route::Route;
use crate::reply::released_in;
use crate::script::release_call;

impl Client {
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
    /// A release is not confirmed by replicas: a lock that a failover restores expires with its
    /// TTL.
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
                    return Ok((
                        HoldAnswer::Done,
                        self.shared.unsettled.released(attempt.holder, route.id(), sent),
                    ));
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

    /// When this resolves without a fault, nothing of the attempt is left and nothing of it can
    /// appear.
    pub(crate) async fn give_up(&self, attempt: &Attempt) -> Result<(), Fault> {
        while let (_, Some(settles_at)) = self.release(attempt).await? {
            self.runtime.sleep_until(settles_at).await;
        }
        Ok(())
    }
}
