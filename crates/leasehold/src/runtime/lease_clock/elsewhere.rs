//! The clock of leases where there is no Unix. Windows counts sleep in the clock of the standard
//! library (`QueryPerformanceCounter`), which shows its time only since another moment.

use std::sync::LazyLock;

use leasehold_core::Instant;

/// No lease of this process is older. No other process reads its times: only the file store does
/// that, which is not available here.
static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);

/// The lease clock, independent of the paused time of a test.
pub(crate) fn lease_clock() -> Instant {
    let start = *START;
    Instant::from_nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}
