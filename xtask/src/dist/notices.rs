//! The licences of what is in the binary besides Leasehold, as their authors wrote them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    files::{self, error_at},
    step::workspace,
    tool,
};

/// The notices that are in no crate's package.
const BEYOND_CRATES: &str = "\
The program contains the standard library of Rust (MIT OR Apache-2.0, the Rust Project contributors)
and SQLite, which is in the public domain. A static program also contains musl (MIT, Copyright
2005-2020 Rich Felker and others). The texts of both licences are in LICENSE-MIT and LICENSE-APACHE.
";

/// The notices for the command on a target: each text once, under the packages that it is from.
pub(super) fn text(target: &str) -> Result<String, String> {
    let packages = packages()?;
    let mut texts = BTreeMap::<String, Vec<String>>::new();
    for name in names(target)? {
        let (licence, directory) = packages.get(&name).ok_or_else(|| format!("cargo knows no {name}"))?;
        let found = licences_in(directory)?;
        let heading = format!("{name} ({licence})");
        if found.is_empty() {
            texts.entry("The package contains no text of its licence.\n".into()).or_default().push(heading);
            continue;
        }
        for text in found {
            texts.entry(text).or_default().push(heading.clone());
        }
    }
    // By the packages, not by the texts, so that a new version moves little.
    let mut sections: Vec<_> = texts.into_iter().map(|(text, names)| (names, text)).collect();
    sections.sort();
    let sections =
        sections.iter().map(|(names, text)| format!("{:-<80}\n{}\n\n{text}", "", names.join("\n")));
    Ok([BEYOND_CRATES.to_owned()].into_iter().chain(sections).collect::<Vec<_>>().join("\n"))
}

/// The crates that are compiled into the command, without ours: `name version`.
fn names(target: &str) -> Result<Vec<String>, String> {
    let mut tree = Command::new("cargo");
    tree.args([
        "tree",
        "--locked",
        "--package",
        "leasehold-cli",
        "--target",
        target,
        "--edges",
        "normal,no-proc-macro",
    ]);
    tree.args(["--prefix", "none", "--format", "{p}"]);
    let text = tool::run(tree.current_dir(workspace()))?;
    // A package of the workspace has its path behind its version.
    let crates = text.lines().map(|line| line.trim_end_matches(" (*)")).filter(|line| !line.contains('('));
    let mut names: Vec<_> = crates.map(|name| name.replacen(" v", " ", 1)).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// The licence and the directory of every package that the workspace may need.
fn packages() -> Result<BTreeMap<String, (String, PathBuf)>, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let package = |package: &Value| {
        let name = format!("{} {}", text(&package["name"]), text(&package["version"]));
        let directory =
            Path::new(&text(&package["manifest_path"])).parent().unwrap_or(Path::new("")).to_owned();
        (name, (text(&package["license"]), directory))
    };
    Ok(tool::packages(&[])?.iter().map(package).collect())
}

/// The texts in the top directory of a package whose names say that they are licences or notices.
fn licences_in(directory: &Path) -> Result<Vec<String>, String> {
    const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
    let mut texts = Vec::new();
    for entry in directory.read_dir().map_err(error_at(directory))? {
        let path = entry.map_err(error_at(directory))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && NAMES.iter().any(|start| name.starts_with(start)) {
            let text = files::read(&path)?;
            let text = String::from_utf8_lossy(&text).replace('\r', "");
            texts.push(format!("{}\n", text.trim_end()));
        }
    }
    texts.sort();
    texts.dedup();
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linked_crates_are_named_with_their_licence_and_build_dependencies_are_not() {
        let notices = text("x86_64-unknown-linux-gnu").unwrap();
        for part in ["\nring 0.", "\nrusqlite 0.", "\nlibsqlite3-sys 0.", "\nratatui", "in the public domain"]
        {
            assert!(notices.contains(part), "{part:?}");
        }
        for other in ["\nproptest ", "\nserde_derive ", "\nleasehold", "\ncc 1."] {
            assert!(!notices.contains(other), "{other:?}");
        }
        assert!(!notices.contains(&*workspace().to_string_lossy()), "a path of this machine");
        assert!(text("x86_64-unknown-linux-gnu").unwrap() == notices, "two readings differ");
    }
}
