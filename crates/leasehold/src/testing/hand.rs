//! Clock and timers that a test moves by hand, and tasks on tokio that are watched.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use leasehold_core::{BoxFuture, Instant, Runtime};

use super::stage::{ProcessId, Stage};
use super::watched::Watched;
use crate::runtime::TokioRuntime;

/// The wall clock's time when a world begins: the same in every run, so that fences are the same
/// too.
const WALL_BEGIN: Duration = Duration::from_secs(1_800_000_000);

/// The [`Runtime`] of a process, or of the store, which has no tasks.
#[derive(Debug)]
pub(super) struct Hand {
    pub(super) stage: Arc<Stage>,
    pub(super) of: Option<(ProcessId, TokioRuntime)>,
}

impl Runtime for Hand {
    fn now(&self) -> Instant {
        self.stage.now()
    }

    fn since_epoch(&self) -> Duration {
        WALL_BEGIN + self.stage.passed()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        let process = self.of.as_ref().map(|(process, _)| *process);
        Box::pin(Timer { stage: self.stage.clone(), process, at, number: None })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        if let Some((process, tasks)) = &self.of {
            tasks.spawn(Box::pin(Watched::task(&self.stage, *process, task)));
        }
    }

    fn random(&self) -> u128 {
        self.stage.draw()
    }
}

struct Timer {
    stage: Arc<Stage>,
    process: Option<ProcessId>,
    at: Instant,
    /// Set once the timer has been polled.
    number: Option<u64>,
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { stage, process, at, number } = &mut *self;
        stage.poll_timer(*at, *process, number, context)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.stage.cancel_timer(self.at, number);
        }
    }
}
