//! `cargo xtask faults`: runs the tests that measure one fault at a time, in their long form.

use std::process::ExitCode;

use crate::{
    servers,
    step::{Step, account},
};

/// Runs one test after the other, so that they do not disturb each other's measurements; the
/// arguments select among them.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    if let Err(failed) = servers::fetch() {
        return failed;
    }
    let harness = ["test", "-p", "faults", "--tests", "--", "--nocapture", "--test-threads=1"];
    let line: Vec<_> = harness.into_iter().chain(arguments.iter().map(String::as_str)).collect();
    account("faults", &[Step::cargo(&line, &[("LEASEHOLD_FAULTS_LONG", "1")])])
}
