//! `cargo xtask test`: every test of the workspace, against real servers.

use std::num::NonZero;
use std::process::{Command, ExitCode, Stdio};
use std::thread::available_parallelism;

use crate::{
    peers, servers,
    step::{Step, account},
};

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    if let Err(failed) = servers::fetch() {
        return failed;
    }
    let left_out = match peers::fetch() {
        Ok(left_out) => left_out,
        Err(failed) => return failed,
    };
    // The tests of the command run its binary, which cargo builds only for tests of its own package.
    let mut steps = vec![Step::cargo(&["build", "-p", "leasehold-cli"], &[])];
    if steps[0].passed() {
        // Before the other tests, so that what they say in closing stands last. Arguments choose among the other tests, and
        // a filter of nextest's means nothing to rustdoc.
        if arguments.is_empty() {
            steps.push(Step::cargo(&["test", "--workspace", "--doc"], &[]));
        }
        let at_once = (2 * available_parallelism().map_or(1, NonZero::get)).to_string();
        let runner: &[&str] = if has_nextest() {
            // How many of which kind is in .config/nextest.toml. What is said twice, nextest refuses.
            let chosen =
                arguments.iter().any(|argument| argument.starts_with("--test-threads") || argument == "-j");
            let threads: &[&str] = if chosen { &[] } else { &["--test-threads", &at_once] };
            &[&["nextest", "run", "--workspace", "--no-fail-fast"], threads].concat()
        } else {
            &["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"]
        };
        let line: Vec<_> = runner.iter().copied().chain(arguments.iter().map(String::as_str)).collect();
        steps.push(Step::cargo(&line, &[]));
    }
    steps.extend(left_out.into_iter().chain(callgrind()).map(Step::left_out));
    account("test", &steps)
}

/// What the tests leave out where instructions cannot be counted; they fail instead where that is demanded.
fn callgrind() -> Option<String> {
    let lacking = !answers("valgrind", &["--version"]);
    lacking.then(|| {
        "the bounds on instructions: this machine lacks valgrind; remedy: put it on the PATH".to_owned()
    })
}

/// nextest runs each test in a process of its own, and the tests of all crates side by side; cargo's own runner does as well.
fn has_nextest() -> bool {
    answers("cargo-nextest", &["nextest", "--version"])
}

fn answers(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
