//! Transferring a lease to another holder.

use leasehold_core::{Attempt, Fault, HoldAnswer, Successor};

use crate::client::Client;
use crate::connection::route::Route;
use crate::reply::held_in;
use crate::script::transfer_call;

impl Client {
    pub(crate) async fn transfer(
        &self,
        attempt: &Attempt,
        successor: &Successor,
        route: &mut Route,
    ) -> Result<HoldAnswer, Fault> {
        let run = self.run(std::slice::from_ref(attempt), route).await?;
        let (reading, sent) = self.reading(route).await?;
        let not_after = reading.latest(sent) + route.limit;
        let call = transfer_call(attempt, successor, Some(not_after), self.window(), self.asked(&run));
        // Like a grant, it may create a holder as long as it is not answered.
        let settles_at = reading.surely_past(not_after);
        let sending = self.shared.unsettled.sending(successor.holder, route.id(), sent, settles_at);
        let heard = self.call(route, &call).await?;
        self.shared.unsettled.answered([sending]);
        let answer = self.read(heard, |value| held_in(value, attempt))?;
        if came_too_late(&answer, attempt) {
            // By a clock that has been set meanwhile. The next request uses a new reading.
            self.read_clock(route, self.runtime.now()).await?;
            return Err(self.faults.timed_out("the server's clock was set, and the request came too late"));
        }
        if let (HoldAnswer::Done, Some(confirmation)) = (&answer, self.confirmation) {
            // A replica that was promoted without this would let a second successor succeed.
            self.confirm(confirmation, route, self.runtime.now()).await?;
        }
        Ok(answer)
    }
}

/// Only a transfer that came too late is refused because its own holder has the key.
fn came_too_late(answer: &HoldAnswer, attempt: &Attempt) -> bool {
    let HoldAnswer::NotHeld { held_by: Some(held_by), .. } = answer else { return false };
    held_by.owner.holder() == Some(attempt.holder)
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Claim, Holder, HolderInfo, Key, Owner, Ttl};

    use super::*;

    #[test]
    fn a_transfer_that_is_refused_for_its_own_holder_came_too_late() {
        let key = Key::new("k").unwrap();
        let attempt = Attempt::new(Claim::exclusive(key.clone()), Holder::from_bits(1), None, Ttl::DEFAULT);
        let by = |holder| {
            let owner = Owner::Holder { holder: Holder::from_bits(holder), label: None };
            let held_by = HolderInfo::exclusive(key.clone(), owner, None, None);
            HoldAnswer::NotHeld { key: key.clone(), held_by: Some(held_by) }
        };
        assert!(came_too_late(&by(1), &attempt));
        let free = HoldAnswer::NotHeld { key: key.clone(), held_by: None };
        for other in [by(2), free, HoldAnswer::Done] {
            assert!(!came_too_late(&other, &attempt), "{other:?}");
        }
    }
}
