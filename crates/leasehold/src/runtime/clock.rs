//! The clocks: that of leases, the wall clock, and tokio's when a test has paused it.

use std::time::{Duration, SystemTime};

#[cfg(feature = "testing")]
use leasehold_core::BoxFuture;
use leasehold_core::Instant;
#[cfg(unix)]
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Handle;

/// Linux has a clock that runs during sleep and one that does not.
#[cfg(any(target_os = "linux", target_os = "android"))]
const LEASE_CLOCK: ClockId = ClockId::Boottime;
/// On macOS this one runs during sleep: clock_gettime(3). FreeBSD leaves it open.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
const LEASE_CLOCK: ClockId = ClockId::Monotonic;

/// The clock of leases, independent of the paused time of a test. It also counts the time during
/// which the machine sleeps, and is the same for all processes of the machine.
#[cfg(unix)]
pub(crate) fn lease_clock() -> Instant {
    let time = clock_gettime(LEASE_CLOCK);
    Instant::from_nanos(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

/// The clock of leases on systems other than Unix. On Windows, the standard library's clock
/// (`QueryPerformanceCounter`) counts sleep. It only tells the time between two moments, so this
/// clock counts from its first use, before every lease of this process. Only the file store compares
/// these times between processes, and it is not available here.
#[cfg(not(unix))]
pub(crate) fn lease_clock() -> Instant {
    use std::sync::LazyLock;

    static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    let start = *START;
    Instant::from_nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

fn wall_clock() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The source of the time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clock {
    Lease,
    /// Tokio's clock, paused by a test: it stops while there is work to do, and jumps to the next
    /// timer when there is none.
    Paused {
        tokio: tokio::time::Instant,
        /// The times of the lease clock and of the wall clock when this was created.
        since: Instant,
        wall: Duration,
    },
}

impl Clock {
    /// Tokio's clock, if it is paused: then it does not move with real time.
    pub(super) fn paused() -> Option<Self> {
        paused_now().map(|tokio| Self::Paused { tokio, since: lease_clock(), wall: wall_clock() })
    }

    pub(super) fn now(self, handle: &Handle) -> Instant {
        match self {
            Self::Lease => lease_clock(),
            Self::Paused { tokio, since, .. } => since + elapsed(tokio, handle),
        }
    }

    pub(super) fn since_epoch(self, handle: &Handle) -> Duration {
        match self {
            Self::Lease => wall_clock(),
            Self::Paused { tokio, wall, .. } => wall + elapsed(tokio, handle),
        }
    }
}

/// The time of tokio's clock, if it is paused.
fn paused_now() -> Option<tokio::time::Instant> {
    let tokio = tokio::time::Instant::now();
    let real = std::time::Instant::now();
    while std::time::Instant::now() == real {}
    Some(tokio).filter(|tokio| tokio::time::Instant::now() == *tokio)
}

/// The time that has passed on a paused clock. Each runtime has its own, and outside a runtime the
/// clock runs; so this enters the runtime, whichever thread calls it.
fn elapsed(since: tokio::time::Instant, handle: &Handle) -> Duration {
    let _runtime = handle.enter();
    since.elapsed()
}

/// The paused clock of the runtime in which it was found.
#[cfg(feature = "testing")]
#[derive(Debug)]
pub(crate) struct PausedClock {
    handle: Handle,
    start: tokio::time::Instant,
}

#[cfg(feature = "testing")]
impl PausedClock {
    /// The clock of the current runtime; `None` if it is not paused.
    pub(crate) fn current() -> Option<Self> {
        let handle = Handle::try_current().ok()?;
        paused_now().map(|start| Self { handle, start })
    }

    /// The time since this was made.
    pub(crate) fn passed(&self) -> Duration {
        elapsed(self.start, &self.handle)
    }

    /// Resolves when that much time has passed since this was made.
    pub(crate) fn sleep_until(&self, passed: Duration) -> BoxFuture<'static, ()> {
        self.sleep(passed.saturating_sub(self.passed()))
    }

    /// Resolves when that much time has passed from now.
    pub(crate) fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let _runtime = self.handle.enter();
        Box::pin(tokio::time::sleep(time))
    }
}
