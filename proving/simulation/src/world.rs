//! Everything in a run: time, processes, the network with its nodes, and the watch over them.

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use leasehold_core::{Holder, locked};

use crate::executor::Executor;
use crate::flaw::Flaw;
use crate::machine::Machine;
use crate::network::Network;
use crate::plan::FaultKind;
use crate::watch::Watch;
use crate::words;

pub(crate) struct World {
    pub(crate) executor: Arc<Executor>,
    pub(crate) machines: Vec<Arc<Machine>>,
    pub(crate) flaw: Option<Flaw>,
    pub(crate) trace: Trace,
    network: Mutex<Network>,
    watch: Mutex<Watch>,
    /// The same world, for the events that it schedules.
    this: Weak<Self>,
}

impl World {
    pub(crate) fn new(
        executor: Arc<Executor>,
        machines: Vec<Arc<Machine>>,
        network: Network,
        watch: Watch,
        flaw: Option<Flaw>,
        trace: Trace,
    ) -> Arc<Self> {
        let (network, watch) = (Mutex::new(network), Mutex::new(watch));
        Arc::new_cyclic(|this| Self { executor, machines, flaw, trace, network, watch, this: this.clone() })
    }

    pub(crate) fn after(&self, delay: Duration, event: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let delay = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        self.at(self.executor.now().saturating_add(delay), event);
    }

    pub(crate) fn at(&self, at: u64, event: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let this = self.this.clone();
        self.executor.at(at, move || {
            if let Some(world) = this.upgrade() {
                event(&world);
            }
        });
    }

    /// Locks the network. If both are needed, it is locked before the watch.
    pub(crate) fn network(&self) -> MutexGuard<'_, Network> {
        locked(&self.network)
    }

    pub(crate) fn watch(&self) -> MutexGuard<'_, Watch> {
        locked(&self.watch)
    }

    /// Notes that a fault did harm, or might have.
    pub(crate) fn happened(&self, kind: FaultKind) {
        self.watch().faults.insert(kind);
    }

    /// Notes that a store calls an attempt finished at a node: nothing can be left or appear.
    pub(crate) fn given_up(&self, process: usize, node: usize, holder: Holder) {
        let now = self.executor.now();
        let network = self.network();
        self.trace.say(now, || format!("p{process} gave {} up at n{node}", words::id(holder)));
        self.watch().given_up(process, node, &network.nodes[node], holder, now);
    }
}

/// The steps of a run, one line each; kept only if it was asked for.
pub(crate) struct Trace(Option<Mutex<Vec<String>>>);

impl Trace {
    pub(crate) fn new(kept: bool) -> Self {
        Self(kept.then(Mutex::default))
    }

    pub(crate) fn say(&self, now: u64, line: impl FnOnce() -> String) {
        if let Some(lines) = &self.0 {
            let line = format!("{:>12.6}  {}", now as f64 / 1e9, line());
            locked(lines).push(line);
        }
    }

    pub(crate) fn take(&self) -> Vec<String> {
        let lines = self.0.as_ref().map(|lines| locked(lines));
        lines.map(|mut lines| std::mem::take(&mut *lines)).unwrap_or_default()
    }
}
