//! The release binary, linked statically with musl. Unlike the GNU C library, musl looks up names
//! and users without loading code at run time.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use super::release::{AARCH64, Platform, X86_64};
use crate::{
    files::{self, error_at},
    servers::debian,
    source_copy,
    step::{self, Step, workspace},
    stop::Stop,
    targets, tool,
};

/// A target of the release, and how C is compiled for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) rust: &'static str,
    platform: Platform,
    /// The directory of its C headers in Debian's package.
    headers: &'static str,
    /// Debian's compiler for the GNU library, which is on more machines than `musl`, one for musl,
    /// and the package that contains it.
    compiler: &'static str,
    package: &'static str,
    musl: &'static str,
}

pub(super) const TARGETS: [Target; 2] = [
    Target {
        rust: "x86_64-unknown-linux-musl",
        platform: X86_64,
        headers: "x86_64-linux-musl",
        compiler: "x86_64-linux-gnu-gcc",
        package: "gcc",
        musl: "musl-gcc",
    },
    Target {
        rust: "aarch64-unknown-linux-musl",
        platform: AARCH64,
        headers: "aarch64-linux-musl",
        compiler: "aarch64-linux-gnu-gcc",
        package: "gcc-aarch64-linux-gnu",
        musl: "aarch64-linux-musl-gcc",
    },
];

impl Target {
    /// A target by its name in Rust.
    pub(super) fn named(name: &str) -> Option<Self> {
        TARGETS.into_iter().find(|target| target.rust == name)
    }

    /// A variable that Rust's tools read for this target alone.
    fn variable(self, start: &str, end: &str) -> String {
        format!("{start}_{}{end}", self.rust.replace('-', "_"))
    }
}

/// The largest size of the binary: small enough to be copied into any image.
const MOST_BYTES: u64 = 8 * 1024 * 1024;

/// The directories that a build reads and writes.
struct Place {
    source: PathBuf,
    target: PathBuf,
    cargo_home: PathBuf,
}

impl Place {
    fn workspace() -> Result<Self, String> {
        Ok(Self { source: workspace().into(), target: step::target(), cargo_home: step::cargo_home()? })
    }

    /// A copy of the source in an empty directory. Cargo's home has another name there, too, but
    /// the same contents.
    fn copy(&self, into: &Path) -> Result<Self, String> {
        let copy = Self {
            source: into.join("of-the-source"),
            target: into.join("build"),
            cargo_home: into.join("home"),
        };
        source_copy::update(&copy.source)?;
        symlink(&self.cargo_home, &copy.cargo_home).map_err(error_at(into))?;
        Ok(copy)
    }

    /// Flags that keep these directories out of panics' texts, so that two machines build the same
    /// bytes.
    fn without_paths(&self) -> String {
        let (home, source) = (self.cargo_home.display(), self.source.display());
        format!("--remap-path-prefix={home}=/cargo --remap-path-prefix={source}=/leasehold")
    }
}

/// Builds the binary and checks the release's promises about it.
pub(super) fn binary(target: Target) -> Result<PathBuf, Stop> {
    let binary = build(target, &Place::workspace()?)?;
    check(&binary)?;
    Ok(binary)
}

/// Builds the binary again in other directories, and checks that it has the same bytes: then
/// everybody can check that a release was built from its source.
pub(super) fn compare(first: &Path, target: Target) -> Result<(), Stop> {
    let place = files::workshop(&step::target())?;
    let second = build(target, &Place::workspace()?.copy(place.path())?)?;
    if files::read(first)? == files::read(&second)? {
        eprintln!("xtask dist: the second build has the same bytes");
        return Ok(());
    }
    let kept = first.with_extension("second");
    files::put(&second, &kept)?;
    let (first, second) = (first.display(), kept.display());
    Err(format!("two builds of the same source differ: compare {first} and {second}").into())
}

fn build(target: Target, place: &Place) -> Result<PathBuf, Stop> {
    let mut environment = compiler(target)?;
    let home = place.cargo_home.display().to_string();
    environment.push((target.variable("CARGO_TARGET", "_RUSTFLAGS").to_uppercase(), place.without_paths()));
    environment.push(("CARGO_HOME".into(), home));
    let environment: Vec<_> = environment.iter().map(|(name, value)| (&**name, &**value)).collect();
    let into = place.target.display().to_string();
    let line = ["build", "--profile", "dist", "--locked", "--target", target.rust, "-p", "leasehold-cli"];
    let build = Step::cargo_in(&place.source, &[&line[..], &["--target-dir", &into]].concat(), &environment);
    build.must_pass("dist")?;
    Ok(place.target.join(target.rust).join("dist/leasehold"))
}

/// Makes sure that Rust and C can be compiled for musl, and returns the environment variables that
/// this takes.
fn compiler(target: Target) -> Result<Vec<(String, String)>, String> {
    targets::add(target.rust)?;
    let mut variables = Vec::new();
    // Known before the build, which takes minutes.
    if let Some(emulator) = target.platform.emulator().filter(|emulator| !tool::is_there(emulator)) {
        return Err(format!(
            "{emulator} is missing, which runs the binary to write its man pages; remedy: install it (qemu-user)"
        ));
    }
    if env::var_os(target.variable("CC", "")).is_some() || tool::is_there(target.musl) {
        return Ok(variables);
    }
    // Only the headers are missing: the linker uses the C library that Rust ships.
    let headers = headers(target)
        .map_err(|why| format!("no C headers of musl: {why}; remedy: put {} on the PATH", target.musl))?;
    let own = tool::run(Command::new(target.compiler).arg("-print-file-name=include"))
        .map_err(|why| format!("{why}; remedy: install {}", target.package))?;
    let flags = format!("-nostdinc -U_FORTIFY_SOURCE -isystem {} -isystem {}", headers.display(), own.trim());
    variables.extend([
        (target.variable("CC", ""), target.compiler.into()),
        (target.variable("CFLAGS", ""), flags),
        (target.variable("CARGO_TARGET", "_LINKER").to_uppercase(), target.compiler.into()),
    ]);
    Ok(variables)
}

/// The headers from Debian's package, unpacked without being installed.
fn headers(target: Target) -> Result<PathBuf, String> {
    let place = step::target().join(format!("musl-{}", target.platform.debian));
    let headers = Path::new("usr/include").join(target.headers);
    if !place.join(&headers).is_dir() {
        let workshop = files::workshop(&step::target())?;
        let unpacked = debian::unpacked("musl-dev", target.platform.debian, workshop.path())?;
        files::put(&unpacked, &place)?;
    }
    Ok(place.join(headers))
}

/// Checks the release's promises about its binary.
fn check(binary: &Path) -> Result<(), String> {
    let bytes = fs::metadata(binary).map_err(error_at(binary))?.len();
    if bytes > MOST_BYTES {
        return Err(format!("the binary has {bytes} bytes, more than {MOST_BYTES}"));
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
