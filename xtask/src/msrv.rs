//! `cargo xtask msrv`: checks that each published crate compiles with the oldest Rust that it
//! declares.

use std::{
    collections::BTreeMap,
    process::{Command, ExitCode},
};

use serde_json::Value;

use crate::{
    package::CRATES,
    pages,
    step::{Step, account, workspace},
    takes_no_arguments, tool,
};

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    if let Err(refused) = takes_no_arguments("msrv", arguments) {
        return refused;
    }
    let steps = versions().and_then(|versions| {
        versions.iter().map(|(rust, crates)| check(rust, crates)).collect::<Result<Vec<_>, _>>()
    });
    match steps {
        Ok(steps) => account("msrv", &steps),
        Err(why) => {
            eprintln!("xtask msrv: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The published crates, grouped by the Rust version that they declare.
fn versions() -> Result<BTreeMap<String, Vec<String>>, String> {
    let mut command = Command::new("cargo");
    command.args(["metadata", "--format-version", "1", "--no-deps", "--locked"]).current_dir(workspace());
    let metadata: Value =
        serde_json::from_str(&tool::run(&mut command)?).map_err(|error| error.to_string())?;
    let mut versions = BTreeMap::<_, Vec<_>>::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        if CRATES.contains(&name) {
            let rust =
                package["rust_version"].as_str().ok_or_else(|| format!("{name} names no rust-version"))?;
            versions.entry(rust.to_owned()).or_default().push(name.to_owned());
        }
    }
    Ok(versions)
}

/// Checks with every feature: an optional dependency may need a newer Rust.
fn check(rust: &str, crates: &[String]) -> Result<Step, String> {
    let installed = tool::run(Command::new("rustup").args(["run", rust, "rustc", "--version"]));
    if installed.is_err() {
        let install = ["toolchain", "install", rust, "--profile", "minimal", "--no-self-update"];
        tool::run(Command::new("rustup").args(install))?;
    }
    let target = pages::target().join("msrv").display().to_string();
    let mut line = vec!["run", rust, "cargo", "check", "--locked", "--all-features", "--target-dir", &target];
    line.extend(crates.iter().flat_map(|name| ["--package", name]));
    Ok(Step::program("rustup".as_ref(), &line))
}
