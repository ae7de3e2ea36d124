//! Measures round trips, and compares the clocks of the server and its replicas with ours.

use std::sync::Arc;

use leasehold_core::{Fault, Finding, RoundTrips, StoreRole};
use redis::cmd;

use super::diagnosis_run::DiagnosisRun;
use super::facts::Facts;
use crate::client::Source;
use crate::reply::time_of;

impl DiagnosisRun<'_> {
    pub(super) async fn times(&mut self) -> Result<(), Fault> {
        let (at, client) = (Arc::clone(&self.setting.at), self.client);
        let mut trips = RoundTrips::to(&at, &*client.runtime);
        for _ in 0..RoundTrips::COUNT {
            let sent = trips.asks();
            let heard = self.ask(vec![cmd("TIME")]).await?.pop();
            trips.hears(sent, heard.and_then(Result::ok).and_then(|value| time_of(&value)));
        }
        let why = "fences are counted on from the server's clock, and `every` goes by it: if it is wrong, setting it right may repeat \
                   a fence after a loss of the server's state, or shift a period";
        trips.tell(client.call_limit, why, &mut self.brought);
        Ok(())
    }

    /// A replica that takes the place of its master ends leases by its own clock. One that serves a
    /// quorum abstains then.
    pub(super) async fn times_of_replicas(&mut self, facts: &Facts) {
        let (Source::Ours(link), StoreRole::Alone) = (&self.client.source, self.setting.role) else { return };
        for replica in facts.replicas() {
            let at = format!("{} (replica at {})", self.client.faults.place(), replica.place).into();
            let mut trips = RoundTrips::to(&at, &*self.client.runtime);
            let sent = trips.asks();
            match link.topology.connector.time_at(&replica.place).await {
                Ok(time) => trips.hears(sent, Some(time)),
                Err(fault) => {
                    let what = format!("not compared: {}", fault.reason);
                    self.brought.findings.push(Finding::note("clock", &at, what));
                }
            }
            let why = "if it takes the place of its master and its clock is ahead, leases end before their holders expect it";
            self.brought.findings.extend(trips.clock(why));
        }
    }
}
