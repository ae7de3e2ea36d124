//! Diagnosis: searches a server for settings that endanger its locks.
//!
//! It uses connections of its own, so that it finds out why the store cannot make one. Each part
//! judges the answers in a function that asks nothing. Nothing is changed.

mod facts;
mod settings;
mod tables;

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{ClockSeen, Diagnosis, Fault, Finding, Severity, StoreRole};
use tokio::sync::Notify;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use self::facts::Facts;
use crate::channel;
use crate::connect::{OnNotification, connect};
use crate::sql::CLOCK;
use crate::table::row::Columns;
use crate::worker::Inner;

/// The median of this many round trips counts.
const TRIPS: usize = 5;

/// Clocks that are disciplined by NTP differ by less than this.
const APART: Duration = Duration::from_secs(1);

/// The call limit should allow for four round trips, so that a slow moment does not cause a fault.
const SHARE: u32 = 4;

impl Inner {
    pub(crate) async fn diagnose(&self, role: StoreRole) -> Diagnosis {
        let mut brought = Diagnosis::default();
        if let Err(fault) = self.look(role, &mut brought).await {
            let why = "as long as it does not answer, nobody takes or renews a lock here";
            let finding = Finding::new(Severity::Unsafe, "reach", &self.faults.store, &fault.reason, why);
            brought.findings.push(match fault.is_lasting() {
                // Its text says what to do.
                true => finding,
                false => finding.advice("see that the server runs and can be reached from here"),
            });
        }
        brought
    }

    async fn look(&self, role: StoreRole, brought: &mut Diagnosis) -> Result<(), Fault> {
        let live = connect(&self.address, &self.faults, &self.runtime, None).await?;
        self.times(&live.client, brought).await?;
        let facts = Facts::ask(&live.client, &self.address.schema, &self.scope.sql);
        let facts = self.asked(self.patience(), facts).await?;
        let at = &self.faults.store;
        brought.findings.extend(tables::judge(at, &self.faults.init, role, &facts));
        brought.findings.extend(settings::judge(at, self.address.call_limit, &facts));
        brought.findings.push(self.push(&live.client).await);
        Ok(())
    }

    /// How long some questions together may take.
    fn patience(&self) -> Duration {
        10 * self.address.call_limit
    }

    async fn times(&self, client: &Client, brought: &mut Diagnosis) -> Result<(), Fault> {
        let (runtime, at) = (&*self.runtime, &self.faults.store);
        let mut trips = Vec::new();
        let mut sharpest: Option<ClockSeen> = None;
        for _ in 0..TRIPS {
            let (sent, before) = (runtime.now(), runtime.since_epoch());
            let row = self.asked(self.patience(), client.query_typed_one(CLOCK, &[])).await?;
            let (heard, after) = (runtime.now(), runtime.since_epoch());
            trips.push(heard.saturating_since(sent));
            let server = Columns(&row).stamp(0).map_err(|error| self.faults.of(&error))?;
            let doubt = after.saturating_sub(before) / 2;
            let ours = i64::try_from((before + doubt).as_micros()).unwrap_or(i64::MAX);
            let ahead = i64::try_from(server.as_micros()).unwrap_or(i64::MAX).saturating_sub(ours);
            if sharpest.as_ref().is_none_or(|sharpest| doubt < sharpest.doubt) {
                sharpest = Some(ClockSeen { at: Arc::clone(at), ahead, doubt });
            }
        }
        trips.sort_unstable();
        brought.findings.push(self.judge_trip(trips[TRIPS / 2]));
        if let Some(clock) = sharpest {
            brought.findings.push(judge_clock(&clock));
            brought.clocks.push(clock);
        }
        Ok(())
    }

    fn judge_trip(&self, trip: Duration) -> Finding {
        let (at, limit) = (&self.faults.store, self.address.call_limit);
        if trip <= limit / SHARE {
            return Finding::note("round-trip", at, format_args!("{trip:.2?} (the middle one of {TRIPS})"));
        }
        let what = format!("a round trip takes {trip:.2?}, and a call may take {limit:?}");
        let why = "a slow moment is a fault, after which renewals are tried again and locks may be lost";
        Finding::new(Severity::Warning, "round-trip", at, what, why).advice(format_args!(
            "lock nearer to the server, or allow more in the URL: ?call-limit={:?}",
            limit * 4
        ))
    }

    /// Checks that a notification on one connection arrives on another.
    async fn push(&self, client: &Client) -> Finding {
        let at = &self.faults.store;
        let limit = 2 * self.address.call_limit;
        let heard = Arc::new(Notify::new());
        let tell: OnNotification = {
            let heard = Arc::clone(&heard);
            Arc::new(move |_, _| heard.notify_one())
        };
        let name = channel::name((self.runtime.random() as u64).cast_signed());
        let listens = async {
            let live = connect(&self.address, &self.faults, &self.runtime, Some(tell)).await?;
            self.asked(self.patience(), live.client.batch_execute(&format!("LISTEN {name}"))).await?;
            let said = [(&name as _, Type::TEXT)];
            self.asked(self.patience(), client.query_typed("SELECT pg_notify($1, '')", &said)).await?;
            let arrived = self.runtime.within(limit, heard.notified()).await.is_some();
            Ok::<_, Fault>(arrived)
        };
        let why = "waiters ask several times a second for their turn, and holders hear late of a lease that was broken";
        match listens.await {
            Ok(true) => Finding::note("push", at, "a notification arrived on another connection"),
            Ok(false) => {
                let what = format!("no notification arrived within {limit:?}");
                Finding::new(Severity::Warning, "push", at, what, why)
                    .advice("if a connection pooler in transaction mode is in between, name the server itself in the store URL")
            }
            Err(fault) => Finding::new(Severity::Warning, "push", at, &fault.reason, why)
                .advice("allow each process two connections to the server"),
        }
    }
}

fn judge_clock(clock: &ClockSeen) -> Finding {
    let apart = Duration::from_micros(clock.ahead.unsigned_abs());
    let which = if clock.ahead < 0 { "behind" } else { "ahead of" };
    let what =
        format!("the server's clock is {apart:.2?} {which} this machine's, give or take {:.2?}", clock.doubt);
    if apart.saturating_sub(clock.doubt) < APART {
        return Finding::note("clock", &clock.at, what);
    }
    let why = "leases and fences are counted on the server's clock: setting it right later may end leases early or late";
    Finding::new(Severity::Warning, "clock", &clock.at, what, why)
        .advice("find out which of the two is wrong, and have it kept there: timedatectl set-ntp true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_wrong_only_beyond_the_uncertainty_of_the_measurement() {
        let judged = |ahead, doubt| {
            judge_clock(&ClockSeen { at: "h".into(), ahead, doubt: Duration::from_millis(doubt) })
        };
        assert_eq!(judged(-1_500_000, 0).severity, Severity::Warning);
        assert!(judged(-1_500_000, 0).what.contains("1.50s behind"));
        assert_eq!(judged(1_500_000, 600).severity, Severity::Note);
    }
}
