//! The workers of a soak test, and their faults.

use std::{
    collections::BTreeMap,
    env, io, thread,
    time::{Duration, Instant},
};

use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _};
use servers::Process;

use crate::{
    Plan,
    history::{self, EventKind, HistoryWriter, now},
};

/// Longer than a lease, a claim window, and the time within which every waiter asks again.
const LONGEST_STOP: Duration = Duration::from_secs(6);

/// The length of most stops.
const SHORT_STOP: Duration = Duration::from_millis(400);

/// The time between two kills or stops.
const REST: Duration = Duration::from_millis(1200);

/// How long to wait for a call that a kill or stop should interrupt.
const CALLS_WITHIN: Duration = Duration::from_millis(300);

/// Worker processes, killed when this is dropped.
#[derive(Debug)]
pub(crate) struct WorkerGroup {
    plans: Vec<Plan>,
    writer: HistoryWriter,
    workers: BTreeMap<u32, Process>,
    started: usize,
    seed: u64,
}

impl WorkerGroup {
    /// Starts this many workers, which use the plans in turn.
    pub(crate) fn start(plans: Vec<Plan>, workers: usize, seed: u64) -> io::Result<Self> {
        let writer = HistoryWriter::at(&plans[0].history)?;
        let mut group = Self { plans, writer, workers: BTreeMap::new(), started: 0, seed };
        for _ in 0..workers {
            group.add()?;
        }
        Ok(group)
    }

    pub(crate) fn tasks(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let tasks = 1..=self.plans[0].tasks;
        self.workers.keys().flat_map(move |process| tasks.clone().map(move |task| (*process, task)))
    }

    /// Kills and stops workers until `end`. Then all that live are continued.
    pub(crate) fn endures(&mut self, end: Instant, dice: &mut StdRng) -> io::Result<()> {
        while Instant::now() < end {
            thread::sleep(REST.mul_f64(dice.random()));
            let alive: Vec<_> = self.workers.keys().copied().collect();
            let Some(&worker) = alive.choose(dice) else { return Ok(()) };
            self.until_it_calls(worker)?;
            if dice.random_bool(0.4) {
                self.kill(worker);
                self.add()?;
            } else {
                let most = if dice.random_bool(0.2) { LONGEST_STOP } else { SHORT_STOP };
                self.stop_for(worker, most.mul_f64(dice.random()))?;
            }
        }
        Ok(())
    }

    /// Sends SIGTERM to all at once. Returns those that did not end cleanly.
    pub(crate) fn dismiss(mut self) -> Vec<String> {
        thread::scope(|scope| {
            let ends: Vec<_> =
                self.workers.values_mut().map(|process| scope.spawn(|| process.end_well())).collect();
            ends.into_iter().filter_map(|end| end.join().expect("it does not panic").err()).collect()
        })
    }

    fn add(&mut self) -> io::Result<()> {
        let plan = &self.plans[self.started % self.plans.len()];
        self.started += 1;
        // A seed per worker, with room for the number of a task.
        let seed = self.seed.wrapping_mul(1009).wrapping_add(self.started as u64) % (1 << 56);
        let words = ["worker".to_owned(), seed.to_string()].into_iter().chain(plan.words());
        let process = Process::start(&env::current_exe()?, words)?;
        self.workers.insert(process.id(), process);
        Ok(())
    }

    /// Waits briefly until a call of this worker is in flight, according to its last entry.
    fn until_it_calls(&self, worker: u32) -> io::Result<()> {
        let history = &self.plans[0].history;
        let mut read = history::length(history)?;
        let begun = Instant::now();
        while begun.elapsed() < CALLS_WITHIN {
            let entries = history::read_on(history, &mut read)?;
            let last = entries.iter().rfind(|entry| entry.process == worker && entry.task > 0);
            if last.is_some_and(|entry| {
                matches!(
                    entry.what,
                    EventKind::AsksFor(_) | EventKind::LetsGo { .. } | EventKind::Breaks { .. }
                )
            }) {
                break;
            }
            thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    fn kill(&mut self, worker: u32) {
        if let Some(mut process) = self.workers.remove(&worker) {
            self.writer.note(now(), worker, 0, EventKind::Killed);
            process.kill();
        }
    }

    fn stop_for(&mut self, worker: u32, time: Duration) -> io::Result<()> {
        let process = self.workers.get_mut(&worker).expect("it is one of the crew");
        self.writer.note(now(), worker, 0, EventKind::Stopped);
        process.stop()?;
        thread::sleep(time);
        self.writer.note(now(), worker, 0, EventKind::Continued);
        process.cont()
    }
}
