//! Transferring a lease to another holder.

use leasehold_core::{Attempt, Fault, HoldAnswer, Mode, Stamp, Successor};

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
        if self.came_too_late(&answer, attempt, not_after, route).await? {
            // By a clock that has been set meanwhile. The next request uses a new reading.
            return Err(self.faults.timed_out("the server's clock was set, and the request came too late"));
        }
        if let (HoldAnswer::Done, Some(confirmation)) = (&answer, self.confirmation) {
            // A replica that was promoted without this would let a second successor succeed.
            self.confirm(confirmation, route, self.runtime.now()).await?;
        }
        Ok(answer)
    }

    /// Returns true if a transfer was, or may have been, refused only because it came after this time
    /// on the server's clock. Then the clock has been read again.
    async fn came_too_late(
        &self,
        answer: &HoldAnswer,
        attempt: &Attempt,
        not_after: Stamp,
        route: &mut Route,
    ) -> Result<bool, Fault> {
        let Some(refused_for) = RefusedFor::of(answer, attempt) else { return Ok(false) };
        let reading = self.read_clock(route, self.runtime.now()).await?;
        Ok(refused_for == RefusedFor::Itself || reading.server > not_after)
    }
}

/// Who holds the key of a refused transfer, where the transfer may have been refused for being late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefusedFor {
    /// The attempt itself: only a transfer that came too late is refused for it.
    Itself,
    /// One of several that share the key; the attempt may be another one.
    AShare,
}

impl RefusedFor {
    fn of(answer: &HoldAnswer, attempt: &Attempt) -> Option<Self> {
        let HoldAnswer::NotHeld { held_by: Some(held_by), .. } = answer else { return None };
        if held_by.owner.holder() == Some(attempt.holder) {
            return Some(Self::Itself);
        }
        (held_by.mode != Mode::Exclusive).then_some(Self::AShare)
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Claim, Holder, HolderInfo, Key, Owner, Ttl};

    use super::*;

    #[test]
    fn a_transfer_that_is_refused_for_its_own_holder_or_for_a_share_may_have_come_too_late() {
        let key = Key::new("k").unwrap();
        let attempt = Attempt::new(Claim::exclusive(key.clone()), Holder::from_bits(1), None, Ttl::DEFAULT);
        let by = |holder, mode| {
            let owner = Owner::Holder { holder: Holder::from_bits(holder), label: None };
            let held_by = HolderInfo::exclusive(key.clone(), owner, None, None).in_mode(mode);
            HoldAnswer::NotHeld { key: key.clone(), held_by: Some(held_by) }
        };
        let free = HoldAnswer::NotHeld { key: key.clone(), held_by: None };
        let refused_for = |answer| RefusedFor::of(&answer, &attempt);
        assert_eq!(refused_for(by(1, Mode::Exclusive)), Some(RefusedFor::Itself));
        assert_eq!(refused_for(by(1, Mode::Shared)), Some(RefusedFor::Itself));
        assert_eq!(refused_for(by(2, Mode::Shared)), Some(RefusedFor::AShare));
        for other in [by(2, Mode::Exclusive), free, HoldAnswer::Done] {
            assert_eq!(refused_for(other), None);
        }
    }
}
