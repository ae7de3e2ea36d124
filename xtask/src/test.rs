//! `cargo xtask test`: runs the everyday tests against real servers, or all tests.

use std::num::NonZero;
use std::process::{Command, ExitCode};
use std::thread::available_parallelism;

use crate::{
    peers, servers,
    step::{Step, account},
    stop::Stop,
    tool,
};

/// Packages whose tests run only with `--all`: they build or download other lock libraries,
/// measure, or inject a fault for a minute.
const LONG_PACKAGES: [&str; 4] = ["bench", "bench-compare", "faults", "interop"];

/// Nearly every test runs the tasks and timers of tokio: in virtual time, that is half of the work. The
/// benchmark's bounds on instructions are for a tokio that is not optimised.
const FASTER_TOKIO: &str = "profile.test.package.tokio.opt-level=1";

/// Parts of the names of tests that run only with `--all`: the same lists on further servers and
/// topologies, every mutant of the scripts, and the long form of what has a short one. Redis 7.0
/// and Valkey 9.1, a cluster of each and a quorum are tested every day.
const LONG_TESTS: [&str; 11] = [
    "redis_5_0",
    "cluster_5_0",
    "_on_5_0",
    "redis_6_2",
    "redis_8_2",
    "cluster_6_2",
    "_on_6_2",
    "fred_on_",
    "no_change_of_any_",
    "in_many_histories",
    "in_thousands_of_worlds",
];

/// The exit code of nextest if no test was selected.
const NO_TESTS: i32 = 4;

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, Stop> {
    let (all, arguments) = match arguments {
        [first, others @ ..] if first == "--all" => (true, others),
        others => (false, others),
    };
    // Arguments select among all tests.
    let everyday = !all && arguments.is_empty();
    servers::fetch()?;
    let left_out = if everyday { Vec::new() } else { peers::fetch()? };
    let mut steps = Vec::new();
    let long = (!everyday).then(|| packages("--package", &[]));
    let others = packages("--exclude", &["--workspace", "--config", FASTER_TOKIO]);
    for packages in [others].into_iter().chain(long) {
        // Doctests run before the other tests, so that the other tests' summary comes last. They do
        // not run with arguments: those select other tests, and rustdoc does not understand
        // nextest's filters.
        if arguments.is_empty() {
            steps.push(Step::cargo(&[&["test", "--doc"], &*packages].concat(), &[]));
        }
        let line = runner(&packages, everyday, arguments);
        steps.push(Step::cargo(&line.iter().map(String::as_str).collect::<Vec<_>>(), &[]));
    }
    // The arguments may select tests of one command alone.
    if steps.iter().any(Step::passed) && !arguments.is_empty() {
        steps = steps.into_iter().map(|step| step.or_exit(NO_TESTS)).collect();
    }
    steps.extend(left_out.into_iter().chain(callgrind().filter(|_| !everyday)).map(Step::left_out));
    if everyday {
        steps.push(Step::left_out("the longer tests: cargo xtask test --all".into()));
    }
    Ok(account("test", &steps))
}

/// The packages of a command. Cargo builds a dependency with the features that the chosen packages
/// need of it. So the long packages have a command of their own: in one with the others, the
/// benchmark would count what the library does with all of its features.
fn packages(option: &'static str, first: &[&'static str]) -> Vec<&'static str> {
    let long = LONG_PACKAGES.into_iter().flat_map(|package| [option, package]);
    first.iter().copied().chain(long).collect()
}

/// The command that runs the tests: nextest if it is installed, because it runs the tests of all
/// crates in parallel.
fn runner(packages: &[&str], everyday: bool, arguments: &[String]) -> Vec<String> {
    let is_there = has_nextest();
    let mut line: Vec<String> = Vec::new();
    let mut say = |words: &[&str]| line.extend(words.iter().map(ToString::to_string));
    say(if is_there { &["nextest", "run"] } else { &["test"] });
    // Not the examples: conformance compiles them into the tests that run them, and `lint` checks
    // them as they are.
    say(&["--lib", "--bins", "--tests"]);
    say(packages);
    say(&["--no-fail-fast"]);
    if is_there {
        // .config/nextest.toml sets how many of which kind run at once. nextest refuses an option
        // that is given twice.
        let chosen = |argument: &String| argument.starts_with("--test-threads") || argument == "-j";
        if !arguments.iter().any(chosen) {
            let at_once = 4 * available_parallelism().map_or(1, NonZero::get);
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

/// The line about tests that are skipped because instructions cannot be counted. They fail instead
/// if counting is required.
fn callgrind() -> Option<String> {
    (!tool::is_there("valgrind")).then(|| {
        "the bounds on instructions: this machine lacks valgrind; remedy: put it on the PATH".to_owned()
    })
}

/// True if nextest is installed. It runs each test in its own process, and the tests of all crates
/// in parallel.
fn has_nextest() -> bool {
    tool::run(Command::new("cargo-nextest").args(["nextest", "--version"])).is_ok()
}
