//! Measures how long the machine gave this process no processor, and so workers and servers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// The time between two wake-ups.
const BEAT: Duration = Duration::from_millis(5);

/// A thread that only measures how late it is woken.
#[derive(Debug)]
pub(crate) struct Pulse {
    longest: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pulse {
    pub(crate) fn begin() -> Self {
        let (longest, ends) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let thread = thread::spawn({
            let (longest, ends) = (Arc::clone(&longest), Arc::clone(&ends));
            move || {
                while !ends.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    thread::sleep(BEAT);
                    let late = begun.elapsed().saturating_sub(BEAT);
                    longest.fetch_max(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
                }
            }
        });
        Self { longest, ends, thread: Some(thread) }
    }

    pub(crate) fn longest_stall(&self) -> Duration {
        Duration::from_nanos(self.longest.load(Ordering::Relaxed))
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread does nothing that could panic.
            let _ = thread.join();
        }
    }
}
