//! A flag that tells whether a piece of work of a process has something to do.

use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use leasehold_core::locked;

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
