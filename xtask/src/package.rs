//! `cargo xtask package`: the crates as a registry would get them, each built from the packages of the others alone.

use std::process::ExitCode;

use crate::{
    step::{Step, account},
    takes_no_arguments,
};

/// Those that are published, in the order in which they can be.
const CRATES: [&str; 6] = [
    "leasehold-core",
    "leasehold-file",
    "leasehold-postgres",
    "leasehold-redis",
    "leasehold",
    "leasehold-cli",
];

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    if let Err(refused) = takes_no_arguments("package", arguments) {
        return refused;
    }
    let chosen = CRATES.iter().flat_map(|name| ["--package", name]);
    let line: Vec<_> = ["package", "--locked"].into_iter().chain(chosen).collect();
    account("package", &[Step::cargo(&line, &[])])
}
