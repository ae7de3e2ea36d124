//! `cargo xtask api`: compares the public API of `leasehold` with its listing in the repository, so
//! that a review shows every change of it, and checks that programs can name all of it.

use std::{
    collections::BTreeSet,
    fs,
    process::{Command, ExitCode},
};

use crate::{
    step::{Step, account, workspace},
    stop::{Stop, flag},
    tool,
};

/// The tool that lists the API. It is not a library here, because its dependencies would then be in
/// the lock file.
const CARGO_PUBLIC_API: &str = "0.52.0";

/// It reads rustdoc's JSON, whose format is that of a nightly toolchain.
const NIGHTLY: &str = "nightly-2026-05-20";

const LISTING: &str = "crates/leasehold/public-api.txt";

/// The crates whose items `leasehold` must export itself: programs depend on `leasehold` alone.
const INNER: [&str; 4] = ["leasehold_core", "leasehold_file", "leasehold_postgres", "leasehold_redis"];

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, Stop> {
    let write = flag(arguments, "--write")?;
    let listed = list()?;
    Ok(account("api", &[compare(&listed, write), nameable(&listed)]))
}

fn list() -> Result<String, String> {
    let tool = tool::subcommand("cargo-public-api", CARGO_PUBLIC_API)?;
    tool::toolchain(NIGHTLY)?;
    let of = |package: &str| {
        // Without what the compiler derives or adds: it follows from the rest.
        let words = ["public-api", "--package", package, "--all-features", "-sss", "--color", "never"];
        tool::run(Command::new(&tool).args(words).env("RUSTUP_TOOLCHAIN", NIGHTLY).current_dir(workspace()))
    };
    let (ours, core) = (of("leasehold")?, of("leasehold-core")?);
    Ok(ours.clone() + &exported_of(&core, &exports(&ours)))
}

/// The lines of core's listing about the items that `leasehold` exports.
fn exported_of(core: &str, exports: &BTreeSet<&str>) -> String {
    let is_exported = |line: &&str| {
        let implementor = line.rsplit(" for ").next().unwrap_or_default();
        let path = implementor.split("leasehold_core::").nth(1).unwrap_or_default();
        path.split(|letter: char| !letter.is_alphanumeric()).next().is_some_and(|name| exports.contains(name))
    };
    core.lines().filter(is_exported).map(|line| format!("{line}\n")).collect()
}

/// The names of what `leasehold` exports from other crates.
fn exports(listed: &str) -> BTreeSet<&str> {
    listed.lines().filter_map(|line| line.strip_prefix("pub use ")?.rsplit("::").next()).collect()
}

fn compare(listed: &str, write: bool) -> Step {
    let file = workspace().join(LISTING);
    if write {
        return Step::own(&format!("write {LISTING}"), fs::write(file, listed).is_ok());
    }
    let before = fs::read_to_string(file).unwrap_or_default();
    let changes = changes(&before, listed);
    changes.iter().for_each(|change| println!("{change}"));
    if !changes.is_empty() {
        println!("hint: if that is meant, `cargo xtask api --write` lists it in {LISTING}");
    }
    Step::own(&format!("compare the API with {LISTING}"), changes.is_empty())
}

/// The lines that went, and those that came.
fn changes(before: &str, now: &str) -> Vec<String> {
    let (before, now): (BTreeSet<_>, BTreeSet<_>) = (before.lines().collect(), now.lines().collect());
    let gone = before.difference(&now).map(|line| format!("-{line}"));
    gone.chain(now.difference(&before).map(|line| format!("+{line}"))).collect()
}

fn nameable(listed: &str) -> Step {
    let unnamed = unnamed(listed);
    unnamed.iter().for_each(|item| println!("{item} is in a signature, but `leasehold` does not export it"));
    Step::own("check that leasehold exports what its signatures name", unnamed.is_empty())
}

/// The items of the inner crates that signatures name and `leasehold` does not export.
fn unnamed(listed: &str) -> BTreeSet<&str> {
    let exported = exports(listed);
    let paths = listed.split(|letter: char| !letter.is_alphanumeric() && !matches!(letter, '_' | ':'));
    let is_inner = |path: &&str| INNER.iter().any(|inner| path.starts_with(&format!("{inner}::")));
    let is_exported = |path: &&str| path.split("::").any(|part| exported.contains(part));
    paths.map(|path| path.trim_end_matches(':')).filter(is_inner).filter(|path| !is_exported(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "pub mod leasehold\n\
                          pub use leasehold::Fence\n\
                          pub fn leasehold::Guard::fence(&self) -> leasehold_core::fence::Fence\n\
                          pub fn leasehold::Guard::ttl(&self) -> core::option::Option<leasehold_core::ttl::Ttl>\n";

    #[test]
    fn a_type_that_programs_cannot_name_is_found() {
        assert_eq!(unnamed(LISTED), BTreeSet::from(["leasehold_core::ttl::Ttl"]));
        let exported = format!("{LISTED}pub use leasehold::store::Ttl\n");
        assert_eq!(unnamed(&exported), BTreeSet::new());
    }

    #[test]
    fn of_core_only_what_is_exported_is_listed() {
        let core = "pub struct leasehold_core::Fence(_)\n\
                    impl core::fmt::Display for leasehold_core::Fence\n\
                    pub fn leasehold_core::LeaseRenewal::fence(&self) -> leasehold_core::Fence\n";
        let listed = exported_of(core, &exports(LISTED));
        assert_eq!(listed, core.lines().take(2).map(|line| format!("{line}\n")).collect::<String>());
    }

    #[test]
    fn a_change_shows_the_line_as_it_was_and_as_it_is() {
        let now = LISTED.replace("-> leasehold_core::fence::Fence", "-> u64");
        let fence = "pub fn leasehold::Guard::fence(&self) -> ";
        assert_eq!(
            changes(LISTED, &now),
            [format!("-{fence}leasehold_core::fence::Fence"), format!("+{fence}u64")]
        );
        assert_eq!(changes(LISTED, LISTED), [""; 0]);
    }
}
