//! Runs tests of the copy by name.

use std::{
    fmt,
    process::{Command, Output},
};

use super::{bug::Suite, copy::Copy};
use crate::step;

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Green,
    Red,
    /// No test has this name, or it is ignored.
    NotRun,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Green => "green",
            Self::Red => "red",
            Self::NotRun => "not run",
        })
    }
}

/// Tests are ended after this many seconds: a bug that makes them hang counts as caught.
const LIMIT: &str = "180";

/// Runs these tests, and returns the result of each. An error if they cannot be built, because then
/// nothing is known.
pub(super) fn run(
    copy: &Copy,
    suite: Suite,
    tests: &[&'static str],
) -> Result<Vec<(&'static str, Verdict)>, String> {
    let built = output(cargo(copy, suite, step::cargo()).arg("--no-run"))?;
    if !built.status.success() {
        let said = String::from_utf8_lossy(&built.stderr).into_owned();
        let first = said.lines().find(|line| line.starts_with("error")).unwrap_or("no reason given");
        return Err(format!("{suite} does not build: {first}"));
    }
    let mut limited = Command::new("timeout");
    limited.args(["--kill-after=5", LIMIT]).arg(step::cargo().get_program());
    let ran = output(cargo(copy, suite, limited).args(["--", "--exact"]).args(tests))?;
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    Ok(tests.iter().map(|test| (*test, verdict(&said, test))).collect())
}

fn cargo(copy: &Copy, suite: Suite, mut command: Command) -> Command {
    command.arg("test").args(suite.arguments()).current_dir(copy.tree());
    command.env("CARGO_TARGET_DIR", copy.build()).env("CARGO_TERM_COLOR", "never");
    command
}

fn output(command: &mut Command) -> Result<Output, String> {
    command
        .output()
        .map_err(|error| format!("{} cannot be run: {error}", command.get_program().to_string_lossy()))
}

/// The harness's result for a test. If there is none, the test hung or ended the whole process.
fn verdict(said: &str, test: &str) -> Verdict {
    let failed = said.rsplit_once("\nfailures:\n").map_or("", |(_, names)| names);
    let begins = format!("test {test} ... ");
    let closes = said.contains("\ntest result: ");
    // Output of a child of the test may be between the name and the result.
    let mut lines = said.lines().filter(|line| line.starts_with(&begins) && !line.ends_with("ignored"));
    if failed.lines().any(|line| line.strip_prefix("    ") == Some(test)) {
        Verdict::Red
    } else if lines.any(|line| closes || line.ends_with(" ok")) {
        Verdict::Green
    } else if !closes && said.contains("\nrunning ") {
        Verdict::Red
    } else {
        Verdict::NotRun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "
running 3 tests
test a::one ... ok
test a::three ... ignored
test a::two ... FAILED

failures:

---- a::two stdout ----
    a::one

failures:
    a::two

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 9 filtered out
";

    #[test]
    fn a_verdict_is_what_the_harness_says_in_closing() {
        assert_eq!(verdict(SAID, "a::one"), Verdict::Green);
        assert_eq!(verdict(SAID, "a::two"), Verdict::Red);
        assert_eq!(verdict(SAID, "a::three"), Verdict::NotRun);
        assert_eq!(verdict(SAID, "a::on"), Verdict::NotRun);
        assert_eq!(verdict("error: no such test", "a::one"), Verdict::NotRun);
    }

    #[test]
    fn a_run_that_never_closed_is_red_for_those_that_had_not_ended() {
        let said = SAID.split_once("test a::two").unwrap().0;
        assert_eq!(verdict(said, "a::one"), Verdict::Green);
        assert_eq!(verdict(said, "a::two"), Verdict::Red);
    }
}
