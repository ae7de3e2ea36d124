//! `cargo xtask fuzz`: the searches of `proving/fuzz` and of the command, for as long as requested.

use std::process::ExitCode;

use crate::{
    USAGE, servers,
    step::{self, Step, account, workspace},
    tool,
};

/// The tests that search, as arguments of cargo and of the test harness.
const HUNTS: [(&[&str], &[&str]); 2] = [
    (&["test", "-p", "fuzz", "--tests"], &[]),
    (&["test", "-p", "leasehold-cli", "--bin", "leasehold"], &["fuzzed::"]),
];

/// Runs the searches one after the other, each for its share of the time and with new inputs.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let minutes = match words[..] {
        [] => Some(10),
        ["--minutes", minutes] => {
            minutes.parse::<u64>().ok().filter(|minutes| (1..=10_000).contains(minutes))
        }
        _ => None,
    };
    let Some(minutes) = minutes else {
        eprintln!("xtask fuzz: takes --minutes N, from 1 to 10000, but was given {:?}", words.join(" "));
        return ExitCode::from(USAGE);
    };
    if let Err(failed) = servers::fetch() {
        return failed;
    }
    let mut hunts = 0;
    for (cargo, harness) in HUNTS {
        match listed(cargo, harness) {
            Ok(more) => hunts += more,
            Err(why) => {
                eprintln!("xtask fuzz: {why}");
                return ExitCode::FAILURE;
            }
        }
    }
    let each = (minutes * 60 / hunts.max(1)).max(1).to_string();
    let steps = HUNTS.map(|(cargo, harness)| {
        let line = [cargo, &["--no-fail-fast", "--", "--nocapture", "--test-threads=1"], harness].concat();
        // Panics are verdicts here, and there are many while a failing input is made smaller, so no
        // backtraces.
        Step::cargo(&line, &[("LEASEHOLD_FUZZ_SECONDS", &each), ("RUST_BACKTRACE", "0")])
    });
    account("fuzz", &steps)
}

/// The number of tests.
fn listed(cargo: &[&str], harness: &[&str]) -> Result<u64, String> {
    let mut command = step::cargo();
    command.args(cargo).args(["--", "--list"]).args(harness).current_dir(workspace());
    let listed = tool::run(&mut command)?;
    Ok(listed.lines().filter(|line| line.ends_with(": test")).count() as u64)
}
