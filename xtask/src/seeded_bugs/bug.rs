//! One bug: the change, and the tests that must notice it.

use std::fmt;

/// Tests that are built and run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Suite {
    /// The state machines and `core::apply`, without time and without I/O.
    Core,
    /// The exact bytes that are sent to a server.
    Wire,
    /// The Redis store on real servers.
    Store,
    /// The unit tests of the file store.
    File,
    /// The file store as other processes use it.
    FileProcesses,
    /// The checks that every store must pass.
    Stores,
    /// The scripts compared with `core::apply`, and their answers in cases that no history reaches.
    Differential,
    /// Guards, requests and waiters of locks in memory.
    InMemory,
    /// A quorum of stores in virtual time, also of members of which some behave differently.
    Quorum,
    /// Programs on different runtimes and clocks, and their ends.
    Programs,
    /// The unit tests of the command.
    Command,
    /// The command as a process among others.
    Run,
}

impl Suite {
    /// The arguments for cargo that select its tests.
    pub(super) const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Core => &["-p", "leasehold-core", "--lib"],
            Self::Wire => &["-p", "leasehold-redis", "--lib"],
            Self::Store => &["-p", "leasehold-redis", "--test", "store"],
            Self::File => &["-p", "leasehold-file", "--lib"],
            Self::FileProcesses => &["-p", "leasehold-file", "--test", "suite"],
            Self::Stores => &["-p", "conformance", "--test", "stores"],
            Self::Differential => &["-p", "conformance", "--test", "differential"],
            Self::InMemory => &["-p", "conformance", "--test", "in_memory"],
            Self::Quorum => &["-p", "conformance", "--test", "quorum"],
            Self::Programs => &["-p", "conformance", "--test", "programs"],
            Self::Command => &["-p", "leasehold-cli", "--bin", "leasehold"],
            Self::Run => &["-p", "leasehold-cli", "--test", "run"],
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.arguments().join(" "))
    }
}

/// A rule of the product, broken.
#[derive(Debug)]
pub(super) struct Bug {
    /// The wrong behaviour that results.
    pub(super) name: &'static str,
    /// The file that is changed.
    pub(super) file: &'static str,
    /// The text that is replaced. It occurs exactly once.
    pub(super) from: &'static str,
    /// The replacement.
    pub(super) to: &'static str,
    /// The tests that must fail.
    pub(super) tests: &'static [(Suite, &'static str)],
}

impl Bug {
    /// The source with the bug in it.
    pub(super) fn planted_in(&self, source: &str) -> Result<String, String> {
        match source.matches(self.from).count() {
            1 => Ok(source.replacen(self.from, self.to, 1)),
            0 => Err(format!(
                "{:?} cannot be put into the copy: {} has changed, and no longer contains the text that the bug replaces; update the bug in \
                 xtask/src/seeded_bugs/bugs.rs",
                self.name, self.file
            )),
            times => Err(format!(
                "{:?} cannot be put into the copy: the text that it replaces occurs {times} times in {}; make it longer in xtask/src/seeded_bugs/bugs.rs",
                self.name, self.file
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::{super::bugs::BUGS, *};
    use crate::step::workspace;

    #[test]
    fn every_bug_can_still_be_put_in() {
        let wrong: Vec<_> = BUGS
            .iter()
            .filter_map(|bug| {
                let source = fs::read_to_string(workspace().join(bug.file));
                source
                    .map_err(|error| format!("{}: {error}", bug.file))
                    .and_then(|it| bug.planted_in(&it))
                    .err()
            })
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn every_bug_changes_something_and_has_its_own_name_and_a_test() {
        let names: BTreeSet<_> = BUGS.iter().map(|bug| bug.name).collect();
        assert_eq!(names.len(), BUGS.len());
        for bug in BUGS {
            assert_ne!(bug.from, bug.to, "{}", bug.name);
            assert!(!bug.tests.is_empty(), "{}", bug.name);
        }
    }

    #[test]
    fn a_changed_source_is_named() {
        let bug = Bug { name: "b", file: "f.rs", from: "x", to: "y", tests: &[] };
        assert_eq!(bug.planted_in("a x b").as_deref(), Ok("a y b"));
        assert!(bug.planted_in("a b").unwrap_err().contains("f.rs has changed"));
        assert!(bug.planted_in("x x").unwrap_err().contains("occurs 2 times"));
    }
}
