//! The current time, and the processor time used.

use rustix::time::{ClockId, clock_gettime};

pub use competitor::now;

/// Nanoseconds of processor time that this process has used, in all its threads.
pub fn processor() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
