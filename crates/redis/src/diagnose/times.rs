//! Measures round trips, and compares the server's clock with ours.

use std::sync::Arc;

use leasehold_core::{Fault, RoundTrips};
use redis::cmd;

use super::diagnosis_run::DiagnosisRun;
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
}
