//! Transferring a lease to another holder.

use leasehold_core::{Attempt, Fault, HoldAnswer, Successor};

use crate::client::Client;
use crate::connection::route::Route;
use crate::reply::released_in;
use crate::script::transfer_call;

impl Client {
    pub(crate) async fn transfer(
        &self,
        attempt: &Attempt,
        successor: &Successor,
        route: &mut Route,
    ) -> Result<HoldAnswer, Fault> {
        let (reading, sent) = self.reading(route).await?;
        let not_after = reading.latest(sent) + route.limit;
        let call = transfer_call(attempt, successor, Some(not_after), self.window(), self.asked_alone());
        // Like a grant, it may create a holder as long as it is not answered.
        let settles_at = reading.surely_past(not_after);
        let sending = self.shared.unsettled.sending(successor.holder, route.id(), sent, settles_at);
        let heard = self.call(route, &call).await?;
        self.shared.unsettled.answered([sending]);
        let answer = self.read(heard, |value| released_in(value, attempt))?;
        if let (HoldAnswer::Done, Some(confirmation)) = (&answer, self.confirmation) {
            // A replica that was promoted without this would let a second successor succeed.
            self.confirm(confirmation, route, self.runtime.now()).await?;
        }
        Ok(answer)
    }
}
