//! `cargo xtask test`: the tests against real servers; those of every day, or all.

use std::num::NonZero;
use std::process::{Command, ExitCode, Stdio};
use std::thread::available_parallelism;

use crate::{
    peers, servers,
    step::{Step, account},
};

/// Packages whose tests are left to `--all`: they build or fetch other lock libraries, measure, or
/// run a fault for a minute.
const LONG_PACKAGES: [&str; 4] = ["bench", "bench-compare", "faults", "interop"];

/// Tests that are left to `--all`, by a part of their names: the same lists once more on further
/// servers and topologies, and one mutant after the other. Redis 7.0 and Valkey 9.1, a cluster of
/// each and a quorum are tested every day.
const LONG_TESTS: [&str; 5] = ["redis_6_2", "redis_8_2", "cluster_6_2", "fred_on_", "mutants::"];

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let (all, arguments) = match arguments {
        [first, others @ ..] if first == "--all" => (true, others),
        others => (false, others),
    };
    // Arguments choose among all tests.
    let everyday = !all && arguments.is_empty();
    if let Err(failed) = servers::fetch() {
        return failed;
    }
    let left_out = match if everyday { Ok(Vec::new()) } else { peers::fetch() } {
        Ok(left_out) => left_out,
        Err(failed) => return failed,
    };
    // The tests of the command run its binary, which cargo builds only for tests of its own
    // package.
    let mut steps = vec![Step::cargo(&["build", "-p", "leasehold-cli"], &[])];
    if steps[0].passed() {
        // Before the other tests, so that what they say in closing stands last. Arguments choose
        // among the other tests, and a filter of nextest's means nothing to rustdoc.
        if arguments.is_empty() {
            steps.push(Step::cargo(&["test", "--workspace", "--doc"], &[]));
        }
        let line = runner(everyday, arguments);
        steps.push(Step::cargo(&line.iter().map(String::as_str).collect::<Vec<_>>(), &[]));
    }
    steps.extend(left_out.into_iter().chain(callgrind().filter(|_| !everyday)).map(Step::left_out));
    if everyday {
        steps.push(Step::left_out("what takes longer: cargo xtask test --all".into()));
    }
    account("test", &steps)
}

/// The command that runs the tests: nextest where it is installed, because it runs the tests of all
/// crates side by side.
fn runner(everyday: bool, arguments: &[String]) -> Vec<String> {
    let is_there = has_nextest();
    let mut line: Vec<String> = Vec::new();
    let mut say = |words: &[&str]| line.extend(words.iter().map(ToString::to_string));
    say(if is_there { &["nextest", "run"] } else { &["test", "--lib", "--bins", "--tests"] });
    say(&["--workspace", "--no-fail-fast"]);
    if everyday {
        LONG_PACKAGES.iter().for_each(|package| say(&["--exclude", package]));
    }
    if is_there {
        // How many of which kind is in .config/nextest.toml. What is said twice, nextest refuses.
        let chosen = |argument: &String| argument.starts_with("--test-threads") || argument == "-j";
        if !arguments.iter().any(chosen) {
            let at_once = 2 * available_parallelism().map_or(1, NonZero::get);
            say(&["--test-threads", &at_once.to_string()]);
        }
        if everyday {
            let long = LONG_TESTS.map(|name| format!("test({name})")).join(" | ");
            say(&["-E", &format!("not ({long})")]);
        }
    } else if everyday {
        say(&["--"]);
        LONG_TESTS.iter().for_each(|name| say(&["--skip", name]));
    }
    line.extend_from_slice(arguments);
    line
}

/// What the tests leave out where instructions cannot be counted; they fail instead where that is
/// demanded.
fn callgrind() -> Option<String> {
    let lacking = !answers("valgrind", &["--version"]);
    lacking.then(|| {
        "the bounds on instructions: this machine lacks valgrind; remedy: put it on the PATH".to_owned()
    })
}

/// nextest runs each test in a process of its own, and the tests of all crates side by side;
/// cargo's own runner does as well.
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
