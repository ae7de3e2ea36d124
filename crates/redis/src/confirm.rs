//! Having replicas confirm what was written.

use std::time::Duration;

use leasehold_core::{BoxFuture, Fault, HoldAnswer, Instant, Wake};
use redis::{Value, cmd};

use crate::client::{Client, Route, one};
use crate::deadline::within;
use crate::link::Live;

/// What must have what we wrote before it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Confirmation {
    /// So many replicas.
    pub(crate) replicas: u32,
    /// On disk, and on the master's too.
    pub(crate) on_disk: bool,
    /// How long they may take.
    pub(crate) limit: Duration,
}

/// What was last asked on a connection, and what came of it.
#[derive(Clone, Debug)]
pub(crate) struct Confirmed {
    sent: Instant,
    answer: Result<(), Fault>,
}

impl Client {
    /// Waits until what was answered on this route at an instant is where it must be.
    ///
    /// The server holds up everything else on the connection meanwhile, and `WAIT` on any other says nothing of what was written
    /// here. So it is asked once for all who wait for it at the same time, each of whom was answered before it was sent: once for a
    /// batch.
    pub(crate) async fn confirm(&self, route: &mut Route, written: Instant) -> Result<(), Fault> {
        // Mostly nothing is to be confirmed; so the rest is apart.
        let Some(confirmation) = self.confirmation else { return Ok(()) };
        let Some(live) = route.live.clone() else { return Ok(()) };
        Box::pin(self.confirm_by(confirmation, &live, route, written)).await
    }

    async fn confirm_by(
        &self,
        confirmation: Confirmation,
        live: &Live,
        route: &mut Route,
        written: Instant,
    ) -> Result<(), Fault> {
        let mut last = live.confirmed.lock().await;
        if let Some(last) = last.as_ref().filter(|last| last.sent >= written) {
            return last.answer.clone();
        }
        let sent = self.runtime.now();
        let answer = self.ask_replicas(confirmation, route, sent).await;
        *last = Some(Confirmed { sent, answer: answer.clone() });
        answer
    }

    async fn ask_replicas(
        &self,
        Confirmation { replicas, on_disk, limit }: Confirmation,
        route: &mut Route,
        sent: Instant,
    ) -> Result<(), Fault> {
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let wait = if on_disk {
            cmd("WAITAOF").arg(1).arg(replicas).arg(millis).take()
        } else {
            cmd("WAIT").arg(replicas).arg(millis).take()
        };
        let patience = limit + self.call_limit;
        let said = within(&*self.runtime, patience, one(route.connection(), &wait)).await;
        let value =
            self.heard(route, sent, said, patience)?.map_err(|error| self.faults.of_refusal(&error))?;
        let Some((master, confirmed)) = counted(&value) else {
            return Err(self.faults.lasting("the answer to WAIT is no number: this is no Redis server"));
        };
        if !master {
            return Err(self.faults.passing(format_args!(
                "the server has not written it to its disk within {limit:?} (fsync=yes), so it does not count"
            )));
        }
        if confirmed < i64::from(replicas) {
            return Err(self.faults.passing(format_args!(
                "{confirmed} of {replicas} replicas confirmed it within {limit:?} (replicas={replicas}), so it does not count"
            )));
        }
        Ok(())
    }

    /// Takes back the word on leases that were made longer, where nobody confirms it.
    pub(crate) async fn confirm_held(&self, route: &mut Route, answers: &mut [Result<HoldAnswer, Fault>]) {
        if !answers.iter().any(|answer| matches!(answer, Ok(HoldAnswer::Done))) {
            return;
        }
        if let Err(fault) = self.confirm(route, self.runtime.now()).await {
            let held = answers.iter_mut().filter(|answer| matches!(answer, Ok(HoldAnswer::Done)));
            held.for_each(|answer| *answer = Err(fault.clone()));
        }
    }
}

/// A wake-up, where what it says may be believed.
///
/// Whoever handed a lock over did not wait for replicas, and `WAIT` counts what is written on its own connection: asking again is a
/// write of ours, and comes behind the hand-over.
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

/// Whether the master has it, and how many replicas do.
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
