//! `cargo xtask peers`: downloads the lock libraries of other languages into `target/peers`, and
//! builds Rust's others there.
//!
//! A stamp is written next to them when all are installed; without it, or with another one, they
//! are downloaded again. If a language is missing on this machine, or too old, its libraries are
//! left out and named, and their tests say `ignored`.

use std::{
    fs,
    path::Path,
    process::{Command, ExitCode},
};

use interop::{Language, Peer};

use crate::{
    files::{self, error_at, take_turn},
    step::Step,
    stop::Stop,
    tool,
};

pub(crate) fn run() -> Result<ExitCode, Stop> {
    fetch()?;
    for language in Language::ALL.into_iter().filter(|language| language.has_libraries()) {
        println!("{language:<8}  {}  {}", language.home().display(), names(language));
    }
    Ok(ExitCode::SUCCESS)
}

/// Downloads missing libraries, and returns those that were left out. Prints nothing if none is
/// missing.
pub(crate) fn fetch() -> Result<Vec<String>, Stop> {
    let _turn = take_turn(&Language::fetched_into())?;
    let mut left_out = Vec::new();
    let mut failed = false;
    for language in Language::ALL {
        let lacking = language.lacking();
        if !lacking.is_empty() {
            let what = format!(
                "the tests with {}: {} is missing or too old; remedy: put a newer one on the PATH",
                names(language),
                lacking.join(" and ")
            );
            eprintln!("xtask peers: LEFT OUT: {what}");
            left_out.push(what);
        } else if let Err(why) = provide(language) {
            failed = true;
            eprintln!("xtask peers: the libraries of {language} could not be downloaded: {why}");
        }
    }
    failed |= !rust().passed();
    if failed { Err(Stop::Told(ExitCode::FAILURE)) } else { Ok(left_out) }
}

/// A separate workspace with its own lock file. Cargo knows whether there is anything to do.
fn rust() -> Step {
    let manifest = "proving/bench-compare/peers/Cargo.toml";
    let place = Language::fetched_into().join("rust");
    let place = place.display().to_string();
    let line =
        ["build", "--quiet", "--release", "--locked", "--manifest-path", manifest, "--target-dir", &place];
    Step::cargo(&line, &[])
}

fn names(language: Language) -> String {
    language.peers().map(Peer::name).collect::<Vec<_>>().join(", ")
}

fn provide(language: Language) -> Result<(), String> {
    let home = language.home();
    let stamp = language.stamp().map_err(error_at(&home))?;
    if fs::read_to_string(language.stamp_file()).is_ok_and(|there| there == stamp) {
        return Ok(());
    }
    eprintln!("xtask peers: downloading {}", names(language));
    files::remove(&home)?;
    files::create_directory(&home)?;
    for manifest in language.manifests() {
        let name = manifest.file_name().expect("a manifest is a file");
        fs::copy(&manifest, home.join(name)).map_err(error_at(&home))?;
    }
    match language {
        Language::Node => node(&home)?,
        Language::Python => python(&home)?,
    }
    files::write(&language.stamp_file(), stamp)
}

/// Installs exactly the versions in the lock file, checked by hash. None of these libraries needs
/// an install script.
fn node(home: &Path) -> Result<(), String> {
    let quiet = ["--no-audit", "--no-fund", "--loglevel=error"];
    tool::run(Command::new("npm").args(["ci", "--ignore-scripts"]).args(quiet).current_dir(home)).map(drop)
}

/// Installs into a virtual environment. It contains no pip, because Debian packages that
/// separately; the system's pip is used.
fn python(home: &Path) -> Result<(), String> {
    tool::run(Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(home))?;
    let packages = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let packages = tool::run(Command::new(home.join("bin/python")).args(["-c", packages]))?;
    tool::run(
        Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(["--no-deps", "--only-binary=:all:"])
            .args(["--target", packages.trim()])
            .arg("--requirement")
            .arg(home.join("requirements.txt")),
    )?;
    // The manifest must name every dependency, and which ones there are depends on the Python
    // version; so importing checks it.
    tool::run(Command::new(home.join("bin/python")).args(["-c", "import pottery, redis.lock, redis_lock"]))
        .map(drop)
}
