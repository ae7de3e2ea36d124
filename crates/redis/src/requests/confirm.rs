//! Confirmation of writes by replicas.

use std::fmt;

use leasehold_core::{BoxFuture, Fault, FaultCause, HoldAnswer, Instant, StoreFuture, Wake};
use redis::{Value, cmd};

use crate::address::parameters::Confirmation;
use crate::client::Client;
use crate::connection::link::Confirmed;
use crate::connection::route::Route;

impl Client {
    /// Waits until a write that was answered on this route at this instant is confirmed.
    ///
    /// Meanwhile the server delays everything else on the connection, and `WAIT` on another
    /// connection says nothing about writes on this one. So one request serves all callers that
    /// wait at the same time and whose writes were answered before it was sent: one for a batch.
    ///
    /// Boxed, so that a request that needs no confirmation has a small future.
    pub(crate) fn confirm<'a>(
        &'a self,
        confirmation: Confirmation,
        route: &'a mut Route,
        written: Instant,
    ) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let Some(live) = route.live().cloned() else { return Ok(()) };
            let mut last = live.confirmed.lock().await;
            if let Some(last) = last.as_ref().filter(|last| last.sent >= written) {
                return last.answer.clone();
            }
            let sent = self.runtime.now();
            let answer = self.ask_replicas(confirmation, route).await;
            *last = Some(Confirmed { sent, answer: answer.clone() });
            answer
        })
    }

    async fn ask_replicas(
        &self,
        Confirmation { replicas, on_disk, limit }: Confirmation,
        route: &mut Route,
    ) -> Result<(), Fault> {
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let wait = if on_disk {
            cmd("WAITAOF").arg(1).arg(replicas).arg(millis).take()
        } else {
            cmd("WAIT").arg(replicas).arg(millis).take()
        };
        let patience = limit + self.call_limit;
        let redirects = route.redirects.len();
        let heard = self.say_once(route, &wait, patience).await?;
        // A redirect would say that nothing was executed, but the write was.
        route.redirects.truncate(redirects);
        let value = heard.map_err(|error| self.faults.of_refusal(&error))?;
        let Some((master, confirmed)) = counted(&value) else {
            return Err(self.faults.unexpected("WAIT"));
        };
        if !master {
            return Err(self.unconfirmed(format_args!(
                "the server has not written it to its disk within {limit:?} (fsync=yes), so it does not count: see that \
                 its appendfsync is always, and what slows its disk"
            )));
        }
        if confirmed < i64::from(replicas) {
            return Err(self.unconfirmed(format_args!(
                "{confirmed} of {replicas} replicas confirmed it within {limit:?} (replicas={replicas}), so it does not \
                 count: see that they run and keep up"
            )));
        }
        Ok(())
    }

    /// The server itself has answered.
    fn unconfirmed(&self, reason: impl fmt::Display) -> Fault {
        self.faults.passing(reason).caused_by(FaultCause::NotServing)
    }

    /// Turns renewals that are not confirmed into faults.
    pub(crate) async fn confirm_held(&self, route: &mut Route, answers: &mut [Result<HoldAnswer, Fault>]) {
        let Some(confirmation) = self.confirmation else { return };
        if !answers.iter().any(|answer| matches!(answer, Ok(HoldAnswer::Done))) {
            return;
        }
        if let Err(fault) = self.confirm(confirmation, route, self.runtime.now()).await {
            let held = answers.iter_mut().filter(|answer| matches!(answer, Ok(HoldAnswer::Done)));
            held.for_each(|answer| *answer = Err(fault.clone()));
        }
    }
}

/// A wake-up, delayed until it may be relied on.
///
/// The request that handed the lock over did not wait for replicas, and `WAIT` counts only writes
/// of its own connection. Asking again is a write of ours, and comes after the hand-over.
pub(crate) fn confirmed_first(
    called: BoxFuture<'_, Wake>,
    confirmation: Option<Confirmation>,
) -> BoxFuture<'_, Wake> {
    if confirmation.is_none() {
        return called;
    }
    Box::pin(async move {
        called.await;
        Wake::AskAgain
    })
}

/// Reads an answer to `WAIT` or `WAITAOF`: true if the master has the write on disk, and the number
/// of replicas that do.
fn counted(value: &Value) -> Option<(bool, i64)> {
    match value {
        Value::Int(replicas) => Some((true, *replicas)),
        Value::Array(counts) => match counts[..] {
            [Value::Int(master), Value::Int(replicas)] => Some((master > 0, replicas)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_counted_and_the_servers_own_disk() {
        let on_disk = |master, replicas| Value::Array(vec![Value::Int(master), Value::Int(replicas)]);
        assert_eq!(counted(&Value::Int(2)), Some((true, 2)));
        assert_eq!(counted(&on_disk(1, 2)), Some((true, 2)));
        assert_eq!(counted(&on_disk(0, 2)), Some((false, 2)));
        for strange in [Value::Nil, Value::Array(vec![Value::Int(1)])] {
            assert_eq!(counted(&strange), None);
        }
    }
}
