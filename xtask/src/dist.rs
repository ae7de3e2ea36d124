//! `cargo xtask dist`: one static binary for Linux on x86-64, with its manual and completions, in an archive with its checksum.
//!
//! Static against musl, which unlike the GNU C library looks up names and users without loading anything at run time.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use crate::{
    pages,
    servers::debian,
    step::{Step, account, workspace},
    takes_no_arguments, tool,
};

const TARGET: &str = "x86_64-unknown-linux-musl";

/// What the binary may weigh: small enough to be copied into every image without a thought.
const MOST_BYTES: u64 = 8 * 1024 * 1024;

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    if let Err(refused) = takes_no_arguments("dist", arguments) {
        return refused;
    }
    let environment = match compiler() {
        Ok(environment) => environment,
        Err(why) => return failed(&why),
    };
    let environment: Vec<_> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let build = ["build", "--profile", "dist", "--target", TARGET, "-p", "leasehold-cli"];
    let build = Step::cargo(&build, &environment);
    if !build.passed() {
        return account("dist", &[build]);
    }
    let binary = pages::target().join(TARGET).join("dist/leasehold");
    match check(&binary).and_then(|()| pack(&binary)) {
        Ok(archive) => {
            println!("{}", archive.display());
            ExitCode::SUCCESS
        }
        Err(why) => failed(&why),
    }
}

fn failed(why: &str) -> ExitCode {
    eprintln!("xtask dist: {why}");
    ExitCode::FAILURE
}

/// Sees to it that Rust and C can be compiled for musl, and says which variables that takes.
fn compiler() -> Result<Vec<(&'static str, String)>, String> {
    let library = tool::run(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]))?;
    if !Path::new(library.trim()).is_dir() {
        tool::run(Command::new("rustup").args(["target", "add", TARGET]))?;
    }
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if env::var_os("CC_x86_64_unknown_linux_musl").is_some() || is_there("musl-gcc") {
        return Ok(Vec::new());
    }
    // The headers are all that is missing: the linker takes the C library that Rust brings.
    let headers = headers().map_err(|why| {
        format!("no C headers of musl: {why}; remedy: put musl-gcc on the PATH (musl-tools)")
    })?;
    let own = tool::run(Command::new("gcc").arg("-print-file-name=include"))?;
    let flags = format!("-nostdinc -U_FORTIFY_SOURCE -isystem {} -isystem {}", headers.display(), own.trim());
    Ok(vec![
        ("CC_x86_64_unknown_linux_musl", "gcc".into()),
        ("CFLAGS_x86_64_unknown_linux_musl", flags),
        ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER", "gcc".into()),
    ])
}

/// The headers of Debian's package, unpacked and not installed.
fn headers() -> Result<PathBuf, String> {
    let place = pages::target().join("musl");
    let headers = Path::new("usr/include/x86_64-linux-musl");
    if !place.join(headers).is_dir() {
        fs::create_dir_all(pages::target()).map_err(|error| error.to_string())?;
        let workshop = tempfile::tempdir_in(pages::target()).map_err(|error| error.to_string())?;
        let unpacked = debian::unpacked("musl-dev", workshop.path())?;
        tool::put(&unpacked, &place)?;
    }
    Ok(place.join(headers))
}

/// What a release promises of its binary.
fn check(binary: &Path) -> Result<(), String> {
    let bytes = fs::metadata(binary).map_err(|error| format!("{}: {error}", binary.display()))?.len();
    if bytes > MOST_BYTES {
        return Err(format!("the binary has {bytes} bytes, and may have {MOST_BYTES}"));
    }
    let headers = tool::run(Command::new("readelf").arg("-lWS").arg(binary))?;
    if headers.contains("INTERP") {
        return Err("the binary is not static: it names a loader".into());
    }
    if headers.contains(".symtab") || headers.contains(".debug") {
        return Err("the binary is not stripped".into());
    }
    eprintln!("xtask dist: static, stripped, {:.1} MiB", bytes as f64 / 1024.0 / 1024.0);
    works(binary)
}

/// It takes a lock, runs a command and gives its exit code, with nothing in the environment.
fn works(binary: &Path) -> Result<(), String> {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let store = format!("file:{}/leases.db", place.path().display());
    let mut command = Command::new(binary);
    command.args(["run", "--store", &store, "dist", "--", "/bin/sh", "-c", "exit 3"]).env_clear();
    match command.status() {
        Ok(status) if status.code() == Some(3) => Ok(()),
        Ok(status) => Err(format!("the binary ran `exit 3` and ended with {status}")),
        Err(error) => Err(format!("the binary does not run: {error}")),
    }
}

fn pack(binary: &Path) -> Result<PathBuf, String> {
    let version = tool::run(Command::new(binary).arg("--version"))?;
    let version = version.trim().rsplit(' ').next().unwrap_or_default();
    let name = format!("leasehold-{version}-x86_64-linux");
    let dist = pages::target().join("dist-archives");
    let stage = dist.join(&name);
    if stage.exists() {
        fs::remove_dir_all(&stage).map_err(|error| format!("{}: {error}", stage.display()))?;
    }
    pages::write(binary, &stage)?;
    copy(binary, &stage.join("leasehold"))?;
    let files =
        ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "docs/guide.md", "docs/operating.md"];
    for file in files {
        let source = workspace().join(file);
        copy(&source, &stage.join(source.file_name().unwrap_or_default()))?;
    }
    let archive = format!("{name}.tar.gz");
    // The same bytes from the same files, whoever packs them and when.
    let steady = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"];
    let mut tar = Command::new("tar");
    tool::run(tar.args(steady).args(["-czf", &archive, &name]).current_dir(&dist).env("GZIP", "-n"))?;
    let sum = tool::run(Command::new("sha256sum").arg(&archive).current_dir(&dist))?;
    let path = dist.join(&archive);
    fs::write(dist.join(format!("{archive}.sha256")), sum).map_err(|error| error.to_string())?;
    Ok(path)
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(drop).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}
