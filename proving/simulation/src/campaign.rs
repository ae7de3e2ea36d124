//! Runs many seeds, on all processors, and summarises their results.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use leasehold_core::locked;

use clap::ValueEnum as _;

use crate::{FaultKind, Flaw, Report, run};

/// The results of many seeds.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Campaign {
    /// The seeds' reports in order, without traces. The last one is the first that failed.
    pub reports: Vec<Report>,
}

impl Campaign {
    /// Runs seeds until one fails.
    #[must_use]
    pub fn over(seeds: Range<u64>, flaw: Option<Flaw>) -> Self {
        let next = AtomicU64::new(seeds.start);
        let end = AtomicU64::new(seeds.end);
        let reports = Mutex::new(Vec::new());
        let work = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                // All seeds below the first failure are run, so every campaign finds the same.
                if seed >= end.load(Ordering::Relaxed) {
                    return;
                }
                let report = run(seed, flaw, false);
                if report.violation.is_some() {
                    end.fetch_min(seed + 1, Ordering::Relaxed);
                }
                locked(&reports).push(report);
            }
        };
        let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
        let mut reports = reports.into_inner().unwrap_or_else(PoisonError::into_inner);
        let end = end.into_inner();
        reports.retain(|report| report.seed < end);
        reports.sort_by_key(|report| report.seed);
        Self { reports }
    }

    /// The first seed that failed.
    #[must_use]
    pub fn failure(&self) -> Option<&Report> {
        self.reports.iter().find(|report| report.violation.is_some())
    }

    /// The median number of guards per seed.
    pub fn median_grants(&self) -> usize {
        let mut grants: Vec<_> = self.reports.iter().map(|report| report.grants).collect();
        grants.sort_unstable();
        grants.get(grants.len() / 2).copied().unwrap_or(0)
    }

    /// The smallest number of steps that a seed took.
    pub fn fewest_steps(&self) -> usize {
        self.reports.iter().map(|report| report.steps).min().unwrap_or(0)
    }

    /// The share of the seeds in which each fault happened.
    pub fn shares(&self) -> BTreeMap<FaultKind, f64> {
        let share = |kind: &FaultKind| {
            let with = self.reports.iter().filter(|report| report.faults.contains(kind)).count();
            (*kind, with as f64 / self.reports.len().max(1) as f64)
        };
        FaultKind::value_variants().iter().map(share).collect()
    }
}

impl fmt::Display for Campaign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, fewest, median) = (self.reports.len(), self.fewest_steps(), self.median_grants());
        writeln!(f, "{count} seeds, {fewest} steps at least, {median} grants in the median")?;
        for (kind, share) in self.shares() {
            writeln!(f, "  {:>5.1} %  {kind:?}", share * 100.0)?;
        }
        match self.failure() {
            None => write!(f, "no promise was broken"),
            Some(Report { seed, violation, .. }) => {
                writeln!(f, "seed {seed} FAILED: {}", violation.as_deref().unwrap_or_default())?;
                write!(f, "replay it with its trace: cargo xtask simulate --seed {seed}")
            }
        }
    }
}
