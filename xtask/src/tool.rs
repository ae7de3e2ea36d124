//! Runs other programs, and reports their failures in one line.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    files::{files_under, take_turn},
    step::{cargo, target},
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
    let _turn = take_turn(&root).map_err(|error| format!("{}: {error}", root.display()))?;
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
            unpacked.and_then(Result::err).into_iter().chain([why]).collect::<Vec<_>>().join("; ")
        })?;
    }
    if is_wanted(&program) { Ok(program) } else { Err(format!("{} does not run", program.display())) }
}

fn line(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Every file under a directory.
pub(crate) fn files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    files_under(directory).map_err(|error| format!("{}: {error}", directory.display()))
}

/// A new directory inside another.
pub(crate) fn directory(parent: &Path, name: &str) -> Result<PathBuf, String> {
    let path = parent.join(name);
    fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// Moves a file within the workshop.
pub(crate) fn put(from: &Path, to: &Path) -> Result<(), String> {
    fs::rename(from, to).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}

/// Makes the file executable for everybody: unpacking a wheel loses that.
pub(crate) fn make_executable(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .map_err(|error| format!("{}: {error}", path.display()))
}
