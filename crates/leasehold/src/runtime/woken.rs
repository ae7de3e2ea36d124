//! Threads that wait for a future. They use no data of the thread, which are gone when a guard among
//! them is dropped or released.

use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use leasehold_core::{Instant, locked};

use super::clock::lease_clock;

/// Blocks this thread until `future` is ready.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let (mut future, woken) = (pin!(future), Arc::new(Woken::default()));
    let waker = Waker::from(woken.clone());
    loop {
        if let Poll::Ready(ready) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return ready;
        }
        woken.wait();
    }
}

/// Wakes a thread that waits.
#[derive(Debug, Default)]
pub(super) struct Woken {
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl Woken {
    /// Waits until it is woken.
    fn wait(&self) {
        let waited = self.changed.wait_while(locked(&self.is_woken), |woken| !*woken);
        *waited.unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Waits until it is woken. `false` if the time is up before.
    pub(super) fn wait_until(&self, end: Instant) -> bool {
        let left = end.saturating_since(lease_clock());
        let waited = self.changed.wait_timeout_while(locked(&self.is_woken), left, |woken| !*woken);
        std::mem::take(&mut *waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        *locked(&self.is_woken) = true;
        self.changed.notify_one();
    }
}
