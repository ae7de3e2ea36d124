//! The clock of leases on Unix: it also counts the time during which the machine sleeps, and is the
//! same for all processes of the machine.

use leasehold_core::Instant;
use rustix::time::{ClockId, clock_gettime};

/// Linux has a clock that runs during sleep and one that does not.
#[cfg(any(target_os = "linux", target_os = "android"))]
const LEASE_CLOCK: ClockId = ClockId::Boottime;
/// On macOS this one runs during sleep: clock_gettime(3). FreeBSD leaves it open.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const LEASE_CLOCK: ClockId = ClockId::Monotonic;

/// The lease clock, independent of the paused time of a test.
pub(crate) fn lease_clock() -> Instant {
    let time = clock_gettime(LEASE_CLOCK);
    Instant::from_nanos(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}
