//! Runtimes for tests: one that is driven by hand, and one with the machine's clocks. Neither runs
//! tasks; a store has none.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, SystemTime};

use leasehold_core::{BoxFuture, Instant, Runtime};
use rustix::time::{ClockId, clock_gettime};

/// Clocks that do not advance unless they are set.
#[derive(Debug)]
pub(crate) struct ByHand {
    lease_clock: AtomicU64,
    wall_clock: AtomicU64,
    /// The threads that read the lease clock, as each transaction does.
    pub(crate) readers: Mutex<HashSet<ThreadId>>,
}

impl ByHand {
    /// A minute after the boot, in 2023; in microseconds, like all times here.
    pub(crate) fn new() -> Arc<Self> {
        let (lease_clock, wall_clock) = (60_000_000.into(), 1_700_000_000_000_000.into());
        Arc::new(Self { lease_clock, wall_clock, readers: Mutex::default() })
    }

    pub(crate) fn lease_clock(&self) -> u64 {
        self.lease_clock.load(Ordering::SeqCst)
    }

    pub(crate) fn wall_clock(&self) -> u64 {
        self.wall_clock.load(Ordering::SeqCst)
    }

    pub(crate) fn set_lease_clock(&self, micros: u64) {
        self.lease_clock.store(micros, Ordering::SeqCst);
    }

    pub(crate) fn set_wall_clock(&self, micros: u64) {
        self.wall_clock.store(micros, Ordering::SeqCst);
    }

    pub(crate) fn pass(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap();
        self.lease_clock.fetch_add(micros, Ordering::SeqCst);
        self.wall_clock.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Runtime for ByHand {
    fn now(&self) -> Instant {
        self.readers.lock().unwrap().insert(thread::current().id());
        Instant::from_nanos(self.lease_clock() * 1000)
    }

    fn since_epoch(&self) -> Duration {
        Duration::from_micros(self.wall_clock())
    }

    fn sleep_until(&self, _: Instant) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _: BoxFuture<'static, ()>) {}

    fn random(&self) -> u128 {
        RandomState::new().build_hasher().finish().into()
    }
}

/// The clocks of this machine.
#[derive(Debug)]
pub(crate) struct OfTheMachine;

impl Runtime for OfTheMachine {
    fn now(&self) -> Instant {
        let time = clock_gettime(ClockId::Boottime);
        let (seconds, nanos) = (u64::try_from(time.tv_sec).unwrap(), u64::try_from(time.tv_nsec).unwrap());
        Instant::from_nanos(seconds * 1_000_000_000 + nanos)
    }

    fn since_epoch(&self) -> Duration {
        SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        let rest = at.saturating_since(self.now());
        Box::pin(async move { tokio::time::sleep(rest).await })
    }

    fn spawn(&self, _: BoxFuture<'static, ()>) {}

    fn random(&self) -> u128 {
        RandomState::new().build_hasher().finish().into()
    }
}
