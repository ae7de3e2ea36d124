//! `cargo xtask bench`: runs `proving/bench`, which measures Leasehold and documents its arguments.

use std::process::ExitCode;

use crate::{
    servers,
    step::{Step, account},
};

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    if let Err(failed) = servers::fetch() {
        return failed;
    }
    // Builds both programs of the package, because one starts the other to count allocations.
    let build = Step::cargo(&["build", "--release", "-p", "bench", "--bins"], &[]);
    if !build.passed() {
        return account("bench", &[build]);
    }
    let line = ["run", "--quiet", "--release", "-p", "bench", "--bin", "bench", "--"];
    let line: Vec<_> = line.into_iter().chain(arguments.iter().map(String::as_str)).collect();
    Step::cargo(&line, &[]).code()
}
