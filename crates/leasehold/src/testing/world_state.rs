//! The state that all processes of a world share: the time, the timers, the tasks that have work to
//! do, and the faults.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use leasehold_core::{BoxFuture, Instant, locked};
use tokio::sync::Notify;

use crate::runtime::PausedClock;

/// The lease clock's time when a world begins. Not zero, so that a forgotten offset shows.
const BEGIN: Instant = Instant::from_nanos(1_000_000_000_000);

#[derive(Debug)]
pub(super) struct WorldState {
    /// The test's own clock, if it is paused: then the world's time is that clock's.
    paused: Option<PausedClock>,
    /// The time since the world began, in nanoseconds.
    passed: AtomicU64,
    drawn: AtomicU64,
    /// Grows with every activity, so that an observer sees whether anything was done.
    activity: AtomicU64,
    state: Mutex<State>,
    /// Notifies delayed calls that the faults have changed.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    timers: BTreeMap<(Instant, u64), Timer>,
    watched: BTreeMap<u64, Arc<Flag>>,
    last_number: u64,
    process_faults: Vec<ProcessFaults>,
    /// The outage for processes to come.
    outage: Option<Outage>,
}

/// The faults of a process.
#[derive(Clone, Copy, Debug)]
struct ProcessFaults {
    paused: bool,
    outage: Option<Outage>,
}

#[derive(Debug)]
struct Timer {
    process: Option<ProcessId>,
    task: Waker,
    /// Its time has come, but its task has not polled it yet.
    rung: bool,
    /// Nobody waits for its task to poll it.
    overlooked: bool,
}

impl WorldState {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            paused: PausedClock::current(),
            passed: AtomicU64::new(0),
            drawn: AtomicU64::new(0),
            activity: AtomicU64::new(0),
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    pub(super) fn passed(&self) -> Duration {
        match &self.paused {
            Some(clock) => clock.passed(),
            None => Duration::from_nanos(self.passed.load(Ordering::Acquire)),
        }
    }

    pub(super) fn now(&self) -> Instant {
        BEGIN + self.passed()
    }

    /// The test's own clock, if it moves the world's time.
    pub(super) const fn paused(&self) -> Option<&PausedClock> {
        self.paused.as_ref()
    }

    /// Resolves on the test's own clock when the world's time has come to `at`.
    pub(super) fn sleep_until(&self, at: Instant) -> Option<BoxFuture<'static, ()>> {
        self.paused.as_ref().map(|clock| clock.sleep_until(at.saturating_since(BEGIN)))
    }

    /// Distinct, well-spread numbers, which are the same in every run.
    pub(super) fn draw(&self) -> u128 {
        let drawn = u128::from(self.drawn.fetch_add(1, Ordering::Relaxed)) + 1;
        drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
    }

    /// Moves time on to the next timer, but not past `until`, and fires what is due. `false` if no
    /// timer is due by then.
    pub(super) fn step(&self, until: Instant) -> bool {
        let next = {
            let state = locked(&self.state);
            let later = state.timers.range((Excluded((self.now(), u64::MAX)), Unbounded));
            let mut running = later.filter(|(_, timer)| !state.is_paused(timer.process));
            running.next().map(|((at, _), _)| *at).filter(|at| *at <= until)
        };
        let to = next.unwrap_or(until).saturating_since(BEGIN);
        self.passed.fetch_max(u64::try_from(to.as_nanos()).unwrap_or(u64::MAX), Ordering::AcqRel);
        self.ring();
        next.is_some()
    }

    /// Wakes the tasks whose timers are due now.
    fn ring(&self) {
        let now = self.now();
        let mut woken = Vec::new();
        let mut state = locked(&self.state);
        let State { timers, process_faults, .. } = &mut *state;
        for (_, timer) in timers.range_mut(..=(now, u64::MAX)).filter(|(_, timer)| !timer.rung) {
            if !timer.process.is_some_and(|process| process_faults[process].paused) {
                timer.rung = true;
                woken.push(timer.task.clone());
            }
        }
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Polls a timer. It gets a number at its first poll, and is removed when it is ready.
    pub(super) fn poll_timer(
        &self,
        at: Instant,
        process: Option<ProcessId>,
        number: &mut Option<u64>,
        context: &Context<'_>,
    ) -> Poll<()> {
        let mut state = locked(&self.state);
        let before = number.and_then(|number| state.timers.remove(&(at, number)));
        // Do not count a poll that only repeats an earlier one, for example because other futures
        // are polled together with it.
        if before.is_none_or(|timer| timer.rung) {
            self.note_activity();
        }
        if at <= self.now() && !state.is_paused(process) {
            *number = None;
            return Poll::Ready(());
        }
        let number = *number.get_or_insert_with(|| state.next_number());
        let timer = Timer { process, task: context.waker().clone(), rung: false, overlooked: false };
        state.timers.insert((at, number), timer);
        Poll::Pending
    }

    /// Removes a timer that nobody waits for any more.
    pub(super) fn cancel_timer(&self, at: Instant, number: u64) {
        let cancelled = locked(&self.state).timers.remove(&(at, number));
        drop(cancelled);
    }

    /// Watches whether some part of a process has work to do.
    pub(super) fn watch(&self, process: ProcessId, woken: bool) -> Arc<Flag> {
        self.note_activity();
        let mut state = locked(&self.state);
        let number = state.next_number();
        let flag = Arc::new(Flag::new(number, process, woken));
        state.watched.insert(number, flag.clone());
        flag
    }

    pub(super) fn unwatch(&self, flag: &Flag) {
        self.note_activity();
        let gone = locked(&self.state).watched.remove(&flag.number);
        drop(gone);
    }

    /// Returns true if the watched work may continue. Otherwise it is recorded, to be woken when it
    /// may.
    pub(super) fn admits(&self, flag: &Flag, task: &Waker) -> bool {
        let state = locked(&self.state);
        let paused = state.is_paused(Some(flag.process));
        // Under the mutex, so that a process that is resumed concurrently finds it.
        if flag.looks(task, paused) {
            self.note_activity();
        }
        !paused
    }

    /// Returns true if some work has to be done before time may move on.
    pub(super) fn is_busy(&self) -> bool {
        let state = locked(&self.state);
        let rung = |timer: &Timer| timer.rung && !timer.overlooked && !state.is_paused(timer.process);
        state.timers.values().any(rung)
            || state.watched.values().any(|flag| flag.is_busy() && !state.is_paused(Some(flag.process)))
    }

    /// Stops waiting for work that is due but is not polled.
    pub(super) fn overlook(&self) {
        let mut state = locked(&self.state);
        state.timers.values_mut().for_each(|timer| timer.overlooked |= timer.rung);
        state.watched.values().for_each(|flag| flag.overlook());
    }

    pub(super) fn activity(&self) -> u64 {
        self.activity.load(Ordering::Relaxed)
    }

    fn note_activity(&self) {
        self.activity.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn enter_process(&self) -> ProcessId {
        let mut state = locked(&self.state);
        let process_faults = ProcessFaults { paused: false, outage: state.outage };
        state.process_faults.push(process_faults);
        state.process_faults.len() - 1
    }

    pub(super) fn pause(&self, process: ProcessId) {
        locked(&self.state).process_faults[process].paused = true;
    }

    pub(super) fn resume(&self, process: ProcessId) {
        let held_back: Vec<_> = {
            let mut state = locked(&self.state);
            state.process_faults[process].paused = false;
            let of_it = state.watched.values().filter(|flag| flag.process == process);
            of_it.filter_map(|flag| flag.held_back()).collect()
        };
        held_back.into_iter().for_each(Waker::wake);
        self.ring();
    }

    /// Sets the outage between a process, or all without one, and the store from now on.
    pub(super) fn set_outage(&self, process: Option<ProcessId>, outage: Option<Outage>) {
        let mut state = locked(&self.state);
        match process {
            Some(process) => state.process_faults[process].outage = outage,
            None => {
                state.process_faults.iter_mut().for_each(|process_faults| process_faults.outage = outage);
                state.outage = outage;
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }

    pub(super) fn outage(&self, process: ProcessId) -> Option<Outage> {
        locked(&self.state).process_faults[process].outage
    }

    /// Returns true if messages of the store reach this process: a slow store is slow to serve calls.
    pub(super) fn is_notified(&self, process: ProcessId) -> bool {
        matches!(self.outage(process), None | Some(Outage::Slow { .. }))
    }
}

impl State {
    fn is_paused(&self, process: Option<ProcessId>) -> bool {
        process.is_some_and(|process| self.process_faults[process].paused)
    }

    const fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

/// The way in which a store is unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outage {
    /// The store does not answer: a partition, or a server that hangs. A call ends in a fault after
    /// half a second of the world's time; if the outage ends before that, the call is served.
    Silent,
    /// The store is slow: it serves each call this much later. A call that takes half a second of
    /// the world's time or longer is not served, and ends in a fault. Waiters are notified as ever.
    Slow {
        /// How much later.
        by: Duration,
    },
    /// The server is down: each call ends in a fault at once, as during a restart.
    Down,
    /// The store serves requests, but its answers are lost: each call ends in a fault after half a
    /// second of the world's time. The caller cannot know whether the request was served.
    AnswersLost,
    /// The store refuses, and will refuse until somebody repairs it: a wrong password, a missing
    /// permission.
    Refused,
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
