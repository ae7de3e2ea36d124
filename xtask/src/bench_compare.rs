//! `cargo xtask bench-compare`: runs `proving/bench-compare`, which compares Leasehold with other
//! lock libraries and documents its arguments.

use std::process::ExitCode;

use crate::{peers, servers, step::Step};

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    if let Err(failed) = servers::fetch() {
        return failed;
    }
    // `peers::fetch` has listed the libraries that are left out, and the program lists them again.
    if let Err(failed) = peers::fetch() {
        return failed;
    }
    let line = ["run", "--quiet", "--release", "-p", "bench-compare", "--"];
    let line: Vec<_> = line.into_iter().chain(arguments.iter().map(String::as_str)).collect();
    Step::cargo(&line, &[]).code()
}
