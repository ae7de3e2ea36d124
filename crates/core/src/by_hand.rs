//! For unit tests: a runtime that is driven by hand, and a waker that counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Poll, Wake};
use std::time::Duration;

use crate::{BoxFuture, Instant, Runtime};

/// A clock that is set by hand; timers are checked only when polled. Tasks run on tokio.
#[derive(Debug, Default)]
pub(crate) struct ByHand(Arc<AtomicU64>);

impl ByHand {
    pub(crate) fn set(&self, now: Instant) {
        self.0.store(now.as_nanos(), Ordering::Relaxed);
    }
}

impl Runtime for ByHand {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn since_epoch(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        let clock = Arc::clone(&self.0);
        Box::pin(std::future::poll_fn(move |_| {
            if clock.load(Ordering::Relaxed) >= at.as_nanos() { Poll::Ready(()) } else { Poll::Pending }
        }))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }

    fn random(&self) -> u128 {
        0
    }
}

/// Counts how often it was woken.
#[derive(Debug, Default)]
pub(crate) struct Woken(AtomicUsize);

impl Woken {
    pub(crate) fn times(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
