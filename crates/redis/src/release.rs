//! Letting go.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::{Attempt, Fault, HoldAnswer, Instant, Key, Mode, Request};
use redis::Value;

use crate::client::{Client, Heard, Route};
use crate::deadline::within;
use crate::fault::leads_astray;
use crate::native::{delete, is_out_of_reach};
use crate::script::{call_for, delete_call};
use crate::topology::cluster::say_one;
use crate::wire::{Flag, value_of};

/// What is known of the server's own way to delete a key that still has a certain value.
#[derive(Debug, Default)]
pub(crate) struct Native {
    /// The server has it and does not let us. It is not tried again: the server may log each try.
    denied: AtomicBool,
}

impl Native {
    pub(crate) fn is_denied(&self) -> bool {
        self.denied.load(Ordering::Relaxed)
    }

    pub(crate) fn deny(&self) {
        self.denied.store(true, Ordering::Relaxed);
    }
}

impl Client {
    /// Takes back what the attempt holds now. Where a grant of it is still on its way, also says when to come again.
    pub(crate) async fn release(&self, attempt: &Attempt) -> Result<(HoldAnswer, Option<Instant>), Fault> {
        let waited = self.leave(attempt);
        let limit = self.limit(attempt.ttl);
        let mut route = self.route(limit).await?;
        self.let_go_on(attempt, waited, &mut route, limit).await
    }

    /// The same by a certain route: by the value alone, if that is worth a try.
    pub(crate) async fn let_go_on(
        &self,
        attempt: &Attempt,
        by_script: bool,
        route: &mut Route,
        limit: Duration,
    ) -> Result<(HoldAnswer, Option<Instant>), Fault> {
        let sent = self.runtime.now();
        if !by_script && self.delete_on(attempt, route, sent, limit).await? {
            return Ok((HoldAnswer::Done, self.unsettled.released(attempt.holder, route.id(), sent)));
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

    /// Releases by the value alone, where that is all that there is to do. `false`: the script must say how it stands, and do the rest.
    ///
    /// What makes it sound is the value alone: a plain one says that nobody stands in the line of its key, readers and those who want
    /// permits included, and so not this attempt either. A value is in one place at a time; so it says that also while its slot moves
    /// key by key and the line's keys lie elsewhere. Where a lease was broken or has ended, or several hold the key, there is
    /// another value or none. Who waited knows only that it would mostly miss.
    ///
    /// A release is not confirmed by replicas, whichever way it is made: a lock that a failover brings back ends with its ttl.
    async fn delete_on(
        &self,
        attempt: &Attempt,
        route: &mut Route,
        sent: Instant,
        limit: Duration,
    ) -> Result<bool, Fault> {
        if self.contended.has(attempt.claim.first_key(), sent) {
            return Ok(false);
        }
        let Some((key, value)) = plain_value(attempt) else { return Ok(false) };
        match self.delete_if_equal(key, &value, route, limit).await? {
            Ok(Value::Int(1)) => Ok(true),
            Ok(_) => {
                // Somebody has begun to wait, mostly.
                self.contended.note(key, self.runtime.now());
                Ok(false)
            }
            // Of no use to a script either.
            Err(refusal) if leads_astray(&refusal) || !route.redirects.is_empty() => {
                Err(self.faults.of_refusal(&refusal))
            }
            Err(_) => Ok(false),
        }
    }

    /// Deletes a key that has a value still: by the server's own command where it has one and lets us, and else by a script.
    pub(crate) async fn delete_if_equal(
        &self,
        key: &Key,
        value: &[u8],
        route: &mut Route,
        limit: Duration,
    ) -> Result<Heard, Fault> {
        let how = route.live.as_ref().and_then(|live| live.delete_if_equal);
        if let Some(how) = how.filter(|_| !self.native.is_denied()) {
            let (sent, asks, delete) = (self.runtime.now(), route.asks, delete(key, value, how));
            let said = within(&*self.runtime, limit, say_one(route.connection(), asks, &delete)).await;
            match self.heard(route, sent, said, limit)? {
                Err(refusal) if is_out_of_reach(&refusal) => self.native.deny(),
                heard => return Ok(heard),
            }
        }
        self.call(route, &delete_call(key, value), limit).await
    }
}

/// The key of an attempt, and the value that a grant writes there: where the key still has it, nobody waits for it, and there is
/// nothing that the release script would do but delete it. `None` for whoever wants more than one key, or not for itself alone, or
/// wakes others by its release.
///
/// That the key has another value says nothing: the script must be asked.
fn plain_value(attempt: &Attempt) -> Option<(&Key, Vec<u8>)> {
    let [want] = attempt.claim.wants() else { return None };
    if want.mode != Mode::Exclusive || attempt.signal.is_some() {
        return None;
    }
    Some((&want.key, value_of(Flag::Plain, attempt.holder, attempt.label.as_ref())))
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Claim, Holder, Label, Signal, Ttl};

    use super::*;

    fn attempt(claim: Claim) -> Attempt {
        Attempt::new(claim, Holder::from_bits(0xab), Label::new("web-3").ok(), Ttl::DEFAULT)
    }

    #[test]
    fn one_key_that_is_held_alone_is_released_by_its_value_and_all_else_by_the_script() {
        let [a, b] = ["a", "b"].map(|key| Key::new(key).unwrap());
        let one = attempt(Claim::exclusive(a.clone()));
        let value = b"lh1-000000000000000000000000000000ab web-3".to_vec();
        assert_eq!(plain_value(&one), Some((&a, value)));
        let wakes_others = one.with_signal(Some(Signal::PythonRedisLock));
        let several = attempt(Claim::exclusive_all([a.clone(), b]).unwrap());
        let together = attempt(Claim::shared([a]).unwrap());
        for attempt in [wakes_others, several, together] {
            assert_eq!(plain_value(&attempt), None);
        }
    }
}
