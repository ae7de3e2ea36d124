//! `cargo xtask simulate`: more seeds than the tests run, or one again.

use std::process::{Command, ExitCode};

use crate::step::workspace;

/// As the tests build it, so that nothing is built twice. Its output is all there is to see, so no
/// account follows.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let ran = Command::new(cargo)
        .args(["run", "--quiet", "--package", "simulation", "--"])
        .args(arguments)
        .current_dir(workspace())
        .status();
    match ran {
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(error) => {
            eprintln!("xtask: cannot run cargo: {error}");
            ExitCode::FAILURE
        }
    }
}
