//! `cargo xtask lint`: checks of the source that come before the tests.

use std::process::ExitCode;

use crate::{
    clock_rule, deny, import_circles,
    step::{Step, account, workspace},
    stop::Stop,
};

pub(crate) fn run() -> Result<ExitCode, Stop> {
    // Runs all checks even after a failure, so that one run shows everything.
    let mut steps = vec![
        Step::cargo(&["fmt", "--all", "--check"], &[]),
        // A separate workspace, which the line above does not cover.
        Step::cargo(&["fmt", "--check", "--manifest-path", "proving/bench-compare/peers/Cargo.toml"], &[]),
        Step::cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[]),
        // The workspace is checked with the features of all its crates together; the command has fewer.
        Step::cargo(&["clippy", "--package", "leasehold-cli", "--", "-D", "warnings"], &[]),
        Step::cargo(&["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")]),
        rule(
            "clocks, timers, tasks and randomness only in crates/leasehold/src/runtime.rs",
            clock_rule::violations(workspace()),
        ),
        rule("no files that import each other in a circle", import_circles::circles(workspace())),
    ];
    steps.extend(deny::check());
    Ok(account("lint", &steps))
}

/// A rule of our own, with the places that break it.
fn rule(name: &str, found: Result<Vec<String>, String>) -> Step {
    match found {
        Ok(found) => {
            for violation in &found {
                eprintln!("xtask: {violation}");
            }
            Step::own(name, found.is_empty())
        }
        Err(error) => {
            eprintln!("xtask: {name}: cannot look: {error}");
            Step::own(name, false)
        }
    }
}
