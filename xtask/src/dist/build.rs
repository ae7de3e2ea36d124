//! The release binary, linked statically with musl. Unlike the GNU C library, musl looks up names
//! and users without loading code at run time.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{pages, servers::debian, step::Step, tool};

const TARGET: &str = "x86_64-unknown-linux-musl";

/// The largest size of the binary: small enough to be copied into any image without a thought.
const MOST_BYTES: u64 = 8 * 1024 * 1024;

/// The reason why there is no binary.
pub(super) enum Failed {
    /// cargo failed and has printed the reason.
    Step(Step),
    Other(String),
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

/// Builds the binary and checks the release's promises about it.
pub(super) fn binary() -> Result<PathBuf, Failed> {
    let environment = compiler()?;
    let environment: Vec<_> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let build = ["build", "--profile", "dist", "--locked", "--target", TARGET, "-p", "leasehold-cli"];
    let build = Step::cargo(&build, &environment);
    if !build.passed() {
        return Err(Failed::Step(build));
    }
    let binary = pages::target().join(TARGET).join("dist/leasehold");
    check(&binary)?;
    Ok(binary)
}

/// Makes sure that Rust and C can be compiled for musl, and returns the environment variables that
/// this takes.
fn compiler() -> Result<Vec<(&'static str, String)>, String> {
    let library = tool::run(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]))?;
    if !Path::new(library.trim()).is_dir() {
        tool::run(Command::new("rustup").args(["target", "add", TARGET]))?;
    }
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if env::var_os("CC_x86_64_unknown_linux_musl").is_some() || is_there("musl-gcc") {
        return Ok(Vec::new());
    }
    // Only the headers are missing: the linker uses the C library that Rust ships.
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

/// The headers from Debian's package, unpacked without being installed.
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

/// Checks the release's promises about its binary.
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
    Ok(())
}
