//! `cargo xtask soak`: random faults, every noun, every store and topology, by the program in
//! `proving/faults`, which says what it takes.

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
    // Its report says all that there is to say.
    let line = ["run", "--quiet", "-p", "faults", "--bin", "soak", "--"];
    let line: Vec<_> = line.into_iter().chain(arguments.iter().map(String::as_str)).collect();
    Step::cargo(&line, &[]).code()
}
