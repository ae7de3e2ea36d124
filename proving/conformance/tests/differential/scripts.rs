//! The scripts, and the parts that they consist of.

use std::fs;
use std::path::Path;

use leasehold_redis::script::{self, Script};

/// A part of some scripts, which is a file; or a function of a database.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// All parts, in the order of their names.
pub(crate) fn parts() -> Vec<Part> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/redis/src/scripts");
    let read = |path: &Path| Part {
        name: path.file_name().unwrap().to_str().unwrap().into(),
        text: fs::read_to_string(path).unwrap(),
    };
    let files = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    let is_lua = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "lua");
    let mut parts: Vec<_> = files.filter(is_lua).map(|path| read(&path)).collect();
    parts.sort_by(|one, other| one.name.cmp(&other.name));
    parts
}

const ALL: [&Script; 23] = [
    &script::GRANT,
    &script::MEMBER_GRANT,
    &script::RENEW,
    &script::MEMBER_RENEW,
    &script::REJOIN,
    &script::TRANSFER,
    &script::MEMBER_TRANSFER,
    &script::RAISE,
    &script::RELEASE,
    &script::RELEASE_AND_WAKE,
    &script::BREAK,
    &script::INSPECT,
    &script::SURVEY,
    &script::MARK,
    &script::MARKED,
    &script::FORGET,
    &script::OPEN,
    &script::VOUCH,
    &script::LOCKED,
    &script::BATCH,
    &script::MEMBER_BATCH,
    &script::BATCH_RENEW,
    &script::MEMBER_BATCH_RENEW,
];

pub(crate) fn with(part: &str) -> impl Iterator<Item = &'static Script> {
    ALL.into_iter().filter(move |script| script.text().contains(part))
}

#[test]
fn every_script_begins_with_its_contract() {
    for text in ALL.map(Script::text) {
        assert!(text.starts_with("-- ") && text.contains("-- KEYS") && text.contains("ARGV"), "{text}");
    }
}

#[test]
fn every_part_is_in_a_script_that_the_tests_know() {
    for part in parts() {
        assert!(with(&part.text).next().is_some(), "{}: no script of this list has it", part.name);
    }
}
