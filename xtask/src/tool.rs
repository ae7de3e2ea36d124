//! Runs other programs, and reports their failures in one line.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    files::take_turn,
    step::{cargo, target, workspace},
};

/// The number of lines of stderr that a failure quotes: the last ones name the cause.
const QUOTED: usize = 3;

/// Runs a command without showing its output, which it returns; an error contains the command and
/// the end of its output.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("`{}` cannot be run: {error}", line(command)))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said: Vec<_> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let tail = said[said.len().saturating_sub(QUOTED)..].join(" | ");
    Err(format!("`{}` failed ({}): {tail}", line(command), output.status))
}

/// Returns true if a program is installed.
pub(crate) fn is_there(program: &str) -> bool {
    run(Command::new(program).arg("--version")).is_ok()
}

/// A subcommand of cargo, as [`installed`].
pub(crate) fn subcommand(name: &str, version: &str) -> Result<PathBuf, String> {
    installed(name, version, &[name.trim_start_matches("cargo-"), "--version"], &[], None)
}

/// Puts a program into a place below a directory.
pub(crate) type Unpack = fn(&Path, &Path) -> Result<(), String>;

/// A program in Rust: the installed one if it says that it is the required version, otherwise the
/// one in `target/tools`, which is unpacked or built if it is missing.
pub(crate) fn installed(
    name: &str,
    version: &str,
    says_version: &[&str],
    options: &[&str],
    unpack: Option<Unpack>,
) -> Result<PathBuf, String> {
    let root = target().join("tools");
    let program = root.join("bin").join(name);
    let is_wanted = |program: &Path| {
        let said = Command::new(program).args(says_version).output();
        let words = [format!("{name} {version}"), format!("{name} v{version}")];
        said.is_ok_and(|said| words.iter().any(|word| word == String::from_utf8_lossy(&said.stdout).trim()))
    };
    if let Some(there) = [PathBuf::from(name), program.clone()].into_iter().find(|it| is_wanted(it)) {
        return Ok(there);
    }
    let _turn = take_turn(&root)?;
    if is_wanted(&program) {
        return Ok(program);
    }
    let unpacked = unpack.map(|unpack| unpack(&root, &program));
    if let Some(Err(why)) = &unpacked {
        eprintln!("xtask: the package has no {name} ({why})");
    }
    if !matches!(unpacked, Some(Ok(()))) {
        eprintln!("xtask: building {name} {version}, which takes some minutes");
        let words = ["install", name, "--version", version, "--locked", "--force"];
        let built = run(cargo().args(words).args(options).arg("--root").arg(&root));
        built.map_err(|why| {
            let whys: Vec<_> = unpacked.and_then(Result::err).into_iter().chain([why]).collect();
            let why = whys.join("; ");
            format!(
                "{name} {version} could not be downloaded: {why}\nhint: put `{name}` {version} on the PATH"
            )
        })?;
    }
    if is_wanted(&program) { Ok(program) } else { Err(format!("{} does not run", program.display())) }
}

fn line(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Installs a toolchain of Rust, if it is missing.
pub(crate) fn toolchain(name: &str) -> Result<(), String> {
    if run(Command::new("rustup").args(["run", name, "rustc", "--version"])).is_err() {
        let install = ["toolchain", "install", name, "--profile", "minimal", "--no-self-update"];
        run(Command::new("rustup").args(install))?;
    }
    Ok(())
}

/// What cargo knows of the packages of the workspace, and without `--no-deps` of all that they need.
pub(crate) fn packages(options: &[&str]) -> Result<Vec<Value>, String> {
    let mut command = Command::new("cargo");
    command.args(["metadata", "--format-version", "1", "--locked"]).args(options).current_dir(workspace());
    let metadata: Value = serde_json::from_str(&run(&mut command)?).map_err(|error| error.to_string())?;
    metadata["packages"].as_array().cloned().ok_or_else(|| "cargo names no packages".into())
}
