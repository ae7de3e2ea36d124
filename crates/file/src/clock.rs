//! The clock on which leases are counted: the same for all processes of the machine, whatever their
//! time namespaces show.

#[cfg_attr(target_os = "linux", path = "clock/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "clock/bsd.rs")]
mod kernel;

use std::sync::Arc;

use leasehold_core::{Instant, Runtime, Stamp};

use crate::error::FileError;

/// A runtime's clocks, but the lease clock shows the time outside all time namespaces.
#[derive(Clone, Debug)]
pub(crate) struct MachineClock {
    runtime: Arc<dyn Runtime>,
    /// The lead of this process's boot clock over the machine's, in nanoseconds, if known.
    ahead: Result<i64, Arc<str>>,
}

impl MachineClock {
    pub(crate) fn of(runtime: Arc<dyn Runtime>) -> Self {
        Self { runtime, ahead: kernel::boot_clock_ahead().map_err(|reason| reason.to_string().into()) }
    }

    /// # Errors
    ///
    /// Why leases cannot be counted here.
    pub(crate) fn check(&self) -> Result<(), FileError> {
        self.ahead.as_ref().map(drop).map_err(FileError::lasting)
    }

    pub(crate) fn now(&self) -> Stamp {
        let nanos = self.runtime.now().as_nanos().saturating_add_signed(-self.ahead());
        Stamp::from_micros(nanos / 1000)
    }

    /// The same moment on the clock of this process.
    pub(crate) fn instant_of(&self, stamp: Stamp) -> Instant {
        let nanos = stamp.as_micros().saturating_mul(1000);
        Instant::from_nanos(nanos.saturating_add_signed(self.ahead()))
    }

    pub(crate) fn runtime(&self) -> &dyn Runtime {
        &*self.runtime
    }

    fn ahead(&self) -> i64 {
        self.ahead.as_ref().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stopped_clock::StoppedClock;

    #[test]
    fn a_moment_is_the_same_one_on_both_clocks() {
        for ahead in [-500_000_000, 0, 500_000_000] {
            let clock = MachineClock { runtime: Arc::new(StoppedClock), ahead: Ok(ahead) };
            assert_eq!(clock.instant_of(clock.now()), StoppedClock.now());
        }
    }
}
