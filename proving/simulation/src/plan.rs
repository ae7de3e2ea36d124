//! The plan of a seed: the processes, their actions, and the faults with their times.

use std::time::Duration;

use clap::ValueEnum;

use crate::dice::Dice;

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
#[non_exhaustive]
pub enum FaultKind {
    /// A request never arrives.
    RequestLost,
    /// A reply never arrives.
    ReplyLost,
    /// A wake-up never arrives.
    PushLost,
    /// A request arrives twice.
    RequestRepeated,
    /// A request whose connection broke arrives long after it.
    RequestStrayed,
    /// Messages take long, and some of them longer than a call may take.
    Slow,
    /// The connections between a process and a node break.
    Cut,
    /// Nothing passes between a process and a node.
    CutOff,
    /// Nothing passes from a node to a process, although both consider themselves connected.
    Deaf,
    /// A node is paused, and resumes later.
    NodePaused,
    /// A node restarts with its state.
    NodeRestarted,
    /// A node restarts without its state.
    NodeEmptied,
    /// A key, or its fence, is deleted at a node.
    KeyLost,
    /// A node's clock is set.
    NodeClockSet,
    /// A node's clock runs far too fast or slow.
    NodeClockWild,
    /// A process is paused, and resumes later.
    ProcessPaused,
    /// A process ends without releasing anything.
    ProcessCrashed,
    /// A process's wall clock is set.
    WallClockSet,
    /// A process's lease clock runs far too fast or slow.
    LeaseClockWild,
    /// A request for a lock is dropped before it is answered.
    Cancelled,
}

impl FaultKind {
    /// Faults during which every promise holds.
    const SURVIVED: [Self; 17] = [
        Self::RequestLost,
        Self::ReplyLost,
        Self::PushLost,
        Self::PushLost,
        Self::PushLost,
        Self::RequestRepeated,
        Self::Slow,
        Self::Slow,
        Self::Slow,
        Self::Cut,
        Self::CutOff,
        Self::Deaf,
        Self::NodePaused,
        Self::NodeRestarted,
        Self::NodeEmptied,
        Self::ProcessPaused,
        Self::ProcessCrashed,
    ];

    /// Faults after which exclusion is not promised for some time.
    const NOT_SURVIVED: [Self; 4] =
        [Self::KeyLost, Self::NodeClockSet, Self::NodeClockWild, Self::LeaseClockWild];
}

#[derive(Clone, Debug)]
pub(crate) struct PlannedFault {
    pub(crate) kind: FaultKind,
    pub(crate) at: Duration,
    pub(crate) lasts: Duration,
    pub(crate) process: usize,
    pub(crate) node: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) nodes: usize,
    pub(crate) processes: usize,
    pub(crate) tasks: usize,
    pub(crate) jobs: usize,
    pub(crate) keys: usize,
    pub(crate) ttl: Duration,
    pub(crate) max_ttl: Duration,
    /// Processes' lease clocks run slow, far more than real ones, and holders allow for it.
    pub(crate) slow_clocks: bool,
    /// The largest offset of a wall clock from the world's time, in ns either way.
    pub(crate) walls_apart: u64,
    pub(crate) planned_faults: Vec<PlannedFault>,
    /// The time at which all faults are over.
    pub(crate) calm_from: Duration,
}

impl Plan {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let nodes = [1, 1, 3, 3, 3, 5][dice.one_of(6)];
        let processes = dice.one_of(5) + 2;
        let tasks = if processes <= 3 { 2 } else { 1 };
        let ttl = dice.millis(1_500..5_000);
        let max_ttl = ttl.max(Duration::from_secs(5)) + dice.millis(0..2_000);
        let mut plan = Self {
            nodes,
            processes,
            tasks,
            jobs: 24 / (processes * tasks) + 2,
            keys: 1 + dice.one_of(2),
            ttl: Duration::from_millis(ttl.as_millis() as u64),
            max_ttl: Duration::from_millis(max_ttl.as_millis() as u64),
            slow_clocks: dice.percent(20),
            walls_apart: if dice.percent(50) { 2_500_000_000 } else { 50_000_000 },
            planned_faults: Vec::new(),
            calm_from: Duration::ZERO,
        };
        let breaks_promises = dice.percent(35);
        for _ in 0..dice.within(3..9) {
            let wild = breaks_promises && dice.percent(40);
            let kinds: &[_] = if wild { &FaultKind::NOT_SURVIVED } else { &FaultKind::SURVIVED };
            let kind = kinds[dice.one_of(kinds.len())];
            plan.add(kind, dice);
        }
        if dice.percent(40) {
            plan.add(FaultKind::WallClockSet, dice);
        }
        let ends = plan.planned_faults.iter().map(|planned_fault| planned_fault.at + planned_fault.lasts);
        plan.calm_from = ends.max().unwrap_or_default();
        plan
    }

    fn add(&mut self, kind: FaultKind, dice: &mut Dice) {
        let at = dice.millis(50..7_000);
        let lasts = match kind {
            FaultKind::NodeRestarted | FaultKind::NodeEmptied => dice.millis(5..800),
            FaultKind::ProcessPaused => dice.millis(50..8_000),
            _ => dice.millis(50..3_000),
        };
        let (process, node) = (dice.one_of(self.processes), dice.one_of(self.nodes));
        self.planned_faults.push(PlannedFault { kind, at, lasts, process, node });
        // These faults often hit other nodes soon afterwards.
        let spreads = matches!(
            kind,
            FaultKind::NodeEmptied | FaultKind::NodeRestarted | FaultKind::CutOff | FaultKind::Slow
        );
        if spreads && self.nodes > 1 && dice.percent(60) {
            for n in 1..=dice.within(1..self.nodes as u64) {
                let node = (node + usize::try_from(n).unwrap_or(0)) % self.nodes;
                let at = at + dice.millis(0..600);
                self.planned_faults.push(PlannedFault { kind, at, lasts, process, node });
            }
        }
    }
}
