//! Runs many seeds, or replays one with its trace.

use std::process::ExitCode;

use clap::{Parser, ValueEnum as _};
use simulation::{Campaign, Flaw, run};

/// Runs many seeds until one fails, or replays one and prints what happened, a line each
#[derive(Debug, Parser)]
#[command(name = "cargo xtask simulate", disable_version_flag = true)]
struct Words {
    /// Replay this seed
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// How many seeds to run
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    seeds: u64,
    /// The first of them
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// Leave out the rule with this name in proving/simulation/src/flaw.rs
    #[arg(long, value_name = "NAME", value_parser = flaw)]
    flaw: Option<Flaw>,
}

fn main() -> ExitCode {
    let Words { seed, seeds, from, flaw } = Words::parse();
    if let Some(seed) = seed {
        return replay(seed, flaw);
    }
    let campaign = Campaign::over(from..from.saturating_add(seeds), flaw);
    println!("{campaign}");
    ExitCode::from(u8::from(campaign.failure().is_some()))
}

fn flaw(name: &str) -> Result<Flaw, String> {
    Flaw::from_str(name, false).map_err(|_| format!("known are {:?}", Flaw::value_variants()))
}

fn replay(seed: u64, flaw: Option<Flaw>) -> ExitCode {
    let report = run(seed, flaw, true);
    report.trace.iter().for_each(|line| println!("{line}"));
    println!("seed {seed}: {} steps, {} grants, {:?}", report.steps, report.grants, report.faults);
    match &report.violation {
        None => println!("no promise was broken"),
        Some(violation) => println!("FAILED: {violation}"),
    }
    ExitCode::from(u8::from(report.violation.is_some()))
}
