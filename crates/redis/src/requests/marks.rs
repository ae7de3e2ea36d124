//! Marks: records that a job was done.

use std::time::Duration;

use leasehold_core::{Attempt, Fault, HoldAnswer, Key, Mark, Marked};

use crate::client::Client;
use crate::connection::route::Route;
use crate::reply::{mark_in, marked_in};
use crate::script::{MARKED, mark_call, side_call};
use crate::slot::Side;

impl Client {
    /// A mark that comes late is written if the attempt still holds its keys; it was true when it
    /// was sent.
    pub(crate) async fn mark(
        &self,
        attempt: &Attempt,
        mark: &Mark,
        keep: Duration,
        route: &mut Route,
    ) -> Result<HoldAnswer, Fault> {
        let heard = self
            .call(route, &mark_call(attempt, mark, keep, self.asked_alone()), self.limit(attempt.ttl))
            .await?;
        self.read(heard, |value| mark_in(value, attempt))
    }

    pub(crate) async fn marked(&self, key: &Key, route: &mut Route) -> Result<Marked, Fault> {
        let heard = self.call(route, &side_call(&MARKED, Side::Mark, key), self.call_limit).await?;
        self.read(heard, |value| marked_in(value, key))
    }
}
