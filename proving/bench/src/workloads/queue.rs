use std::thread;
use std::time::Duration;

use super::Workload;
use crate::AnyError;
use crate::backend::OpenStore;
use crate::figure::{Figures, Of};
use crate::order::Order;
use crate::sample::Sample;
use crate::settings::Settings;
use crate::turn::{jain, least_of_most};
use crate::workers::{Race, Workers};

pub(super) const WORKLOAD: Workload = Workload {
    name: "queue",
    title: "The cost and the order of waiting",
    method: "\
Waiters in one process and in eight acquire one key for turns of 1 ms, each equally often. Commands
are counted as frames on the wire between client and server, from before the first waiter joins
until the last has released; without a wire, calls of the store are counted. Fairness is measured
when the first waiter has had all its turns. *Inversions* are pairs of waiters that were served in
another order than they joined; each joined only after the one before it was seen in the queue.
*Commands while held*: 1,000 wait for a holder that stays.",
    run,
};

/// Numbers of waiters, and the turns of each in the full and in the short form: enough that the extra
/// command of a process's first request, which its batch leaves out, is little.
const RACES: [(usize, [u32; 2]); 4] = [(1, [500, 50]), (8, [100, 40]), (64, [30, 12]), (1_000, [3, 2])];

fn run(settings: &Settings, figures: &mut Figures) -> Result<(), AnyError> {
    for backend in settings.backends() {
        for processes in [1, 8].into_iter().filter(|processes| *processes == 1 || backend.is_shared()) {
            figures.announce(&format!("queue on {backend}, {}", of_processes(processes)));
            let store = backend.open();
            let mut workers = Workers::start_counted(&store, processes)?;
            let mut bench = Bench { settings, figures, store: &store, workers: &mut workers };
            bench.turns()?;
            bench.order()?;
            bench.nobody_starves()?;
            bench.long_hold(settings.pick(10, 2))?;
            // On one server of each make: the others would only repeat the result.
            if settings.pick(["redis-7.0", "valkey-9.1"].contains(&backend.name()), false) {
                bench.long_hold(60)?;
            }
        }
    }
    Ok(())
}

fn of_processes(processes: usize) -> String {
    if processes == 1 { "1 process".to_owned() } else { format!("{processes} processes") }
}

struct Bench<'a> {
    settings: &'a Settings,
    figures: &'a mut Figures,
    store: &'a OpenStore,
    workers: &'a mut Workers,
}

impl Bench<'_> {
    fn turns(&mut self) -> Result<(), AnyError> {
        let one_process = self.workers.len() == 1;
        for (waiters, [full, short]) in RACES {
            // Each process asks again every half second: on a busy machine, many calls per turn.
            if waiters == 1_000 && !self.settings.pick(true, one_process) {
                continue;
            }
            let key = format!("turns of {waiters}");
            let each = self.settings.pick(full, short);
            let race = Race { key: &key, waiters, each, hold: 1_000, think: 0 };
            let (mut commands, mut calls, mut fair) =
                (Sample::default(), Sample::default(), Sample::default());
            for _ in 0..self.settings.pick(3, 1) {
                let before = self.store.commands();
                let turns = self.workers.take_turns(&race)?;
                let expected = waiters * each as usize;
                if turns.len() != expected {
                    return Err(format!("{} turns were taken instead of {expected}", turns.len()).into());
                }
                match (before, self.store.commands()) {
                    (Some(before), Some(after)) => commands.push((after - before) as f64 / expected as f64),
                    _ => calls.push(turns.calls_per_turn()),
                }
                fair.push(jain(&turns.shares(waiters, each)));
            }
            let case = self.case(waiters);
            let of = self.of(&case);
            self.figures.add(of, "commands per turn", "", commands);
            self.figures.add(of, "calls per turn", "", calls);
            if waiters == 64 {
                self.figures.add(of, "Jain index", "", fair);
            }
        }
        Ok(())
    }

    fn order(&mut self) -> Result<(), AnyError> {
        for &waiters in self.settings.pick(&[8, 64, 1_000][..], &[8, 64]) {
            let key = format!("order of {waiters}");
            self.workers.tell(0, &Order::Hold { key: key.clone() })?;
            for n in 0..waiters {
                let worker = n % self.workers.len();
                self.workers.tell(
                    worker,
                    &Order::Take { key: key.clone(), waiters: 1, each: 1, hold: 0, think: 0 },
                )?;
                self.workers.tell(0, &Order::Queued { key: key.clone(), waiters: n + 1 })?;
            }
            self.workers.tell(0, &Order::Yield)?;
            let inversions = self.workers.collect()?.inversions();
            let case = self.case(waiters);
            self.figures.add(self.of(&case), "inversions", "", inversions as f64);
        }
        Ok(())
    }

    /// Each holder requests the key again as soon as it has released it.
    fn nobody_starves(&mut self) -> Result<(), AnyError> {
        let (waiters, each) = (8, self.settings.pick(1_000, 100));
        let race = Race { key: "no rest", waiters, each, hold: 0, think: 0 };
        let shares = self.workers.take_turns(&race)?.shares(waiters, each);
        let case = self.case(waiters);
        self.figures.add(self.of(&case), "least ÷ most turns", "", least_of_most(&shares));
        Ok(())
    }

    /// Commands per second and process, from when all waiters are queued until the holder releases.
    fn long_hold(&mut self, seconds: u64) -> Result<(), AnyError> {
        let Some(_) = self.store.commands() else { return Ok(()) };
        let key = format!("held for {seconds} s");
        let race = Race { key: &key, waiters: 1_000, each: 1, hold: 0, think: 0 };
        self.workers.start_queue(&race)?;
        let before = self.store.commands();
        thread::sleep(Duration::from_secs(seconds));
        let after = self.store.commands();
        self.workers.tell(0, &Order::Yield)?;
        self.workers.collect()?;
        let commands = after.zip(before).map_or(f64::NAN, |(after, before)| (after - before) as f64);
        let rate = commands / (seconds * self.workers.len() as u64) as f64;
        let case = format!("{}, {seconds} s", self.case(1_000));
        self.figures.add(self.of(&case), "commands while held", "/s", rate);
        Ok(())
    }

    fn case(&self, waiters: usize) -> String {
        let of = if waiters == 1 { "1 waiter".to_owned() } else { format!("{waiters} waiters") };
        format!("{of}, {}", of_processes(self.workers.len()))
    }

    fn of<'c>(&self, case: &'c str) -> Of<'c> {
        Of { workload: WORKLOAD.name, backend: self.store.backend, case }
    }
}
