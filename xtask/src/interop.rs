//! `cargo xtask interop`: runs all the other languages' libraries and Leasehold on one key for a
//! given time.

use std::process::ExitCode;

use crate::{
    peers, servers,
    step::{Step, account},
    stop::{Stop, number},
};

/// The two tests in which all libraries compete, one after the other: on one server, and on three.
const TESTS: &str = "everybody_gets_in_and_nobody_is_there_at_once";

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, Stop> {
    let seconds = number(arguments, "--seconds", 60, 1..=86_400)?.to_string();
    servers::fetch()?;
    let left_out = peers::fetch()?;
    let line = ["test", "-p", "interop", "--test", "mixed", "--", TESTS, "--nocapture", "--test-threads=1"];
    let mut steps = vec![Step::cargo(&line, &[("LEASEHOLD_HAMMER_SECONDS", &seconds)])];
    steps.extend(left_out.into_iter().map(Step::left_out));
    Ok(account("interop", &steps))
}
