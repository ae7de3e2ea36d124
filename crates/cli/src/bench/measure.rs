//! The measurement: in each round, everything is measured once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold::{Locks, ReleaseError};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::figure::{Figures, Quantity, median};
use super::plan::{OUTAGE_LIMIT, Plan};
use crate::exit::Failure;

/// The locks to measure, on two connections, and when to stop.
#[derive(Clone, Debug)]
pub(super) struct Bench {
    pub(super) here: Locks,
    pub(super) there: Locks,
    pub(super) over: Arc<AtomicBool>,
}

/// A connection that was idle for this long behaves like one of a program that seldom takes a lock.
const REST: Duration = Duration::from_millis(2);

/// How long a lock is held at a hand-off, at least, so that the next waiter is in the queue by then.
const HOLD: Duration = Duration::from_millis(1);

/// The time for one quantity in a round: some hundred pairs on a near server.
const SPELL: Duration = Duration::from_millis(100);

/// A median needs at least this many rounds.
const LEAST_ROUNDS: u32 = 3;

/// A baseline pair that is slow at one member of a quorum must not block the next pair.
const BASELINE_NAMES: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ours,
    Baseline,
}

impl Bench {
    /// Measures until the time is over, or until a signal comes.
    pub(super) async fn run(&self, plan: &Plan) -> Result<Figures, Failure> {
        let kinds = Quantity::ALL.len() as u32;
        let rounds = (plan.time.as_millis() / (SPELL * kinds).as_millis()) as u32;
        let rounds = rounds.max(LEAST_ROUNDS);
        let spell = plan.time / (rounds * kinds);
        let mut figures = Figures::of(plan.tasks);
        // The first round is a warm-up: it loads scripts and caches names.
        self.round(plan, spell / 4, false).await?;
        let begun = Instant::now();
        for round in 0..rounds {
            if round >= LEAST_ROUNDS && begun.elapsed() > plan.time || self.is_over() {
                break;
            }
            let measured = self.round(plan, spell, round % 2 == 1).await?;
            if !self.is_over() {
                figures.add(measured);
            }
        }
        Ok(figures)
    }

    async fn round(
        &self,
        plan: &Plan,
        spell: Duration,
        backwards: bool,
    ) -> Result<Vec<(Quantity, f64)>, Failure> {
        let mut all = Quantity::ALL;
        if backwards {
            all.reverse();
        }
        let mut measured = Vec::new();
        for what in all {
            if self.is_over() {
                break;
            }
            measured.push((what, self.spell(plan, what, spell).await?));
        }
        Ok(measured)
    }

    async fn spell(&self, plan: &Plan, what: Quantity, spell: Duration) -> Result<f64, Failure> {
        let end = Instant::now() + spell;
        match what {
            Quantity::RoundTripRested => self.trips(REST, end).await,
            Quantity::RoundTrip => self.trips(Duration::ZERO, end).await,
            Quantity::BaselinePairs => self.pairs(plan, Kind::Baseline, 1, end).await,
            Quantity::Pairs => self.pairs(plan, Kind::Ours, 1, end).await,
            Quantity::BaselinePairsAtOnce => self.pairs(plan, Kind::Baseline, plan.tasks, end).await,
            Quantity::PairsAtOnce => self.pairs(plan, Kind::Ours, plan.tasks, end).await,
            Quantity::HandOff => self.hand_offs(&plan.name("hand-off"), end).await,
        }
    }

    /// The median round trip, in µs.
    async fn trips(&self, rest: Duration, end: Instant) -> Result<f64, Failure> {
        let mut each = Vec::new();
        while each.is_empty() || Instant::now() < end && !self.is_over() {
            if !rest.is_zero() {
                sleep(rest).await;
            }
            let sent = Instant::now();
            self.here.baseline_round_trip().await?;
            each.push(micros(sent.elapsed()));
        }
        Ok(median(each))
    }

    /// The number of pairs per second.
    async fn pairs(&self, plan: &Plan, kind: Kind, tasks: usize, end: Instant) -> Result<f64, Failure> {
        let begun = Instant::now();
        let mut all = JoinSet::new();
        for task in 0..tasks {
            let (bench, name) = (self.clone(), plan.name(task));
            all.spawn(async move { bench.pairs_of_one(&name, kind, end).await });
        }
        let (mut count, mut failure) = (0, None);
        while let Some(done) = all.join_next().await {
            match done.expect("a task that takes and releases does not panic") {
                Ok(pairs) => count += pairs,
                // The other tasks get the same error, or finish: none is interrupted while it holds
                // a name.
                Err(first) => failure = failure.or(Some(first)),
            }
        }
        failure.map_or(Ok(count as f64 / begun.elapsed().as_secs_f64()), Err)
    }

    async fn pairs_of_one(&self, name: &str, kind: Kind, end: Instant) -> Result<u64, Failure> {
        let mutex = self.here.mutex(name);
        let baseline: Vec<_> = (0..BASELINE_NAMES).map(|nth| format!("{name}:baseline{nth}")).collect();
        let mut count = 0;
        while count == 0 || Instant::now() < end && !self.is_over() {
            match kind {
                Kind::Baseline => {
                    let name = &baseline[(count % BASELINE_NAMES) as usize];
                    self.here.baseline_pair(name).await?;
                }
                // Nobody else wants the name; but the members of a quorum may abstain for a minute.
                Kind::Ours => {
                    let guard = mutex.lock().within(OUTAGE_LIMIT).await?;
                    guard.release().await.map_err(not_released)?;
                }
            }
            count += 1;
        }
        Ok(count)
    }

    /// The median time from a release until the other connection holds the lock, in µs.
    async fn hand_offs(&self, name: &str, end: Instant) -> Result<f64, Failure> {
        let sent = Instant::now();
        self.here.baseline_round_trip().await?;
        let hold = HOLD.max(sent.elapsed() * 2);
        let turns = async |nth: usize, locks: &Locks| {
            let mutex = locks.mutex(name);
            let mut turns = Vec::new();
            // At least two turns each: one of the two gaps between them is a hand-off.
            while turns.len() < 2 || Instant::now() < end && !self.is_over() {
                let guard = mutex.lock().await?;
                let had = Instant::now();
                sleep(hold).await;
                let let_go = Instant::now();
                guard.release().await.map_err(not_released)?;
                turns.push((had, let_go, nth));
            }
            Ok::<_, Failure>(turns)
        };
        let (one, other) = tokio::join!(turns(0, &self.here), turns(1, &self.there));
        let mut turns = one?;
        turns.extend(other?);
        turns.sort_unstable();
        let pairs = turns.windows(2).filter(|pair| pair[0].2 != pair[1].2);
        Ok(median(pairs.map(|pair| micros(pair[1].0.saturating_duration_since(pair[0].1))).collect()))
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn not_released(error: ReleaseError) -> Failure {
    match error {
        ReleaseError::Unreachable(fault) => Failure::unserved(&fault, Some(&fault)),
        other => Failure::refused(format_args!(
            "{other}: see who else writes there, as nobody else has names like this"
        )),
    }
}
