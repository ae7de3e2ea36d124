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
        let call = transfer_call(attempt, successor, self.window(), self.asked_alone());
        let answer = self.ask(route, &call, |value| released_in(value, attempt)).await?;
        if let (HoldAnswer::Done, Some(confirmation)) = (&answer, self.confirmation) {
            // A replica that was promoted without this would let a second successor succeed.
            self.confirm(confirmation, route, self.runtime.now()).await?;
        }
        Ok(answer)
    }
}
