//! `cargo xtask package`: packages the crates for a registry, and builds each from the packages of
//! the others alone.

use std::{fs, io, path::Path, process::ExitCode};

use crate::{
    files::{error_at, remove},
    step::{Step, account, cargo_home, workspace},
    stop::Stop,
};

/// The published crates, in the order in which they can be published.
pub(crate) const CRATES: [&str; 7] = [
    "leasehold-core",
    "leasehold-credentials",
    "leasehold-file",
    "leasehold-postgres",
    "leasehold-redis",
    "leasehold",
    "leasehold-cli",
];

pub(crate) fn run() -> Result<ExitCode, Stop> {
    let target = workspace().join("target/packages");
    remove_unpacked()
        .and_then(|()| remove(&target))
        .map_err(|why| format!("cannot remove the packages of an earlier run: {why}"))?;
    let target = target.to_string_lossy();
    let chosen = CRATES.iter().flat_map(|name| ["--package", name]);
    let line: Vec<_> = ["package", "--locked", "--target-dir", &target].into_iter().chain(chosen).collect();
    Ok(account("package", &[Step::cargo(&line, &[])]))
}

/// Removes the packages that an earlier run unpacked in cargo's home.
///
/// To build a package, cargo makes a registry of the other packages in the target directory and
/// unpacks them from it. Cargo unpacks a name and version only once from a registry at the same
/// path, and compiles it only once in the same target directory. So each run starts with an empty
/// target directory and with nothing unpacked: otherwise it would build the packages of an earlier
/// commit.
fn remove_unpacked() -> Result<(), String> {
    let sources = cargo_home()?.join("registry/src");
    let list = |directory: &Path| fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>();
    if !sources.exists() {
        return Ok(());
    }
    for registry in list(&sources).map_err(error_at(&sources))? {
        // The directory of a registry on the network begins with its host name, that of a local one
        // with a hyphen.
        if !registry.file_name().to_string_lossy().starts_with('-') {
            continue;
        }
        for package in list(&registry.path()).map_err(error_at(&registry.path()))? {
            let name = package.file_name().to_string_lossy().into_owned();
            if CRATES.iter().any(|ours| name == format!("{ours}-{}", env!("CARGO_PKG_VERSION"))) {
                remove(&package.path())?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_has_the_texts_of_the_licences_and_everything_that_a_registry_shows() {
        let read = |file: &Path| {
            fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
        };
        for name in CRATES {
            let place = name.strip_prefix("leasehold-").unwrap_or(name);
            let package = workspace().join("crates").join(place);
            for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
                assert_eq!(
                    read(&package.join(licence)),
                    read(&workspace().join(licence)),
                    "{name}: {licence}"
                );
            }
            let manifest = read(&package.join("Cargo.toml"));
            for field in ["description", "license", "keywords", "categories", "readme", "rust-version"] {
                assert!(manifest.lines().any(|line| line.starts_with(field)), "{name} lacks {field}");
            }
            assert!(manifest.contains("[package.metadata.docs.rs]\nall-features = true"), "{name}: docs.rs");
        }
    }
}
