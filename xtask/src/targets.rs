//! `cargo xtask targets`: checks that the published crates compile for systems on which few tests
//! or none run.
//!
//! Only Rust is compiled. The C in the dependencies (SQLite, ring) would need each system's
//! compiler and headers, so a stand-in takes its place, which writes empty objects.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use crate::{
    files,
    step::{Step, account},
    stop::Stop,
    tool,
};

/// Systems, and the crates that run there.
const SYSTEMS: [(&[&str], &[&str]); 2] = [
    (&["x86_64-apple-darwin", "x86_64-unknown-freebsd"], &["leasehold-cli", "leasehold"]),
    // The command needs Unix.
    (&["x86_64-pc-windows-gnu", "x86_64-pc-windows-msvc"], &["leasehold"]),
];

pub(crate) fn run() -> Result<ExitCode, Stop> {
    let standin = Standin::write()?;
    let steps: Vec<_> =
        SYSTEMS.iter().flat_map(|(targets, packages)| check(targets, packages, &standin)).collect();
    Ok(account("targets", &steps))
}

fn check(targets: &[&str], packages: &[&str], standin: &Standin) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut line = vec!["check", "--locked", "--features", "leasehold/postgres"];
    line.extend(packages.iter().flat_map(|name| ["--package", name]));
    let mut environment = vec![("RUSTFLAGS".to_owned(), "-D warnings".to_owned())];
    for target in targets {
        match add(target) {
            Ok(()) => {
                line.extend(["--target", target]);
                environment.extend(standin.environment(target));
            }
            Err(why) => steps.push(Step::left_out(format!("{target}: {why}"))),
        }
    }
    if line.contains(&"--target") {
        let environment: Vec<_> =
            environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        steps.push(Step::cargo(&line, &environment));
    }
    steps
}

/// Installs Rust's standard library for a target if it is missing.
pub(crate) fn add(target: &str) -> Result<(), String> {
    let library = tool::run(Command::new("rustc").args(["--print", "target-libdir", "--target", target]))?;
    if !Path::new(library.trim()).is_dir() {
        tool::run(Command::new("rustup").args(["target", "add", target]))?;
    }
    Ok(())
}

/// A compiler of C and an archiver that compile and archive nothing.
struct Standin {
    compiler: PathBuf,
    archiver: PathBuf,
}

impl Standin {
    fn write() -> Result<Self, String> {
        let place = files::directory(&crate::step::target(), "standin")?;
        let script = |name: &str, text: &str| {
            let path = place.join(name);
            files::write(&path, text)?;
            files::make_executable(&path).map(|()| path)
        };
        Ok(Self {
            compiler: script(
                "cc",
                "#!/bin/sh\nwhile [ $# -gt 0 ]; do\n  case $1 in\n    -o) : > \"$2\" ;;\n    -o*) : > \"${1#-o}\" ;;\n  esac\n  \
                 shift\ndone\n",
            )?,
            archiver: script(
                "ar",
                "#!/bin/sh\nfor word; do\n  case $word in\n    -out:*|/out:*) : > \"${word#?out:}\" ;;\n    *.a) : > \"$word\" ;;\n  \
                 esac\ndone\n",
            )?,
        })
    }

    fn environment(&self, target: &str) -> [(String, String); 2] {
        let target = target.replace('-', "_");
        [("CC", &self.compiler), ("AR", &self.archiver)]
            .map(|(tool, path)| (format!("{tool}_{target}"), path.display().to_string()))
    }
}
