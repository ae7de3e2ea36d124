//! Watched work of the locks, so that time moves on only when all work that can be done has been
//! done.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use leasehold_core::{BoxFuture, locked};

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

/// The number of a process in its world.
pub(super) type ProcessId = usize;

/// A flag that says whether a piece of work has something to do.
#[derive(Debug)]
pub(super) struct Flag {
    pub(super) number: u64,
    pub(super) process: ProcessId,
    state: Mutex<FlagState>,
}

#[derive(Debug, Default)]
struct FlagState {
    /// It was woken, and its poll has not started.
    woken: bool,
    looking: bool,
    /// Nobody waits for its poll.
    overlooked: bool,
    task: Option<Waker>,
}

impl Flag {
    pub(super) fn new(number: u64, process: ProcessId, woken: bool) -> Self {
        Self { number, process, state: Mutex::new(FlagState { woken, ..FlagState::default() }) }
    }

    /// Notes a poll, which `held_back` may prevent. Returns true if the work was woken before and
    /// is polled now.
    pub(super) fn looks(&self, task: &Waker, held_back: bool) -> bool {
        let mut state = locked(&self.state);
        let told = state.woken;
        let before = state.task.replace(task.clone());
        (state.woken, state.looking, state.overlooked) = (held_back, !held_back, false);
        drop(state);
        drop(before);
        told && !held_back
    }

    pub(super) fn looked(&self) {
        locked(&self.state).looking = false;
    }

    /// The waker of work whose poll was held back.
    pub(super) fn held_back(&self) -> Option<Waker> {
        let state = locked(&self.state);
        state.task.clone().filter(|_| state.woken)
    }

    pub(super) fn is_busy(&self) -> bool {
        let state = locked(&self.state);
        (state.woken || state.looking) && !state.overlooked
    }

    pub(super) fn overlook(&self) {
        let mut state = locked(&self.state);
        state.overlooked = state.woken || state.looking;
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        let task = {
            let mut state = locked(&self.state);
            (state.woken, state.overlooked) = (true, false);
            state.task.clone()
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}
