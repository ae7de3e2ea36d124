//! `cargo xtask fuzz`: the hunts of `proving/fuzz`, and those of the command, for as long as one
//! likes.

use std::{
    env,
    process::{Command, ExitCode},
};

use crate::{
    USAGE, servers,
    step::{Step, account, workspace},
    tool,
};

/// The tests that hunt, as cargo and their harness are to be told.
const HUNTS: [(&[&str], &[&str]); 2] = [
    (&["test", "-p", "fuzz", "--tests"], &[]),
    (&["test", "-p", "leasehold-cli", "--bin", "leasehold"], &["fuzzed::"]),
];

/// One hunt after the other, so that each has its share of the time; with other inputs each time.
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
        eprintln!("xtask fuzz: takes --minutes N, from 1 to 10000, and was given {:?}", words.join(" "));
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
        // A panic is an input's verdict here, and there are many while one that was found is made
        // small.
        Step::cargo(&line, &[("LEASEHOLD_FUZZ_SECONDS", &each), ("RUST_BACKTRACE", "0")])
    });
    account("fuzz", &steps)
}

/// How many tests there are.
fn listed(cargo: &[&str], harness: &[&str]) -> Result<u64, String> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(cargo).args(["--", "--list"]).args(harness).current_dir(workspace());
    let listed = tool::run(&mut command)?;
    Ok(listed.lines().filter(|line| line.ends_with(": test")).count() as u64)
}
