//! Tokio's clock, paused by a test: it stops while there is work to do, and jumps to the next timer
//! when there is none.

use std::time::Duration;

use leasehold_core::BoxFuture;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// The paused clock of the runtime in which it was found.
#[derive(Debug)]
pub(crate) struct PausedClock {
    handle: Handle,
    start: Instant,
}

impl PausedClock {
    /// The clock of the current runtime; `None` if it is not paused.
    pub(crate) fn current() -> Option<Self> {
        let handle = Handle::try_current().ok()?;
        super::paused_now().map(|start| Self { handle, start })
    }

    /// The time since this was made.
    pub(crate) fn passed(&self) -> Duration {
        // Each runtime has its own paused clock, and this may be called by a thread of another one.
        let _runtime = self.handle.enter();
        self.start.elapsed()
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
