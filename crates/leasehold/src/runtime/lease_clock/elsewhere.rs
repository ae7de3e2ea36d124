//! The clock of leases on systems other than Unix. On Windows, the standard library's clock
//! (`QueryPerformanceCounter`) counts sleep. It only tells the time between two moments, so this
//! clock counts from its own start.

use std::sync::LazyLock;

use leasehold_core::Instant;

/// The start of this clock, before every lease of this process. Only the file store compares these
/// times between processes, and it is not available here.
static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);

/// The lease clock, independent of the paused time of a test.
pub(crate) fn lease_clock() -> Instant {
    let start = *START;
    Instant::from_nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}
