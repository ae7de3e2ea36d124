//! Installs packages from their files into a temporary directory, with the tools that users install
//! them with, and runs them there.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use flate2::read::GzDecoder;
use serde_json::Value;

use super::{archive::sha256, release::Release};
use crate::{
    files::{self, error_at},
    tool,
};

/// Checks that the program acquires a lock, runs a command and returns its exit code, with an empty
/// environment. A program for another processor runs under qemu, which cannot start a command for
/// it, so that one only looks at the lock.
fn runs(program: &Path, release: &Release) -> Result<(), String> {
    let place = files::temporary()?;
    let version = tool::run(release.platform.command(program).arg("--version"))?;
    if version.trim() != format!("leasehold {}", release.version) {
        return Err(format!("{} says that its version is {:?}", program.display(), version.trim()));
    }
    let store = format!("file:{}/leases.db", place.path().display());
    let mut command = release.platform.command(program);
    let expected = if release.platform.is_here() {
        command.args(["run", "--store", &store, "dist", "--", "/bin/sh", "-c", "exit 3"]).env_clear();
        3
    } else {
        command.args(["show", "--store", &store, "dist"]);
        1
    };
    match command.status() {
        Ok(status) if status.code() == Some(expected) => Ok(()),
        Ok(status) => {
            Err(format!("{} should have exited with {expected}, but exited with {status}", program.display()))
        }
        Err(error) => Err(format!("{} does not run: {error}", program.display())),
    }
}

/// Checks that each of these files exists and is not empty.
fn has(root: &Path, files: &[&str]) -> Result<(), String> {
    let lacks = |file: &&&str| fs::metadata(root.join(file)).map_or(true, |found| found.len() == 0);
    files.iter().find(lacks).map_or(Ok(()), |file| Err(format!("{file} is missing")))
}

fn unpack(bytes: &[u8], into: &Path) -> Result<(), String> {
    tar::Archive::new(bytes).unpack(into).map_err(|error| error.to_string())
}

pub(super) fn unpack_compressed(archive: &Path, into: &Path) -> Result<(), String> {
    let file = fs::File::open(archive).map_err(error_at(archive))?;
    tar::Archive::new(GzDecoder::new(file)).unpack(into).map_err(|error| error.to_string())
}

pub(super) fn archive(archive: &Path, release: &Release) -> Result<(), String> {
    let place = files::temporary()?;
    unpack_compressed(archive, place.path())?;
    let root = place.path().join(release.name());
    has(
        &root,
        &[
            "man/man1/leasehold.1",
            "man/man1/leasehold-run.1",
            "bash/leasehold",
            "LICENSE-MIT",
            "LICENSES-THIRD-PARTY",
            "guide.md",
        ],
    )?;
    runs(&root.join("leasehold"), release)
}

/// Checks that the archive contains the files that the formula installs, and has the formula's
/// checksum. Homebrew itself is not run.
pub(super) fn formula(formula: &Path, archive: &Path) -> Result<(), String> {
    let text = files::read_text(formula)?;
    let bytes = files::read(archive)?;
    if !text.contains(&format!("sha256 \"{}\"", sha256(&bytes))) {
        return Err("the checksum is not that of the archive".into());
    }
    let place = files::temporary()?;
    unpack_compressed(archive, place.path())?;
    let name = archive.file_name().unwrap_or_default().to_string_lossy().replace(".tar.gz", "");
    let installs = text.lines().filter(|line| line.contains(".install ") && !line.contains("Dir["));
    // Every second part between quotes is a name.
    let names: Vec<_> = installs.flat_map(|line| line.split('"').skip(1).step_by(2)).collect();
    has(&place.path().join(name), &names)
}

/// Checks the syntax of the formula.
pub(super) fn ruby(formula: &Path) -> Result<(), String> {
    tool::run(Command::new("ruby").arg("-c").arg(formula)).map(drop)
}

pub(super) fn deb(package: &Path, release: &Release) -> Result<(), String> {
    let place = files::temporary()?;
    // dpkg-deb fails on anything that dpkg would refuse: wrong fields, or a wrong order of the
    // parts.
    let architecture = tool::run(Command::new("dpkg-deb").arg("--field").arg(package).arg("Architecture"))?;
    if architecture.trim() != release.platform.debian {
        return Err(format!("the architecture is {architecture:?}"));
    }
    tool::run(Command::new("dpkg-deb").arg("-x").arg(package).arg(place.path()))?;
    let files = [
        "usr/share/man/man1/leasehold.1.gz",
        "usr/share/man/man1/leasehold-run.1.gz",
        "usr/share/bash-completion/completions/leasehold",
        "usr/share/zsh/vendor-completions/_leasehold",
        "usr/share/fish/vendor_completions.d/leasehold.fish",
        "usr/share/doc/leasehold/copyright",
    ];
    has(place.path(), &files)?;
    runs(&place.path().join("usr/bin/leasehold"), release)
}

pub(super) fn wheel(package: &Path, release: &Release) -> Result<(), String> {
    let place = files::temporary()?;
    let world = place.path().join("world");
    // The installed pip serves the new environment: one of its own would take longer to unpack than
    // everything else here.
    tool::run(Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(&world))?;
    let python = world.join("bin/python");
    let pip = |words: &[&str]| {
        let mut command = Command::new("python3");
        command.args(["-m", "pip", "--disable-pip-version-check", "--python"]).arg(&python).args(words);
        command
    };
    let offline = ["install", "--quiet", "--no-index", "--no-deps"];
    tool::run(pip(&offline).arg(package))?;
    let files = [
        "share/man/man1/leasehold.1",
        "share/bash-completion/completions/leasehold",
        "share/zsh/site-functions/_leasehold",
        "share/fish/vendor_completions.d/leasehold.fish",
    ];
    has(&world, &files)?;
    runs(&world.join("bin/leasehold"), release)?;
    let version = tool::run(Command::new(&python).args(["-m", "leasehold", "--version"]))?;
    tool::run(&mut pip(&["check"]))?;
    let target = place.path().join("target");
    tool::run(pip(&offline).arg("--target").arg(&target).arg(package))?;
    runs(&target.join("bin/leasehold"), release)?;
    if version.contains(&release.version) { Ok(()) } else { Err(format!("the module says {version:?}")) }
}

pub(super) fn npm(package: &Path, release: &Release) -> Result<(), String> {
    let place = files::temporary()?;
    let npm = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(place.path()).env("npm_config_cache", place.path().join("cache"));
        command.env("npm_config_update_notifier", "false");
        command
    };
    files::write(&place.path().join("package.json"), "{}")?;
    tool::run(npm("npm").args(["install", "--offline", "--no-audit", "--no-fund"]).arg(package))?;
    let root = place.path().join("node_modules");
    has(&root, &["leasehold/man/man1/leasehold.1", "leasehold/bash/leasehold", "leasehold/LICENSE-MIT"])?;
    runs(&root.join(".bin/leasehold"), release)?;
    let version = tool::run(npm("npx").args(["--no-install", "leasehold", "--version"]))?;
    if version.contains(&release.version) { Ok(()) } else { Err(format!("npx says {version:?}")) }
}

/// Reads the image as a container engine does: from the index to the configuration and the layers,
/// each checked by its checksum.
pub(super) fn image(image: &Path, release: &Release) -> Result<(), String> {
    let place = files::temporary()?;
    unpack(&files::read(image)?, place.path())?;
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).map_err(|error| error.to_string());
    let index = files::read(&place.path().join("index.json"))?;
    let manifest = json(&blob(place.path(), &json(&index)?["manifests"][0])?)?;
    let config = json(&blob(place.path(), &manifest["config"])?)?;
    let layer = blob(place.path(), &manifest["layers"][0])?;
    let root = place.path().join("root");
    let mut tar = Vec::new();
    std::io::Read::read_to_end(&mut GzDecoder::new(&*layer), &mut tar).map_err(|error| error.to_string())?;
    unpack(&tar, &root)?;
    if config["rootfs"]["diff_ids"][0] != format!("sha256:{}", sha256(&tar)) {
        return Err("the layer is not the one that the configuration names".into());
    }
    if config["architecture"] != release.platform.debian {
        return Err(format!("the architecture is {}", config["architecture"]));
    }
    let docker = json(&files::read(&place.path().join("manifest.json"))?)?;
    let named = [&docker[0]["Config"], &docker[0]["Layers"][0]].map(|path| path.as_str().unwrap_or("?"));
    has(place.path(), &named)?;
    let entry = config["config"]["Entrypoint"][0].as_str().unwrap_or_default();
    let program: PathBuf = root.join(entry.trim_start_matches('/'));
    runs(&program, release)
}

/// Reads the blob that a descriptor names, and checks its size and checksum.
fn blob(layout: &Path, descriptor: &Value) -> Result<Vec<u8>, String> {
    let digest = descriptor["digest"].as_str().unwrap_or_default();
    let path = layout.join("blobs").join(digest.replace(':', "/"));
    let bytes = files::read(&path)?;
    let matches = digest == format!("sha256:{}", sha256(&bytes)) && descriptor["size"] == bytes.len();
    if matches { Ok(bytes) } else { Err(format!("{digest} has another checksum")) }
}
