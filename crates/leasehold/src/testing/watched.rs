//! Watched work of the locks, so that time moves on only when all work that can be done has been
//! done.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use leasehold_core::BoxFuture;

use super::flag::{Flag, ProcessId};
use super::world_state::WorldState;

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
