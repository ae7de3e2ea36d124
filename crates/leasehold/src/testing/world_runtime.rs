//! Clock and timers that a test moves by hand, and tasks on tokio that are watched.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold_core::{BoxFuture, Instant, Runtime};

use super::world_state::{Flag, ProcessId, WorldState};
use crate::runtime::TokioRuntime;

/// The wall clock's time when a world begins: the same in every run, so that fences are the same
/// too.
const WALL_BEGIN: Duration = Duration::from_secs(1_800_000_000);

/// The [`Runtime`] of a process, or of the store, which has no tasks.
#[derive(Debug)]
pub(super) struct WorldRuntime {
    pub(super) world: Arc<WorldState>,
    pub(super) of: Option<(ProcessId, TokioRuntime)>,
}

impl Runtime for WorldRuntime {
    fn now(&self) -> Instant {
        self.world.now()
    }

    fn since_epoch(&self) -> Duration {
        WALL_BEGIN + self.world.passed()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        let process = self.of.as_ref().map(|(process, _)| *process);
        Box::pin(Timer { world: self.world.clone(), process, at, number: None, sleep: None })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        if let Some((process, tasks)) = &self.of {
            tasks.spawn(Box::pin(Watched::task(&self.world, *process, task)));
        }
    }

    fn random(&self) -> u128 {
        self.world.draw()
    }
}

struct Timer {
    world: Arc<WorldState>,
    process: Option<ProcessId>,
    at: Instant,
    /// Set once the timer has been polled.
    number: Option<u64>,
    /// The timer of the test's own clock, if that moves the world's time.
    sleep: Option<BoxFuture<'static, ()>>,
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { world, process, at, number, sleep } = &mut *self;
        let polled = world.poll_timer(*at, *process, number, context);
        // A paused process is woken when it is resumed.
        if polled.is_pending() && world.now() < *at {
            *sleep = sleep.take().or_else(|| world.sleep_until(*at));
            if let Some(sleep) = sleep {
                let _ = sleep.as_mut().poll(context);
            }
        }
        polled
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.world.cancel_timer(self.at, number);
        }
    }
}

/// Work of a process. It stops while the process is paused.
pub(super) struct Watched<'a, T> {
    work: Option<BoxFuture<'a, T>>,
    flag: Arc<Flag>,
    world: Arc<WorldState>,
}

impl<'a, T> Watched<'a, T> {
    /// A task: it has work to do at once.
    pub(super) fn task(world: &Arc<WorldState>, process: ProcessId, work: BoxFuture<'a, T>) -> Self {
        Self { work: Some(work), flag: world.watch(process, true), world: world.clone() }
    }

    /// A part of another future: it has work to do when it is woken.
    pub(super) fn part(world: &Arc<WorldState>, process: ProcessId, work: BoxFuture<'a, T>) -> Self {
        Self { work: Some(work), flag: world.watch(process, false), world: world.clone() }
    }
}

impl<T> Future for Watched<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if !self.world.admits(&self.flag, context.waker()) {
            return Poll::Pending;
        }
        let waker = Waker::from(self.flag.clone());
        let Some(work) = self.work.as_mut() else { return Poll::Pending };
        let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
        self.flag.looked();
        polled
    }
}

impl<T> Drop for Watched<'_, T> {
    fn drop(&mut self) {
        // First drop the work, which may still do something, and then report that it is done.
        self.work = None;
        self.world.unwatch(&self.flag);
    }
}
