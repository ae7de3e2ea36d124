//! `cargo xtask soak`: runs `proving/faults`' soak test (random faults on every kind of lock, store
//! and topology), which documents its arguments.

use std::process::ExitCode;

use crate::{
    servers,
    step::{Step, account},
};

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    if let Err(failed) = servers::fetch() {
        return failed;
    }
    let build = Step::cargo(&["build", "--quiet", "-p", "faults", "--bin", "soak"], &[]);
    if !build.passed() {
        return account("soak", &[build]);
    }
    // The program prints its own report, so cargo prints nothing.
    let line = ["run", "--quiet", "-p", "faults", "--bin", "soak", "--"];
    let line: Vec<_> = line.into_iter().chain(arguments.iter().map(String::as_str)).collect();
    Step::cargo(&line, &[]).code()
}
