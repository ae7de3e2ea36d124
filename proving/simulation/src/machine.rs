//! A process, and its environment: its clocks, timers, tasks and randomness.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold_core::{BoxFuture, Instant, Runtime, locked};

use crate::clock::Clock;
use crate::dice::Dice;
use crate::executor::{Executor, Moment, Process};

/// The time that wall clocks show when the world begins, in nanoseconds since 1970.
pub(crate) const WALL_BEGINS: u64 = 1_800_000_000_000_000_000;

/// A process of the simulated world.
pub(crate) struct Machine {
    pub(crate) number: usize,
    executor: Arc<Executor>,
    /// The same machine, for the tasks that it starts.
    this: std::sync::Weak<Self>,
    state: Mutex<State>,
    alive: AtomicBool,
    paused: AtomicBool,
}

struct State {
    lease_clock: Clock,
    wall_clock: Clock,
    dice: Dice,
    /// Tasks that were woken while the process was paused.
    held_back: Vec<Waker>,
}

impl Machine {
    pub(crate) fn new(
        number: usize,
        executor: Arc<Executor>,
        fast: i64,
        wall: i64,
        mut dice: Dice,
    ) -> Arc<Self> {
        // Machines were started at different times.
        let lease_clock = Clock::new(dice.within(1_000_000_000..900_000_000_000_000), fast);
        let wall_clock = Clock::new(WALL_BEGINS.saturating_add_signed(wall), 0);
        let state = State { lease_clock, wall_clock, dice, held_back: Vec::new() };
        Arc::new_cyclic(|this| Self {
            number,
            executor,
            this: this.clone(),
            state: Mutex::new(state),
            alive: AtomicBool::new(true),
            paused: AtomicBool::new(false),
        })
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Relaxed)
    }

    /// Ends the process at once: messages that it would send while it unwinds reach nobody.
    pub(crate) fn crashes(&self) {
        self.alive.store(false, Ordering::Relaxed);
        self.executor.end(Some(self.number));
        self.resumes();
    }

    /// Pauses the process; its clocks run on.
    pub(crate) fn pauses(&self) {
        self.paused.store(true, Ordering::Relaxed);
    }

    pub(crate) fn resumes(&self) {
        self.paused.store(false, Ordering::Relaxed);
        let woken = std::mem::take(&mut locked(&self.state).held_back);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Changes the rate of its lease clock from now on.
    pub(crate) fn runs(&self, fast: i64) {
        let now = self.executor.now();
        locked(&self.state).lease_clock.runs(now, fast);
        self.executor.wake_all(self.number);
    }

    pub(crate) fn wall_jumps(&self, by: i64) {
        locked(&self.state).wall_clock.jumps(by);
    }
}

impl Process for Machine {
    fn number(&self) -> usize {
        self.number
    }

    fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    fn hold_back(&self, waker: Waker) {
        locked(&self.state).held_back.push(waker);
    }
}

impl Runtime for Machine {
    fn now(&self) -> Instant {
        let now = self.executor.now();
        Instant::from_nanos(locked(&self.state).lease_clock.at(now))
    }

    fn since_epoch(&self) -> Duration {
        let now = self.executor.now();
        Duration::from_nanos(locked(&self.state).wall_clock.at(now))
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        match self.this.upgrade() {
            Some(machine) => Box::pin(Sleep { machine, at, moment: None }),
            None => Box::pin(std::future::pending()),
        }
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        if let Some(this) = self.this.upgrade().filter(|_| self.is_alive()) {
            self.executor.spawn(this, task);
        }
    }

    fn random(&self) -> u128 {
        let mut state = locked(&self.state);
        u128::from(state.dice.roll()) << 64 | u128::from(state.dice.roll())
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Machine({})", self.number)
    }
}

/// A timer that rings when the machine's own clock shows a time.
struct Sleep {
    machine: Arc<Machine>,
    at: Instant,
    moment: Option<Moment>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.machine.now() >= self.at {
            return Poll::Ready(());
        }
        let when = locked(&self.machine.state).lease_clock.when(self.at.as_nanos());
        if self.moment.is_none_or(|(set, _)| set != when) {
            self.cancel();
            self.moment = Some(self.machine.executor.wake_at(when, context.waker().clone()));
        }
        Poll::Pending
    }
}

impl Sleep {
    fn cancel(&mut self) {
        if let Some(moment) = self.moment.take() {
            self.machine.executor.cancel(moment);
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.cancel();
    }
}
