//! A runtime for unit tests in which no time passes.

use std::time::Duration;

use leasehold_core::{BoxFuture, Instant, Runtime};

#[derive(Debug)]
pub(crate) struct StoppedClock;

impl Runtime for StoppedClock {
    fn now(&self) -> Instant {
        Instant::from_nanos(1_000_000_000)
    }

    fn since_epoch(&self) -> Duration {
        Duration::from_secs(1_700_000_000)
    }

    fn sleep_until(&self, _: Instant) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _: BoxFuture<'static, ()>) {}

    fn random(&self) -> u128 {
        0
    }
}
