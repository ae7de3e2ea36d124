//! `cargo xtask simulate`: runs more seeds than the tests do, or replays one.

use std::process::{Command, ExitCode};

use crate::step::workspace;

/// Built as the tests build it, so that nothing is built twice. Prints only its own output, without
/// a summary of steps.
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
