//! Checks that nobody disables the lint that keeps clocks, timers, tasks and randomness in one
//! file.
//!
//! The `clippy.toml` of `crates/core` and `crates/leasehold` disallows the methods; an `allow`
//! would turn that into advice. The simulation controls time only as long as there are no
//! exceptions.

use std::path::Path;

use crate::files::{files_under, read_text};

/// The crates that the rule applies to.
const UNDER_THE_RULE: [&str; 2] = ["crates/core", "crates/leasehold"];

/// The one file that reads the clock.
const EXEMPT: &str = "crates/leasehold/src/runtime.rs";

/// Users' programs, which do not have our runtime.
const EXAMPLES: &str = "crates/leasehold/examples/";

/// The lint, and the groups that it is in.
const NAMES: [&str; 3] = ["clippy::disallowed_methods", "clippy::style", "clippy::all"];

/// The places where the lint is disabled, a sentence each.
pub(crate) fn violations(workspace: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for crate_directory in UNDER_THE_RULE {
        for file in files_under(&workspace.join(crate_directory))? {
            let name = file.strip_prefix(workspace).unwrap_or(&file).display().to_string();
            if name == EXEMPT || name.starts_with(EXAMPLES) {
                continue;
            }
            let line = match file.extension().and_then(|extension| extension.to_str()) {
                Some("rs") => switched_off_in_source(&read_text(&file)?),
                Some("toml") if file.ends_with("Cargo.toml") => switched_off_in_manifest(&read_text(&file)?),
                _ => None,
            };
            if let Some(line) = line {
                found.push(format!(
                    "{name}:{line}: switches off clippy::disallowed_methods; only {EXEMPT} may (use the Runtime trait)"
                ));
            }
        }
    }
    Ok(found)
}

/// The line of the first `allow` or `expect` of the lint, however the attribute is formatted.
fn switched_off_in_source(source: &str) -> Option<usize> {
    // Every character of the code with its line number, without white space and comments.
    let code: Vec<(char, usize)> = (1..)
        .zip(source.lines())
        .flat_map(|(number, line)| {
            let code = line.split("//").next().unwrap_or_default();
            code.chars().filter(|c| !c.is_whitespace()).map(move |c| (c, number)).collect::<Vec<_>>()
        })
        .collect();
    let text: String = code.iter().map(|(c, _)| c).collect();
    let opened = ["allow(", "expect("].iter().flat_map(|word| text.match_indices(word));
    opened
        .filter_map(|(start, word)| {
            let list = text[start + word.len()..].split(')').next()?;
            let named = list.split(',').any(|lint| NAMES.contains(&lint));
            named.then(|| code[text[..start].chars().count()].1)
        })
        .min()
}

/// A crate's own lint table would override the workspace's.
fn switched_off_in_manifest(manifest: &str) -> Option<usize> {
    let mut in_lints = false;
    for (number, line) in (1..).zip(manifest.lines()) {
        let line = line.trim();
        if line.starts_with('[') {
            in_lints = line.starts_with("[lints");
        }
        let key = line.split(['=', '.']).next().unwrap_or_default().trim().trim_matches('"');
        if in_lints && NAMES.iter().any(|lint| lint.strip_prefix("clippy::") == Some(key)) {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_the_attribute_is_seen() {
        for attribute in [
            "#[allow(clippy::disallowed_methods)]",
            "#![allow(clippy::disallowed_methods)]",
            "#[expect(clippy::disallowed_methods, reason = \"for now\")]",
            "#[allow(dead_code, clippy::disallowed_methods)]",
            "#[cfg_attr(test, allow(clippy::disallowed_methods))]",
            "#[allow(\n    dead_code,\n    clippy :: disallowed_methods,\n)]",
            "#[allow(clippy::all)]",
            "#![expect(clippy::style)]",
        ] {
            assert_eq!(
                switched_off_in_source(&format!("\n{attribute}\nfn f() {{}}\n")),
                Some(2),
                "{attribute}"
            );
        }
    }

    #[test]
    fn other_mentions_are_none() {
        for source in [
            "// allow(clippy::disallowed_methods) is refused",
            "/// See `clippy::disallowed_methods`.",
            "#[deny(clippy::disallowed_methods)]",
            "#[allow(dead_code)]\n#[warn(clippy::disallowed_methods)]",
            "let x = y.expect(\"clippy::disallowed_methods\");",
            "#[expect(clippy::exhaustive_enums)]",
        ] {
            assert_eq!(switched_off_in_source(source), None, "{source}");
        }
    }

    #[test]
    fn the_line_number_is_right_after_characters_of_several_bytes() {
        assert_eq!(switched_off_in_source("fn ö() {}\n\"…\";\n#[allow(clippy::all)]"), Some(3));
    }

    #[test]
    fn a_lint_table_of_a_crate_is_seen() {
        let manifest = "[package]\nname = \"x\"\n[lints.clippy]\ndisallowed_methods = \"allow\"\n";
        assert_eq!(switched_off_in_manifest(manifest), Some(4));
        assert_eq!(switched_off_in_manifest("[lints.clippy]\nall.level = \"allow\"\n"), Some(2));
        assert_eq!(switched_off_in_manifest("[features]\nall = []\n"), None);
        assert_eq!(switched_off_in_manifest("[lints]\nworkspace = true\n"), None);
    }
}
