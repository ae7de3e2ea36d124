//! Time, tasks and future events: one thing happens at a time, in an order that the dice decide.
//! They choose from a set, not a queue, of runnable tasks: the order in which these were woken
//! depends on hash tables and on tokio's own randomness.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use leasehold_core::{BoxFuture, locked};

use crate::dice::Dice;

type Event = Box<dyn FnOnce() + Send>;

/// The time of an event, and its number: at the same time, the first scheduled happens first.
pub(crate) type Moment = (u64, u64);

/// A process, whose tasks do not run while it is paused.
pub(crate) trait Process: Send + Sync {
    fn number(&self) -> usize;

    fn is_paused(&self) -> bool;

    /// Keeps the waker of a task that cannot run while the process is paused.
    fn hold_back(&self, waker: Waker);
}

pub(crate) struct Executor {
    now: AtomicU64,
    ready: Arc<Ready>,
    state: Mutex<State>,
}

#[derive(Default)]
struct Ready(Mutex<BTreeSet<u64>>);

struct State {
    tasks: BTreeMap<u64, Task>,
    last_task: u64,
    agenda: BTreeMap<Moment, Due>,
    last_due: u64,
    dice: Dice,
}

struct Task {
    process: Arc<dyn Process>,
    /// `None` while it is polled.
    future: Option<BoxFuture<'static, ()>>,
    waker: Waker,
}

/// A task that is polled next: its number, its process, the future, the waker.
type Chosen = (u64, Arc<dyn Process>, BoxFuture<'static, ()>, Waker);

enum Due {
    Wakes(Waker),
    Happens(Event),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stepped {
    Polled,
    Panicked(String),
    /// Time advanced to the next event.
    Happened,
    /// There is nothing left to do.
    Over,
}

impl Executor {
    pub(crate) fn new(dice: Dice) -> Self {
        let state =
            State { tasks: BTreeMap::new(), last_task: 0, agenda: BTreeMap::new(), last_due: 0, dice };
        Self { now: AtomicU64::new(0), ready: Arc::default(), state: Mutex::new(state) }
    }

    /// The world's time in nanoseconds. No process in the world can see it.
    pub(crate) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    pub(crate) fn spawn(&self, process: Arc<dyn Process>, future: BoxFuture<'static, ()>) {
        let mut state = locked(&self.state);
        state.last_task += 1;
        let number = state.last_task;
        let waker = Waker::from(Arc::new(TaskWaker { number, ready: self.ready.clone() }));
        state.tasks.insert(number, Task { process, future: Some(future), waker });
        drop(state);
        locked(&self.ready.0).insert(number);
    }

    pub(crate) fn wake_at(&self, at: u64, waker: Waker) -> Moment {
        self.enter(at, Due::Wakes(waker))
    }

    pub(crate) fn at(&self, at: u64, event: impl FnOnce() + Send + 'static) {
        self.enter(at, Due::Happens(Box::new(event)));
    }

    fn enter(&self, at: u64, due: Due) -> Moment {
        let mut state = locked(&self.state);
        state.last_due += 1;
        let moment = (at, state.last_due);
        state.agenda.insert(moment, due);
        moment
    }

    pub(crate) fn cancel(&self, moment: Moment) {
        let cancelled = locked(&self.state).agenda.remove(&moment);
        drop(cancelled);
    }

    /// Wakes all tasks of a process, so that they read its clock again.
    pub(crate) fn wake_all(&self, process: usize) {
        let state = locked(&self.state);
        let numbers = state.tasks.iter().filter(|(_, task)| task.process.number() == process);
        locked(&self.ready.0).extend(numbers.map(|(number, _)| *number));
    }

    /// Ends all tasks of a process; without a process, all tasks and all events.
    pub(crate) fn end(&self, process: Option<usize>) {
        let mut state = locked(&self.state);
        let ends = |task: &Task| process.is_none_or(|process| task.process.number() == process);
        let numbers: Vec<_> =
            state.tasks.iter().filter(|(_, task)| ends(task)).map(|(number, _)| *number).collect();
        let tasks: Vec<_> = numbers.iter().filter_map(|number| state.tasks.remove(number)).collect();
        let agenda = if process.is_none() { std::mem::take(&mut state.agenda) } else { BTreeMap::new() };
        drop(state);
        // Dropped tasks may read the clock or cancel timers, so the state must not be locked here.
        drop((tasks, agenda));
    }

    /// Returns true if some task can run before time advances.
    pub(crate) fn is_busy(&self) -> bool {
        let ready = locked(&self.ready.0);
        let state = locked(&self.state);
        ready.iter().any(|number| state.tasks.get(number).is_some_and(|task| !task.process.is_paused()))
    }

    /// Polls one task, or if none can run, lets the next event happen.
    pub(crate) fn step(&self) -> Stepped {
        while let Some((number, process, mut future, waker)) = self.choose() {
            if process.is_paused() {
                self.put_back(number, future);
                process.hold_back(waker);
                continue;
            }
            let polled =
                catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker))));
            match polled {
                Ok(Poll::Pending) => self.put_back(number, future),
                Ok(Poll::Ready(())) => self.forget(number),
                Err(panic) => {
                    self.forget(number);
                    let text = panic.downcast_ref::<String>().cloned();
                    let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
                    return Stepped::Panicked(text.unwrap_or_default());
                }
            }
            return Stepped::Polled;
        }
        let next = locked(&self.state).agenda.pop_first();
        let Some(((at, _), due)) = next else { return Stepped::Over };
        self.now.fetch_max(at, Ordering::Relaxed);
        match due {
            Due::Wakes(waker) => waker.wake(),
            Due::Happens(event) => event(),
        }
        Stepped::Happened
    }

    fn choose(&self) -> Option<Chosen> {
        loop {
            let mut ready = locked(&self.ready.0);
            let mut state = locked(&self.state);
            if ready.is_empty() {
                return None;
            }
            let nth = state.dice.one_of(ready.len());
            let number = ready.iter().nth(nth).copied()?;
            ready.remove(&number);
            if let Some(task) = state.tasks.get_mut(&number)
                && let Some(future) = task.future.take()
            {
                return Some((number, task.process.clone(), future, task.waker.clone()));
            }
        }
    }

    /// Keeps the task, unless it was ended while it was polled.
    fn put_back(&self, number: u64, future: BoxFuture<'static, ()>) {
        let mut state = locked(&self.state);
        let dropped = match state.tasks.get_mut(&number) {
            Some(task) => task.future.replace(future),
            None => Some(future),
        };
        drop(state);
        drop(dropped);
    }

    fn forget(&self, number: u64) {
        let task = locked(&self.state).tasks.remove(&number);
        drop(task);
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").finish_non_exhaustive()
    }
}

struct TaskWaker {
    number: u64,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        locked(&self.ready.0).insert(self.number);
    }
}
