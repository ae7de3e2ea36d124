//! `cargo xtask dist`: builds the release binary, and the packages that contain it.
//!
//! A package counts as built once it has been installed from its file into a temporary directory
//! and has run a command under a lock there.

mod archive;
mod build;
mod deb;
mod formula;
mod notices;
mod npm;
mod oci;
mod release;
mod trial;
mod wheel;

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

use flate2::Compression;

use crate::{
    files,
    step::{Step, account},
    stop::Stop,
    tool,
};
use release::Release;

/// The address of a release's downloads, for the formula; by default the directory that the
/// packages are written to.
const BASE: &str = "LEASEHOLD_RELEASES";

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, Stop> {
    let words: Vec<_> = arguments.iter().map(String::as_str).filter(|word| *word != "--twice").collect();
    let twice = words.len() < arguments.len();
    let binary = match *words {
        [] => built(build::TARGETS[0], twice)?,
        ["--target", name] => built(build::Target::named(name).ok_or_else(refused)?, twice)?,
        ["--binary", file] if !twice => PathBuf::from(file),
        _ => return Err(refused()),
    };
    let release = Release::gather(&binary, Compression::best())?;
    let packages = pack(&release, &crate::step::target().join("dist-archives"))?;
    Ok(account("dist", &packages.tried(&release)))
}

fn built(target: build::Target, twice: bool) -> Result<PathBuf, Stop> {
    let binary = build::binary(target)?;
    if twice {
        build::compare(&binary, target)?;
    }
    Ok(binary)
}

fn refused() -> Stop {
    let targets = build::TARGETS.map(|target| target.rust).join(" or ");
    Stop::Usage(format!("takes --binary FILE, or --twice and --target {targets}"))
}

/// The files of a release.
struct Packages {
    archive: PathBuf,
    formula: PathBuf,
    deb: PathBuf,
    wheel: PathBuf,
    npm: PathBuf,
    image: PathBuf,
}

/// Writes every package and the checksums into a directory, and removes everything else from it.
fn pack(release: &Release, into: &Path) -> Result<Packages, String> {
    files::remove(into)?;
    files::create_directory(into)?;
    let mut sums = String::new();
    let mut write = |name: String, bytes: Vec<u8>| {
        let path = into.join(&name);
        files::write(&path, &bytes)?;
        sums += &format!("{}  {name}\n", archive::sha256(&bytes));
        Ok::<_, String>(path)
    };
    let archive = release.archive()?;
    let base = env::var(BASE).unwrap_or_else(|_| format!("file://{}", into.display()));
    let formula = formula::text(release, &base, &archive::sha256(&archive));
    let packages = Packages {
        archive: write(format!("{}.tar.gz", release.name()), archive)?,
        formula: write("leasehold.rb".into(), formula.into_bytes())?,
        deb: write(deb::name(release), deb::pack(release)?)?,
        wheel: write(wheel::name(release), wheel::pack(release)?)?,
        npm: write(npm::name(release), npm::pack(release)?)?,
        image: write(oci::name(release), oci::pack(release)?)?,
    };
    files::write(&into.join("SHA256SUMS"), sums)?;
    Ok(packages)
}

impl Packages {
    /// Installs each package and runs a command with it.
    fn tried(&self, release: &Release) -> Vec<Step> {
        // Both refuse to install a program for another processor.
        let elsewhere = |program| match release.platform.is_here() {
            true => lacking(program),
            false => Some(format!("the processor of {}", release.platform.rust)),
        };
        let checks = [
            ("the archive installs and runs", trial::archive(&self.archive, release), None),
            ("the formula fits the archive", trial::formula(&self.formula, &self.archive), None),
            ("the formula is valid Ruby", trial::ruby(&self.formula), lacking("ruby")),
            ("the Debian package installs and runs", trial::deb(&self.deb, release), lacking("dpkg-deb")),
            ("the wheel installs and runs", trial::wheel(&self.wheel, release), elsewhere("python3")),
            ("the npm package installs and runs", trial::npm(&self.npm, release), elsewhere("npm")),
            ("the image installs and runs", trial::image(&self.image, release), None),
        ];
        let step = |(name, tried, lacking): (&str, Result<(), String>, Option<String>)| match (tried, lacking)
        {
            (Ok(()), _) => Step::own(name, true),
            (Err(_), Some(program)) => {
                Step::left_out(format!("not checked that {name}: this machine lacks {program}"))
            }
            (Err(why), None) => Step::own(&format!("{name}: {why}"), false),
        };
        checks.into_iter().map(step).collect()
    }
}

/// The program's name, if it is not on the PATH.
fn lacking(program: &str) -> Option<String> {
    (!tool::is_there(program)).then(|| program.to_owned())
}

#[cfg(test)]
mod tests;
