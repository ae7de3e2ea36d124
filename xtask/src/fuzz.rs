//! `cargo xtask fuzz`: the searches of `proving/fuzz` and of the command, for as long as requested.

use std::process::ExitCode;

use crate::{
    servers,
    step::{self, Step, account, workspace},
    stop::{Stop, number},
    tool,
};

/// The tests that search, as arguments of cargo and of the test harness.
const HUNTS: [(&[&str], &[&str]); 2] = [
    (&["test", "-p", "fuzz", "--tests"], &[]),
    (&["test", "-p", "leasehold-cli", "--bin", "leasehold"], &["fuzzed::"]),
];

/// Runs the searches one after the other, each for its share of the time and with new inputs.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, Stop> {
    let minutes = number(arguments, "--minutes", 10, 1..=10_000)?;
    servers::fetch()?;
    let mut hunts = 0;
    for (cargo, harness) in HUNTS {
        hunts += listed(cargo, harness)?;
    }
    let each = (minutes * 60 / hunts.max(1)).max(1).to_string();
    let steps = HUNTS.map(|(cargo, harness)| {
        let line = [cargo, &["--no-fail-fast", "--", "--nocapture", "--test-threads=1"], harness].concat();
        // Panics are verdicts here, and there are many while a failing input is made smaller, so no
        // backtraces.
        Step::cargo(&line, &[("LEASEHOLD_FUZZ_SECONDS", &each), ("RUST_BACKTRACE", "0")])
    });
    Ok(account("fuzz", &steps))
}

/// The number of tests.
fn listed(cargo: &[&str], harness: &[&str]) -> Result<u64, String> {
    let mut command = step::cargo();
    command.args(cargo).args(["--", "--list"]).args(harness).current_dir(workspace());
    let listed = tool::run(&mut command)?;
    Ok(listed.lines().filter(|line| line.ends_with(": test")).count() as u64)
}
