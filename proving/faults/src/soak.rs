//! The soak test: random faults on all kinds of locks and every store.
//!
//! In each topology in turn, several processes of several tasks request locks in every way. A seed
//! chooses faults of the processes, and of the store and its connections. When the time is over,
//! all is repaired, every process must be served once more, and the history is checked.

mod broken;
mod calls;
mod circumstances;
mod fault;
mod judge;
mod options;
mod report;
mod slice;
mod test_bed;
mod workers;
mod workload;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser as _;
pub use judge::violations_without_faults;
use options::Options;
use report::Report;
use test_bed::NAMES;

/// The longest turn of a topology; longer soaks return to each several times, with new servers.
const LONGEST_TURN: Duration = Duration::from_secs(60);

/// `EX_USAGE`.
const USAGE: u8 = 64;

/// The whole program. It starts its own workers with `worker` as the first argument.
#[must_use]
pub fn run(words: &[String]) -> ExitCode {
    if let Some(("worker", plan)) = words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return workload::run(plan);
    }
    match Options::try_parse_from([&["soak".to_owned()], words].concat()) {
        Ok(options) => {
            if soak(&options) {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(said) => {
            // If this fails, nobody reads it.
            let _ = said.print();
            if said.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
        }
    }
}

fn soak(options: &Options) -> bool {
    let (seed, length, begun) = (options.seed, options.length(), Instant::now());
    println!("soak of {:.0} s, --seed {seed}\n", length.as_secs_f64());
    let names = options.only.len();
    let longest_round = LONGEST_TURN.as_secs_f64() * names as f64;
    let rounds = (length.as_secs_f64() / longest_round).ceil().max(1.0) as usize;
    let mut report = Report::default();
    for turn in 0..rounds * names {
        let name = &*options.only[turn % names];
        // The same for one topology alone as for all of them.
        let number = turn / names * NAMES.len() + NAMES.iter().position(|known| *known == name).unwrap_or(0);
        let left = length.saturating_sub(begun.elapsed()) / u32::try_from(rounds * names - turn).unwrap_or(1);
        one_turn(name, seed.wrapping_add(number as u64), Instant::now() + left, options, &mut report);
    }
    report.close(seed, begun.elapsed())
}

fn one_turn(name: &str, seed: u64, end: Instant, options: &Options, report: &mut Report) {
    let printed = options.seed;
    let mut directory = match tempfile::Builder::new().prefix("soak-").tempdir() {
        Ok(directory) => directory,
        Err(error) => return report.broke(name, printed, &error.to_string()),
    };
    // A failure to control a server is a panic; the other topologies still have their turns.
    let ran =
        catch_unwind(AssertUnwindSafe(|| slice::run(name, seed, end, &options.faults, directory.path())));
    let clean = match ran {
        Ok(Ok(outcome)) => {
            report.add(name, printed, &outcome);
            outcome.verdict.violations.is_empty()
        }
        Ok(Err(error)) => {
            report.broke(name, printed, &error.to_string());
            false
        }
        Err(_) => {
            report.broke(name, printed, "a panic, above");
            false
        }
    };
    if !clean {
        directory.disable_cleanup(true);
        Report::kept(name, options, &directory.path().join("history"));
    }
}
