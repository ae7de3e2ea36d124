//! `docs/replacing.md` names a test for each feature; the test must exist.

use std::fs;
use std::path::Path;

const PAGE: &str = include_str!("../../../../docs/replacing.md");

/// The rows of the tables, each with its heading; without the tables' header rows.
fn rows() -> Vec<(&'static str, &'static str)> {
    let (mut heading, mut rows) = ("", Vec::new());
    for line in PAGE.lines() {
        if let Some(text) = line.strip_prefix("## ") {
            heading = text;
        } else if line.starts_with("| ") && !line.ends_with("| shown by |") {
            rows.push((heading, line));
        }
    }
    rows
}

/// The tests that a row names, each with its file.
fn tests(row: &str) -> Vec<(&str, &str)> {
    let last = row.trim_end_matches('|').rsplit_once(" | ").expect("columns").1;
    let links = last.split("[`").skip(1);
    links
        .map(|link| {
            link.split_once("`](../")
                .and_then(|(name, rest)| Some((name, rest.split_once(')')?.0)))
                .expect("a link")
        })
        .collect()
}

/// The source of a test: the comment above it, its name, and its body.
fn source(name: &str, file: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let text = fs::read_to_string(path).ok()?;
    let at = text.find(&format!("fn {name}("))?;
    let begins = text[..at].rfind("\n\n").unwrap_or(0);
    text[begins..at].contains("test").then(|| text[begins..at + name.len() + 3].to_lowercase())
}

#[test]
fn every_row_names_a_test_and_every_test_that_is_named_is_there() {
    let rows = rows();
    assert!(rows.len() > 50, "{}", rows.len());
    for (heading, row) in rows {
        let tests = tests(row);
        assert!(!tests.is_empty(), "{heading}: {row}");
        for (name, file) in tests {
            assert!(source(name, file).is_some(), "{file} has no test {name}: {row}");
        }
    }
}

/// So that a person who changes a test sees which library it is for.
#[test]
fn one_test_of_every_feature_speaks_of_its_library() {
    for (heading, row) in rows() {
        let words: &[&str] = match heading {
            "redislock" => &["redislock"],
            "redisLocker" => &["redislocker", "redis_locker"],
            "exclusive-lock" => &["exclusive-lock", "exclusive_lock"],
            "redis-dlm" => &["redis-dlm", "redis_dlm"],
            "node-redlock" => &["redlock"],
            _ => &[
                "redislock",
                "redis_locker",
                "exclusive",
                "redis-dlm",
                "redis_dlm",
                "redlock",
                "all of them",
            ],
        };
        let speaks = |(name, file)| {
            source(name, file).is_some_and(|source| words.iter().any(|word| source.contains(word)))
        };
        assert!(tests(row).into_iter().any(speaks), "{heading}: {row}");
    }
}

#[test]
fn all_five_libraries_have_rows() {
    for library in ["redislock", "redisLocker", "exclusive-lock", "redis-dlm", "node-redlock", "Their bugs"] {
        assert!(rows().iter().any(|(heading, _)| *heading == library), "{library}");
    }
}
