//! A runtime on tokio's paused clock: an hour passes in a moment, and times are exact.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_core::{BoxFuture, Instant, Runtime, locked};
use tokio::runtime::Handle;

/// The lease clock's reading when a test begins. Not zero, so that a forgotten offset is noticed.
const BEGIN: Instant = Instant::from_nanos(1_000_000_000_000);

/// The wall clock's reading when a test begins, in seconds since 1970.
const WALL_BEGIN: u64 = 1_800_000_000;

/// A [`Runtime`] for tests that begin with `#[tokio::test(start_paused = true)]`.
#[derive(Debug)]
pub struct VirtualTime {
    handle: Handle,
    begin: tokio::time::Instant,
    drawn: AtomicU64,
    /// The number that is always drawn instead of a random one.
    always_draws: Mutex<Option<u128>>,
}

impl VirtualTime {
    /// A runtime that begins now, in the current tokio runtime.
    pub fn begin() -> Arc<Self> {
        let begin = tokio::time::Instant::now();
        let (drawn, always_draws) = (AtomicU64::new(0), Mutex::default());
        Arc::new(Self { handle: Handle::current(), begin, drawn, always_draws })
    }

    /// From now on, this number is drawn every time.
    pub fn draws(&self, always: u128) {
        *locked(&self.always_draws) = Some(always);
    }

    pub fn passed(&self) -> Duration {
        self.begin.elapsed()
    }
}

impl Runtime for VirtualTime {
    fn now(&self) -> Instant {
        BEGIN + self.begin.elapsed()
    }

    fn since_epoch(&self) -> Duration {
        Duration::from_secs(WALL_BEGIN) + self.begin.elapsed()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        let left = at.saturating_since(self.now());
        // Counted from now on, and not from the first poll.
        let end = tokio::time::Instant::now() + left;
        Box::pin(async move {
            if !left.is_zero() {
                tokio::time::sleep_until(end).await;
            }
        })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        drop(self.handle.spawn(task));
    }

    /// Distinct and well spread, and the same in every run, unless a fixed number is drawn.
    fn random(&self) -> u128 {
        let drawn = u128::from(self.drawn.fetch_add(1, Ordering::Relaxed)) + 1;
        let mixed = drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        locked(&self.always_draws).unwrap_or(mixed)
    }
}
