//! The report of a soak test.

use std::{collections::BTreeMap, path::Path, time::Duration};

use super::{broken::Broken, options::Options, slice::Outcome};

/// The number of violations of a run that are printed in full; the history has the others.
const PRINTED: usize = 5;

/// The sums over all topologies.
#[derive(Debug, Default)]
pub(crate) struct Report {
    grants: usize,
    faults: BTreeMap<String, (usize, usize)>,
    excused: usize,
    broken: usize,
    violations: usize,
    longest_gap: Duration,
}

impl Report {
    pub(crate) fn add(&mut self, name: &str, seed: u64, outcome: &Outcome) {
        let grants: usize = outcome.grants.values().sum();
        let verdict = &outcome.verdict;
        let details =
            if outcome.details.is_empty() { String::new() } else { format!(" ({})", outcome.details) };
        println!("{name}{details}: {grants} grants in {:.1} s of faults", outcome.lasted.as_secs_f64());
        let nouns: Vec<_> = outcome.grants.iter().map(|(noun, count)| format!("{noun} {count}")).collect();
        println!("  {}", nouns.join(", "));
        let faults: Vec<_> =
            outcome.faults.iter().map(|(kind, (all, met))| format!("{kind} {all} ({met})")).collect();
        println!("  faults, and how many met a call: {}", faults.join(", "));
        println!(
            "  longest gap {:.2?} of {:.2?} allowed, longest wait {:.2?}; believed although forgotten by the store: {}; \
             the machine stalled for {:.0?}; {} violations",
            verdict.longest_gap,
            outcome.bound,
            verdict.longest_wait,
            verdict.excused,
            outcome.stall,
            verdict.violations.len()
        );
        println!("  {}", breaks(&verdict.broken));
        for violation in verdict.violations.iter().take(PRINTED) {
            println!("  VIOLATION (seed {seed}): {violation}");
        }
        self.grants += grants;
        for (kind, (all, met)) in &outcome.faults {
            let sum = self.faults.entry(kind.clone()).or_default();
            *sum = (sum.0 + all, sum.1 + met);
        }
        self.excused += verdict.excused;
        self.broken += verdict.broken.leases;
        self.violations += verdict.violations.len();
        self.longest_gap = self.longest_gap.max(verdict.longest_gap);
    }

    /// Prints that one topology could not be run, which counts as a violation.
    pub(crate) fn broke(&mut self, name: &str, seed: u64, why: &str) {
        println!("{name}: VIOLATION (seed {seed}): it broke down: {why}");
        self.violations += 1;
    }

    /// Prints where the history is kept, and how to cause the same faults again.
    pub(crate) fn kept(name: &str, options: &Options, history: &Path) {
        println!("  the history is kept: {}", history.display());
        println!("  the same faults again: cargo xtask soak {}", options.again(name));
    }

    /// Prints the sums. Returns true if there was no violation.
    pub(crate) fn close(&self, seed: u64, took: Duration) -> bool {
        println!("\nall faults, and how many met a call:");
        for (kind, (all, met)) in &self.faults {
            println!("  {kind:<26} {all:>5} {met:>5}");
        }
        let Self { grants, excused, broken, violations, longest_gap, .. } = self;
        println!(
            "seed {seed}: {grants} grants in {:.0} s, longest gap {longest_gap:.2?}, believed although forgotten by a store: \
             {excused}; {broken} leases broken; {violations} violations",
            took.as_secs_f64()
        );
        *violations == 0
    }
}

fn breaks(broken: &Broken) -> String {
    let Broken { leases, unanswered, told_after } = broken;
    let told = match (told_after.get(told_after.len() / 2), told_after.last()) {
        (Some(half), Some(last)) => {
            format!(
                "of {} who held on, at peace, half heard of it within {half:.0?}, the last after {last:.0?}",
                told_after.len()
            )
        }
        _ => "nobody held on at peace".to_owned(),
    };
    format!("leases broken: {leases}, and {unanswered} that may have been; {told}")
}
