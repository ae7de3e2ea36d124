//! The contents of a release, which every package contains: the binary, its manual, its
//! completions, the guide and the licences.

use std::{env, path::Path, process::Command};

use flate2::Compression;

use super::{
    archive::{Entry, gzip, tar},
    notices,
};
use crate::{files, pages, step::workspace, tool};

/// The earliest time that a zip archive can represent.
const EARLIEST: u64 = 315_532_800;

/// The documents in every package, all in one directory.
const DOCUMENTS: [&str; 6] = [
    "packaging/README.md",
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "docs/guide.md",
    "docs/operating.md",
];

/// The contents of a package, and its platform.
pub(super) struct Release {
    pub(super) version: String,
    pub(super) platform: Platform,
    pub(super) is_static: bool,
    /// The time of every file in every package, in seconds since 1970.
    pub(super) epoch: u64,
    pub(super) level: Compression,
    pub(super) binary: Vec<u8>,
    /// The output of `leasehold pages`: `man/man1/*.1`, `bash/leasehold`, `zsh/_leasehold`,
    /// `fish/leasehold.fish`.
    pub(super) pages: Vec<Entry>,
    pub(super) documents: Vec<Entry>,
}

/// A processor architecture, by its names in the package formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Platform {
    /// In Rust's targets, wheels and formulas.
    pub(super) rust: &'static str,
    /// In Debian, images and Go.
    pub(super) debian: &'static str,
    pub(super) node: &'static str,
    pub(super) homebrew: &'static str,
}

pub(super) const X86_64: Platform =
    Platform { rust: "x86_64", debian: "amd64", node: "x64", homebrew: "intel" };
pub(super) const AARCH64: Platform =
    Platform { rust: "aarch64", debian: "arm64", node: "arm64", homebrew: "arm" };

/// By the number of the machine in the header of an ELF file.
const PLATFORMS: [(u8, Platform); 2] = [(62, X86_64), (183, AARCH64)];

impl Platform {
    /// Reads the architecture from the header of an ELF file.
    pub(super) fn of(binary: &[u8]) -> Result<Self, String> {
        let machine = binary.get(18).filter(|_| binary.starts_with(b"\x7fELF"));
        let known = PLATFORMS.iter().find(|(number, _)| Some(number) == machine);
        known
            .map(|(_, platform)| *platform)
            .ok_or_else(|| "is not a Linux program for x86-64 or arm64".into())
    }

    /// Returns true if it is that of this machine.
    pub(super) fn is_here(self) -> bool {
        self.rust == env::consts::ARCH
    }

    /// The emulator that runs its programs here; `None` if it is that of this machine.
    pub(super) fn emulator(self) -> Option<String> {
        (!self.is_here()).then(|| format!("qemu-{}", self.rust))
    }

    /// A program for it, run by the emulator if it is not that of this machine.
    pub(super) fn command(self, program: &Path) -> Command {
        let Some(emulator) = self.emulator() else { return Command::new(program) };
        let mut command = Command::new(emulator);
        command.arg(program);
        command
    }
}

impl Release {
    /// Reads a binary, and runs it to write its pages.
    pub(super) fn gather(binary: &Path, level: Compression) -> Result<Self, String> {
        let bytes = files::read(binary)?;
        let platform = Platform::of(&bytes).map_err(|why| format!("{} {why}", binary.display()))?;
        let version = tool::run(platform.command(binary).arg("--version"))?;
        let version = version.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        let headers = tool::run(Command::new("readelf").arg("-lW").arg(binary))?;
        let mut release = Self {
            version,
            platform,
            is_static: !headers.contains("INTERP"),
            epoch: epoch(),
            level,
            binary: bytes,
            pages: pages_of(&mut platform.command(binary))?,
            documents: documents()?,
        };
        let notices = notices::text(&release.target())?;
        release.documents.push(Entry::file("LICENSES-THIRD-PARTY", notices));
        Ok(release)
    }

    /// The name of the archive and of the directory in it, which cargo-binstall finds by its
    /// default rule.
    pub(super) fn name(&self) -> String {
        format!("leasehold-{}-{}", self.version, self.target())
    }

    /// The target of Rust for which the binary was built.
    fn target(&self) -> String {
        let library = if self.is_static { "musl" } else { "gnu" };
        format!("{}-unknown-linux-{library}", self.platform.rust)
    }

    /// The plain archive.
    pub(super) fn archive(&self) -> Result<Vec<u8>, String> {
        let mut entries = vec![Entry::program("leasehold", self.binary.clone())];
        entries.extend(self.pages.iter().chain(&self.documents).cloned());
        for entry in &mut entries {
            entry.path = format!("{}/{}", self.name(), entry.path);
        }
        gzip(&tar(entries, self.epoch)?, self.level)
    }

    /// The pages at their place under a prefix such as `usr/`, with the completions in the shells'
    /// directories for packages.
    pub(super) fn installed_pages(&self, prefix: &str, zsh: &str) -> Vec<Entry> {
        let place = |entry: &Entry| {
            let path = match entry.path.split_once('/') {
                Some(("bash", name)) => format!("{prefix}share/bash-completion/completions/{name}"),
                Some(("zsh", name)) => format!("{prefix}share/zsh/{zsh}/{name}"),
                Some(("fish", name)) => format!("{prefix}share/fish/vendor_completions.d/{name}"),
                _ => format!("{prefix}share/{}", entry.path),
            };
            Entry { path, ..entry.clone() }
        };
        self.pages.iter().map(place).collect()
    }

    /// A document by its name.
    pub(super) fn document(&self, name: &str) -> &Entry {
        self.documents.iter().find(|document| document.path == name).expect("it is in DOCUMENTS")
    }

    /// Our licences, and those of what the binary contains.
    pub(super) fn licences(&self) -> impl Iterator<Item = &Entry> {
        self.documents.iter().filter(|document| document.path.starts_with("LICENSE"))
    }
}

/// The time that the environment sets, or that of the last commit.
fn epoch() -> u64 {
    let commit =
        || tool::run(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(workspace()));
    let said = env::var("SOURCE_DATE_EPOCH").or_else(|_| commit()).unwrap_or_default();
    said.trim().parse().unwrap_or(EARLIEST).max(EARLIEST)
}

fn pages_of(command: &mut Command) -> Result<Vec<Entry>, String> {
    let place = files::temporary()?;
    pages::write(command, place.path())?;
    let read = |file: std::path::PathBuf| {
        let name = file.strip_prefix(place.path()).unwrap_or(&file).display().to_string();
        files::read(&file).map(|bytes| Entry::file(name, bytes))
    };
    files::files_under(place.path())?.into_iter().map(read).collect()
}

fn documents() -> Result<Vec<Entry>, String> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let shipped: Vec<_> = DOCUMENTS.iter().map(|path| name(path)).collect();
    let read = |path: &&str| {
        let text = files::read_text(&workspace().join(path))?;
        Ok(Entry::file(name(path), without_dead_links(&text, &shipped)))
    };
    DOCUMENTS.iter().map(read).collect()
}

/// Removes Markdown links to files that are not in the package, and keeps their text.
pub(super) fn without_dead_links(text: &str, shipped: &[String]) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some(middle) = rest.find("](") {
        let (before, link) = rest.split_at(middle);
        let end = link.find(')').unwrap_or(link.len() - 1);
        let target = &link[2..end];
        let file = target.split('#').next().unwrap_or_default();
        let lives = file.is_empty() || target.contains("://") || shipped.iter().any(|name| name == file);
        match before.rfind('[').filter(|_| !lives) {
            Some(start) => {
                kept += &before[..start];
                kept += &before[start + 1..];
            }
            None => {
                kept += before;
                kept += &link[..=end];
            }
        }
        rest = &link[end + 1..];
    }
    kept + rest
}
