//! A runtime in which nothing happens.

use std::{sync::Mutex, time::Duration};

use leasehold_core::{BoxFuture, Instant, Runtime, locked};

/// Time stands still, spawned tasks never run, and sleeps never end.
#[derive(Debug, Default)]
pub struct Asleep(Mutex<Option<Instant>>);

impl Asleep {
    /// The end of the sleep that was requested last.
    pub fn until(&self) -> Option<Instant> {
        *locked(&self.0)
    }
}

impl Runtime for Asleep {
    fn now(&self) -> Instant {
        Instant::from_nanos(0)
    }

    fn since_epoch(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        *locked(&self.0) = Some(at);
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _: BoxFuture<'static, ()>) {}

    fn random(&self) -> u128 {
        0
    }
}
