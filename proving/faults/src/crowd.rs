//! Many workers that share one lock, and the faults that they suffer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use leasehold::{KeyState, Locks, Owner};
use servers::Process;
use tokio::runtime::Runtime;

use crate::{
    ParsedHistory, Plan,
    history::{self, Entry, EventKind, HistoryWriter, now},
    pulse::Pulse,
};

/// The time between two checks of a condition.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// Workers that share a lock, killed when this is dropped.
#[derive(Debug)]
pub struct Crowd {
    /// Each worker with the number of its tasks.
    workers: BTreeMap<u32, (Process, u32)>,
    plan: Plan,
    writer: HistoryWriter,
    pulse: Pulse,
    onlooker: Locks,
    /// Runs the crowd's own look at the locks, which have their own thread.
    runtime: Runtime,
}

impl Crowd {
    /// An empty crowd. It observes the store at the plan's URL, so no fault should be in the way.
    pub fn new(plan: Plan) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let connecting = plan.connect(Locks::builder().own_thread().ttl(plan.ttl));
        let onlooker = runtime.block_on(connecting).expect("the store can be reached");
        let writer = HistoryWriter::at(&plan.history).expect("the history can be written");
        Self { workers: BTreeMap::new(), plan, writer, pulse: Pulse::begin(), onlooker, runtime }
    }

    /// Starts this many more workers, which follow the crowd's plan.
    pub fn add(&mut self, worker: &Path, workers: usize) {
        let plan = self.plan.clone();
        self.add_with(worker, workers, &plan);
    }

    /// Starts this many more workers, which follow another plan.
    pub fn add_with(&mut self, worker: &Path, workers: usize, plan: &Plan) {
        for _ in 0..workers {
            let process = Process::start(worker, plan.words()).expect("a worker can be started");
            self.workers.insert(process.id(), (process, plan.tasks));
        }
    }

    pub const fn ttl(&self) -> Duration {
        self.plan.ttl
    }

    pub fn alive(&self) -> Vec<u32> {
        self.workers.keys().copied().collect()
    }

    pub fn kill(&mut self, worker: u32) {
        let (mut process, _) = self.workers.remove(&worker).expect("it is one of the crowd");
        self.writer.note(now(), worker, 0, EventKind::Killed);
        process.kill();
        // By its second answer, the server has noticed the end, and hands the dead nothing more.
        let _ = self.looks_at(Plan::KEY);
        self.note_if_it_had_the_lock(worker);
    }

    /// Sends SIGSTOP, but not during a write to a file, which would block everybody.
    pub fn stop(&mut self, worker: u32) {
        let (process, _) = self.workers.get_mut(&worker).expect("it is one of the crowd");
        self.writer.note(now(), worker, 0, EventKind::Stopped);
        process.stop().expect("it has not ended");
        while keeps_a_file(worker) {
            process.cont().expect("it has not ended");
            process.stop().expect("it has not ended");
        }
        self.note_if_it_had_the_lock(worker);
    }

    pub fn cont(&mut self, worker: u32) {
        let (process, _) = self.workers.get_mut(&worker).expect("it is one of the crowd");
        self.writer.note(now(), worker, 0, EventKind::Continued);
        process.cont().expect("it has not ended");
    }

    /// Records that the network or the server is about to fail.
    pub fn fault(&self, name: &str) {
        self.writer.note(now(), 0, 0, EventKind::Fault(name.to_owned()));
    }

    /// Records that it works again.
    pub fn healed(&self) {
        self.writer.note(now(), 0, 0, EventKind::Healed);
    }

    /// The process that holds the lock, according to the store.
    pub fn has_the_lock(&self) -> Option<u32> {
        match &self.looks_at(Plan::KEY).holders.first()?.owner {
            Owner::Holder { label: Some(label), .. } => label.as_str().parse().ok(),
            _ => None,
        }
    }

    /// True if the store has no holder and no waiter of this key.
    pub fn is_forgotten(&self, key: &str) -> bool {
        let state = self.looks_at(key);
        state.holders.is_empty() && state.waiters.is_empty()
    }

    pub fn looks_at(&self, key: &str) -> KeyState {
        self.runtime.block_on(self.onlooker.inspect(key)).expect("the store answers")
    }

    /// The longest time without a processor; servers and workers fare no better.
    pub fn longest_stall(&self) -> Duration {
        self.pulse.longest_stall()
    }

    pub fn history(&self) -> Vec<Entry> {
        history::read(&self.plan.history)
    }

    pub fn parsed_history(&self) -> ParsedHistory {
        ParsedHistory::of(&self.history())
    }

    /// Waits until all tasks had the lock since then, for half a minute at most; returns how long.
    #[track_caller]
    pub fn wait_until_all_were_served_since(&self, since: u64) -> Duration {
        self.wait_until_served_since(since, &self.alive(), Duration::from_secs(30))
    }

    /// The same for some of the workers.
    #[track_caller]
    pub fn wait_until_served_since(&self, since: u64, processes: &[u32], limit: Duration) -> Duration {
        let tasks = |process: u32| (1..=self.workers[&process].1).map(move |task| (process, task));
        let everybody: BTreeSet<_> = processes.iter().flat_map(|process| tasks(*process)).collect();
        let begun = Instant::now();
        loop {
            let granted = |entry: &Entry| entry.at > since && matches!(entry.what, EventKind::Granted { .. });
            let history = self.history();
            let served =
                history.iter().filter(|entry| granted(entry)).map(|entry| (entry.process, entry.task));
            let missing: Vec<_> = everybody.difference(&served.collect()).copied().collect();
            if missing.is_empty() {
                return begun.elapsed();
            }
            assert!(begun.elapsed() < limit, "not served within {limit:?}: {missing:?}");
            thread::sleep(LOOK);
        }
    }

    /// Sends SIGTERM to all at once; returns when they have ended cleanly.
    pub fn dismiss(&mut self) {
        thread::scope(|scope| {
            for (process, _) in self.workers.values_mut() {
                scope.spawn(|| process.end());
            }
        });
        self.workers.clear();
    }

    fn note_if_it_had_the_lock(&self, worker: u32) {
        if self.has_the_lock() == Some(worker) {
            self.writer.note(now(), worker, 0, EventKind::HadIt);
        }
    }
}

/// True if a process writes to a file: the kernel lists its lock on byte 120 of the file by the log.
fn keeps_a_file(worker: u32) -> bool {
    let pid = worker.to_string();
    let locks = fs::read_to_string("/proc/locks").expect("the kernel lists the locks of files");
    locks.lines().any(|line| {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        matches!(words[..], [_, "POSIX", _, "WRITE", by, _, "120", "120"] if by == pid)
    })
}

#[track_caller]
pub fn until(what: &str, limit: Duration, mut has_come_about: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !has_come_about() {
        assert!(begun.elapsed() < limit, "not within {limit:?}: {what}");
        thread::sleep(LOOK);
    }
}
