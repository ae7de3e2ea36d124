//! The current time, and the processor time used.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds on the clock that all processes of this machine share.
#[must_use]
pub fn now() -> u64 {
    nanos(ClockId::Monotonic)
}

/// Nanoseconds of processor time that this process has used, in all its threads.
#[must_use]
pub fn processor() -> u64 {
    nanos(ClockId::ProcessCPUTime)
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
