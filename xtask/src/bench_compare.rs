//! `cargo xtask bench-compare`: Leasehold beside other lock libraries, by the program in
//! `proving/bench-compare`, which says what it takes.

use std::process::ExitCode;

use crate::{peers, servers, step::Step};

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    if let Err(failed) = servers::fetch() {
        return failed;
    }
    // What had to be left out was said, and is said again by the program.
    if let Err(failed) = peers::fetch() {
        return failed;
    }
    let line = ["run", "--quiet", "--release", "-p", "bench-compare", "--"];
    let line: Vec<_> = line.into_iter().chain(arguments.iter().map(String::as_str)).collect();
    Step::cargo(&line, &[]).code()
}
