//! Runs one seed from its beginning to its end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::{Drift, Locks, Runtime, Store};
use leasehold_core::WaitQueue;

use crate::client::Worker;
use crate::clock::Clock;
use crate::dice::Dice;
use crate::executor::{Executor, Stepped};
use crate::faults;
use crate::flaw::{self, Flaw};
use crate::machine::{Machine, WALL_BEGINS};
use crate::network::{Link, Network};
use crate::node::Node;
use crate::plan::{FaultKind, Plan};
use crate::store::NodeStore;
use crate::watch::Watch;
use crate::world::{Trace, World};

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The seed, which decides everything else.
    pub seed: u64,
    /// The number of steps.
    pub steps: usize,
    /// The number of guards.
    pub grants: usize,
    /// The kinds of faults that happened.
    pub faults: BTreeSet<FaultKind>,
    /// The first broken promise.
    pub violation: Option<String>,
    /// The trace, one line per step, if it was asked for.
    pub trace: Vec<String>,
}

/// The rate of an undisciplined clock, in millionths: it runs slow.
const SLOW: i64 = -80_000;

/// The part of a ttl that holders leave unused where clocks may be as slow as that.
fn allowance() -> Drift {
    Drift::new(90, Duration::from_millis(2)).expect("less than half of a ttl")
}

/// The interval between two looks for starving waiters and remains.
const LOOKS_EVERY: Duration = Duration::from_millis(250);

/// Longer than all jobs of a run together can take.
const LONGEST: Duration = Duration::from_secs(600);

/// More steps than any run takes: a run beyond this loops.
const MOST_STEPS: usize = 2_000_000;

/// Runs a seed. With a flaw, that rule is left out.
#[must_use]
pub fn run(seed: u64, flaw: Option<Flaw>, traced: bool) -> Report {
    let mut dice = Dice::new(seed);
    let plan = Plan::draw(&mut dice);
    let world = build(&plan, &mut dice, flaw, traced);
    world.trace.say(0, || format!("seed {seed}: {plan:?}"));
    let mut run = Run { world, plan, steps: 0 };
    let processes = run.starts(&mut dice);
    run.goes(processes);
    let Run { world, steps, .. } = run;
    // The world and its tasks refer to each other, so without this they would never be freed.
    world.machines.iter().for_each(|machine| machine.crashes());
    world.executor.end(None);
    let trace = world.trace.take();
    let watch = world.watch();
    let (grants, faults, violation) = (watch.grants, watch.faults.clone(), watch.violation.clone());
    Report { seed, steps, grants, faults, violation, trace }
}

fn build(plan: &Plan, dice: &mut Dice, flaw: Option<Flaw>, traced: bool) -> Arc<World> {
    let executor = Arc::new(Executor::new(dice.fork()));
    // Both clocks may be off by as much as the kernel permits, and so differ by the largest amount.
    let fast = |dice: &mut Dice| [-499, -499, 0, 499, 499][dice.one_of(5)];
    let apart = |dice: &mut Dice, most: u64| dice.within(0..2 * most).cast_signed() - most.cast_signed();
    let machine = |number| {
        let fast = if plan.slow_clocks && dice.percent(60) { SLOW } else { fast(dice) };
        let wall = apart(dice, plan.walls_apart);
        Machine::new(number, executor.clone(), fast, wall, dice.fork())
    };
    let machines: Vec<_> = (0..plan.processes).map(machine).collect();
    let node = |_| {
        let shows = WALL_BEGINS.saturating_add_signed(apart(dice, 300_000_000));
        Node::new(Clock::new(shows, fast(dice)), flaw)
    };
    let nodes: Vec<_> = (0..plan.nodes).map(node).collect();
    let mut link = || {
        let least = dice.within(50..2_000);
        Link::new(least..least + dice.within(50..3_000))
    };
    let links = (0..plan.processes).map(|_| (0..plan.nodes).map(|_| link()).collect()).collect();
    let network = Network::new(nodes, links, dice.fork());
    let watch = Watch::new(dice.fork(), plan.nodes == 1, plan.max_ttl);
    World::new(executor, machines, network, watch, flaw, Trace::new(traced))
}

struct Run {
    world: Arc<World>,
    plan: Plan,
    steps: usize,
}

struct Process {
    machine: Arc<Machine>,
    locks: Locks,
    tasks: Vec<Arc<AtomicBool>>,
    closed: Arc<AtomicBool>,
}

impl Run {
    fn starts(&self, dice: &mut Dice) -> Vec<Process> {
        faults::enter(&self.world, &self.plan);
        looks(&self.world);
        let start = |machine: &Arc<Machine>| {
            let locks = self.locks(machine);
            let task = |number| {
                let done = Arc::new(AtomicBool::new(false));
                let worker = Worker {
                    world: self.world.clone(),
                    machine: machine.clone(),
                    locks: locks.clone(),
                    plan: self.plan.clone(),
                    number,
                    dice: dice.fork(),
                    done: done.clone(),
                };
                machine.spawn(Box::pin(worker.work()));
                done
            };
            let tasks = (0..self.plan.tasks).map(task).collect();
            Process { machine: machine.clone(), locks, tasks, closed: Arc::default() }
        };
        self.world.machines.iter().map(start).collect()
    }

    fn locks(&self, machine: &Arc<Machine>) -> Locks {
        let nodes = 0..self.plan.nodes;
        let stores: Vec<Arc<dyn Store>> =
            nodes.map(|node| -> Arc<dyn Store> { NodeStore::new(&self.world, machine, node) }).collect();
        let runtime: Arc<dyn Runtime> = machine.clone();
        let flaw = self.world.flaw;
        let builder = Locks::builder().runtime(runtime.clone()).ttl(self.plan.ttl);
        let builder = match flaw {
            Some(Flaw::NoDrift) => builder.drift(Drift::NONE),
            _ if self.plan.slow_clocks => builder.drift(allowance()),
            _ => builder,
        };
        let store: Arc<dyn Store> = match <[Arc<dyn Store>; 1]>::try_from(stores) {
            Ok([single]) => single,
            Err(members) => {
                let quorum = leasehold::QuorumStore::new(members, self.plan.max_ttl, runtime);
                Arc::new(quorum.expect("a plan makes a quorum that can be"))
            }
        };
        let store =
            if flaw == Some(Flaw::CountedFromAnswer) { flaw::CountedFromAnswer::over(store) } else { store };
        builder.over(store).expect("a plan has a ttl that can be")
    }

    fn goes(&mut self, processes: Vec<Process>) {
        let done = |process: &Process| {
            let tasks = process.tasks.iter().all(|done| done.load(Ordering::Relaxed));
            tasks || !process.machine.is_alive()
        };
        let calm = u64::try_from(self.plan.calm_from.as_nanos()).unwrap_or(0);
        let finished =
            self.until(LONGEST, |run| run.world.executor.now() >= calm && processes.iter().all(done));
        if !finished {
            return self.fail(format!("some jobs were not finished within {LONGEST:?} of the last fault"));
        }
        for process in processes.iter().filter(|process| process.machine.is_alive()) {
            let (locks, closed) = (process.locks.clone(), process.closed.clone());
            process.machine.spawn(Box::pin(async move {
                // Releases that are not confirmed are visible at the nodes.
                let _ = locks.close(Duration::from_secs(5)).await;
                closed.store(true, Ordering::Relaxed);
            }));
        }
        let closed =
            |process: &Process| process.closed.load(Ordering::Relaxed) || !process.machine.is_alive();
        if !self.until(Duration::from_secs(20), |_| processes.iter().all(closed)) {
            return self.fail("a process could not close its locks".into());
        }
        drop(processes);
        // By then all leases and not-afters have passed, and a dead waiter's queue is gone.
        let gone = self.world.executor.now();
        let last = self.plan.max_ttl.max(WaitQueue::KEPT_FOR) + Duration::from_secs(2);
        let last = gone + u64::try_from(last.as_nanos()).unwrap_or(0);
        self.until(Duration::from_secs(60), |run| run.world.executor.now() >= last);
        self.nothing_is_left();
    }

    /// Steps until a condition holds; false if not within this time of now or of the last fault.
    fn until(&mut self, within: Duration, is_so: impl Fn(&Self) -> bool) -> bool {
        let set_back = Duration::from_nanos(self.world.watch().set_back);
        let begun = Duration::from_nanos(self.world.executor.now()).max(self.plan.calm_from);
        let end = u64::try_from((begun + within + set_back).as_nanos()).unwrap_or(u64::MAX);
        while !is_so(self) {
            if self.world.executor.now() >= end || self.steps > MOST_STEPS {
                return false;
            }
            if !self.step() {
                return true;
            }
        }
        true
    }

    /// Makes one step. Returns false if a promise was broken.
    fn step(&mut self) -> bool {
        let world = &self.world;
        if !world.executor.is_busy() {
            world.watch().before_time_goes_on();
        }
        let stepped = world.executor.step();
        self.steps += 1;
        if let Stepped::Panicked(why) = &stepped {
            self.fail(format!("a panic: {why}"));
        }
        let now = world.executor.now();
        let mut watch = world.watch();
        if stepped == Stepped::Over {
            watch.fail("no task or event is left, but the run has not ended".into());
        }
        watch.after_step(now);
        watch.violation.is_none()
    }

    fn nothing_is_left(&self) {
        let now = self.world.executor.now();
        let mut network = self.world.network();
        for (number, node) in network.nodes.iter_mut().enumerate() {
            let (stamp, set_back) = (node.stamp(now), Duration::from_nanos(self.world.watch().set_back));
            node.records.forget_ended(stamp + set_back);
            if !node.records.locks.is_empty() || !node.records.queues.is_empty() {
                let left = format!("n{number}: left after every process had ended: {:?}", node.records);
                self.world.watch().fail(left);
            }
        }
    }

    fn fail(&self, what: String) {
        self.world.watch().fail(what);
    }
}

/// Looks for starving waiters and remains, and schedules the next look.
fn looks(world: &Arc<World>) {
    let now = world.executor.now();
    let network = world.network();
    let mut watch = world.watch();
    for (number, node) in network.nodes.iter().enumerate() {
        watch.look_for_remains(number, node, now);
    }
    watch.look_for_the_starving(now);
    drop((watch, network));
    world.after(LOOKS_EVERY, looks);
}
