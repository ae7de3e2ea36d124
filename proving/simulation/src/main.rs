//! Runs many seeds, or replays one with its trace.

use std::process::ExitCode;

use simulation::{Campaign, Flaw, run};

const USAGE: &str = "\
Usage: cargo xtask simulate [--seeds COUNT] [--from SEED] [--flaw NAME]
       cargo xtask simulate --seed SEED [--flaw NAME]

Without a seed, runs 10000 seeds, or COUNT, beginning at SEED, until one fails. With a seed, replays it and prints what
happened, a line each. With a flaw, a rule is left out; the names are in proving/simulation/src/flaw.rs.";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match Wanted::read(words.into_iter()) {
        Ok(Wanted { seed: Some(seed), flaw, .. }) => replay(seed, flaw),
        Ok(Wanted { from, seeds, flaw, .. }) => {
            let campaign = Campaign::over(from..from.saturating_add(seeds), flaw);
            println!("{campaign}");
            ExitCode::from(u8::from(campaign.failure().is_some()))
        }
        Err(refused) => {
            eprintln!("simulate: {refused}\n{USAGE}");
            ExitCode::from(64)
        }
    }
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

struct Wanted {
    seed: Option<u64>,
    from: u64,
    seeds: u64,
    flaw: Option<Flaw>,
}

impl Wanted {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut wanted = Self { seed: None, from: 0, seeds: 10_000, flaw: None };
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word} takes a value"))?;
            let number =
                || value.parse().map_err(|_| format!("{word} takes a number, and was given {value:?}"));
            match word.as_str() {
                "--seed" => wanted.seed = Some(number()?),
                "--from" => wanted.from = number()?,
                "--seeds" => wanted.seeds = number()?,
                "--flaw" => {
                    let flaw = Flaw::named(&value)
                        .ok_or_else(|| format!("{value:?} is not a flaw: known are {:?}", Flaw::ALL))?;
                    wanted.flaw = Some(flaw);
                }
                _ => return Err(format!("{word:?} is not known")),
            }
        }
        Ok(wanted)
    }
}
