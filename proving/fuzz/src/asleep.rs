//! A runtime in which nothing happens.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use leasehold_core::{BoxFuture, Instant, Runtime};

/// Time stands still, spawned tasks never run, and sleeps never end.
#[derive(Debug, Default)]
pub struct Asleep(Mutex<Option<Instant>>);

impl Asleep {
    /// The end of the sleep that was requested last.
    pub fn until(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _: BoxFuture<'static, ()>) {}

    fn random(&self) -> u128 {
        0
    }
}
