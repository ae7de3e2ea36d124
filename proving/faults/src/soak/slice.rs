//! The run of one topology: workers, faults, and the result.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

use super::{
    calls::Calls,
    circumstances::Circumstances,
    fault::{Fault, Kind},
    judge::Verdict,
    test_bed::{StoreUnderTest, TestBed},
    workers::WorkerGroup,
    workload::{EVERY, ONCE},
};
use crate::{
    ParsedHistory, Plan,
    history::{self, EventKind, HistoryWriter, now},
    judge::slack_of,
    pulse::Pulse,
};

const TASKS: u32 = 10;

const TTL: Duration = Duration::from_secs(2);

/// Within this, every task is served at the beginning, when members abstain, and after the faults.
const PATIENCE: Duration = Duration::from_secs(40);

/// The time of the end: the last are served, a time without faults, and nothing is left.
const AFTERWARDS: Duration = Duration::from_secs(8);

/// The shortest time with faults, however long the beginning took.
const LEAST: Duration = Duration::from_secs(5);

/// A time without faults, which shows that holders of broken leases are notified.
const PEACE: Duration = Duration::from_secs(3);

/// The time between two faults of stores.
const REST: Duration = Duration::from_millis(500);

/// The longest time that a lock may be free: a killed holder's lease and a second, the turn of a waiter
/// that does not hear of it, and another claim window, because the next may suffer the same.
const GAP: Duration = Duration::from_secs(2 + 1 + 5 + 2);

/// The time after which a queue that nobody asks about any more is gone.
const FORGOTTEN_WITHIN: Duration = Duration::from_secs(15 + 2);

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) details: String,
    /// The time during which faults were caused.
    pub(crate) lasted: Duration,
    pub(crate) grants: BTreeMap<&'static str, usize>,
    /// The number of faults of each kind, and how many of them affected a call.
    pub(crate) faults: BTreeMap<String, (usize, usize)>,
    pub(crate) verdict: Verdict,
    pub(crate) bound: Duration,
    pub(crate) stall: Duration,
}

/// Runs one topology with faults of these kinds, until about `end`.
pub(crate) fn run(
    name: &str,
    seed: u64,
    end: Instant,
    kinds: &[Kind],
    directory: &Path,
) -> io::Result<Outcome> {
    let mut dice = StdRng::seed_from_u64(seed);
    let pulse = Pulse::begin();
    let test_bed = TestBed::prepare(name, directory, &mut dice);
    let history = directory.join("history");
    let mut workers = WorkerGroup::start(plans(&test_bed, &history), test_bed.workers, seed)?;
    let mut failures: Vec<String> = served_since(&workers, &history, 0).err().into_iter().collect();

    let begun = Instant::now();
    let end = (end - AFTERWARDS).max(begun + LEAST);
    let faults = thread::scope(|scope| {
        let seeds: [u64; 2] = dice.random();
        let [stores, mut processes] = seeds.map(StdRng::seed_from_u64);
        let stores = scope.spawn(|| strike(&test_bed, kinds, &history, end, stores));
        let endured = workers.endures(end, &mut processes);
        stores
            .join()
            .expect("what it cannot do it says in a panic")
            .and_then(|faults| endured.map(|()| faults))
    })?;
    let lasted = begun.elapsed();

    let healed = history::length(&history)?;
    failures.extend(served_since(&workers, &history, healed).err());
    thread::sleep(PEACE);
    failures.extend(workers.dismiss());
    failures.extend(until_nothing_is_left(&test_bed, FORGOTTEN_WITHIN + slack_of(pulse.longest_stall())));

    let entries = history::read(&history);
    let parsed_history = ParsedHistory::of(&entries);
    let bound = GAP + test_bed.found_within() + slack_of(pulse.longest_stall());
    let mut circumstances = circumstances(&test_bed, &faults, bound, &pulse);
    if matches!(test_bed.place, StoreUnderTest::Memory) {
        // A store in memory is lost with its process.
        let lost = |at| Fault { kind: Kind::RestartedEmpty, from: at, until: at };
        circumstances.forgotten_somewhere.extend(parsed_history.killed.iter().map(|fault| lost(fault.at)));
    }
    let mut verdict = circumstances.judge(&entries, &parsed_history);
    verdict.violations.splice(0..0, failures);
    Ok(Outcome {
        details: test_bed.details(),
        lasted,
        grants: grants(&parsed_history),
        faults: counted(&faults, &parsed_history, &Calls::of(&entries)),
        verdict,
        bound,
        stall: pulse.longest_stall(),
    })
}

fn plans(test_bed: &TestBed, history: &Path) -> Vec<Plan> {
    let plan = |url: &String| {
        let mut plan = Plan::new(url, history);
        (plan.tasks, plan.ttl) = (TASKS, TTL);
        if matches!(test_bed.place, StoreUnderTest::Memory) {
            plan.tasks = 3 * TASKS;
        }
        (plan.hold, plan.think) = (Duration::from_millis(1), Duration::from_millis(10));
        // Long enough to be renewed.
        (plan.long_hold, plan.long_percent, plan.dropped_percent) = (Duration::from_millis(800), 1, 8);
        plan
    };
    test_bed.urls.iter().map(plan).collect()
}

/// Causes faults of the store, one after the other, of these kinds.
fn strike(
    test_bed: &TestBed,
    kinds: &[Kind],
    history: &Path,
    end: Instant,
    mut dice: StdRng,
) -> io::Result<Vec<Fault>> {
    let (writer, mut possible) = (HistoryWriter::at(history)?, test_bed.kinds());
    possible.retain(|kind| kinds.contains(kind));
    let mut faults = Vec::new();
    while Instant::now() < end {
        thread::sleep(REST.mul_f64(dice.random()));
        let Some(&kind) = possible.choose(&mut dice) else { continue };
        let from = now();
        writer.note(from, 0, 0, EventKind::Fault(kind.to_string()));
        test_bed.strike(kind, &mut dice);
        let until = now();
        writer.note(until, 0, 0, EventKind::Healed);
        faults.push(Fault { kind, from, until });
    }
    Ok(faults)
}

/// Waits until every task has been granted something since the history had this length.
fn served_since(workers: &WorkerGroup, history: &Path, length: u64) -> Result<(), String> {
    let mut missing: BTreeSet<_> = workers.tasks().collect();
    let begun = Instant::now();
    let mut read = length;
    while !missing.is_empty() {
        if begun.elapsed() > PATIENCE {
            return Err(format!("not served within {PATIENCE:?}, by process and task: {missing:?}"));
        }
        thread::sleep(Duration::from_millis(20));
        for entry in history::read_on(history, &mut read).map_err(|error| error.to_string())? {
            if matches!(entry.what, EventKind::Granted { .. }) {
                missing.remove(&(entry.process, entry.task));
            }
        }
    }
    Ok(())
}

fn until_nothing_is_left(test_bed: &TestBed, limit: Duration) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let left = test_bed.leftovers();
        if left.is_empty() || begun.elapsed() > limit {
            return left.into_iter().map(|what| format!("left behind for {limit:?}: {what}")).collect();
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn circumstances(
    test_bed: &TestBed,
    faults: &[Fault],
    longest_gap: Duration,
    pulse: &Pulse,
) -> Circumstances {
    // A quorum survives the loss of a minority.
    let single = !test_bed.is_quorum();
    let those = |so: &dyn Fn(&Fault) -> bool| faults.iter().copied().filter(|fault| so(fault)).collect();
    Circumstances {
        ttl: TTL,
        forgotten: those(&|fault| single && fault.kind.loses_state()),
        forgotten_somewhere: those(&|fault| fault.kind.loses_state()),
        down: those(&|fault| single && fault.kind.is_outage()),
        faults: faults.to_vec(),
        told_within: TTL / 3 + slack_of(pulse.longest_stall()),
        stall: 2 * pulse.longest_stall(),
        longest_gap,
        is_quorum: !single,
    }
}

fn grants(parsed_history: &ParsedHistory) -> BTreeMap<&'static str, usize> {
    let mut grants = BTreeMap::new();
    for wish in parsed_history.beliefs().iter().filter_map(|span| span.wish.as_ref()) {
        use crate::wish::Wanted::{Alone, Permits, Read};
        let noun = match (wish.mode, &*wish.keys) {
            (Read, _) => "readers",
            (Permits(..), _) => "permits",
            (Alone, [_, _]) => "two keys",
            (Alone, [key]) if key == EVERY => "every",
            (Alone, [key]) if key.starts_with(ONCE) => "once",
            (Alone, [key]) if key == super::workload::CHIEF => "leader",
            (Alone, [key]) if key == super::workload::DOC => "writers",
            (Alone, _) => "mutex",
        };
        *grants.entry(noun).or_default() += 1;
    }
    grants
}

fn counted(
    faults: &[Fault],
    parsed_history: &ParsedHistory,
    calls: &Calls,
) -> BTreeMap<String, (usize, usize)> {
    let mut counted = BTreeMap::<String, (usize, usize)>::new();
    let mut count = |kind: String, met: bool| {
        let (all, in_flight) = counted.entry(kind).or_default();
        *all += 1;
        *in_flight += usize::from(met);
    };
    for fault in faults {
        count(fault.kind.to_string(), calls.any_in(fault.from, fault.until));
    }
    for (kind, faults) in
        [("worker killed", &parsed_history.killed), ("worker stopped", &parsed_history.stopped)]
    {
        for fault in faults {
            count(kind.to_owned(), calls.any_of(fault.process, fault.at));
        }
    }
    counted
}
