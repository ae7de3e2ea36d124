//! `cargo xtask mutants`: makes small changes of every kind in core's state machines, in the quorum
//! and in the scripts, and checks that a test fails for each.
//!
//! `seeded-bugs` checks that known kinds of bugs are caught; this tries more than a thousand bugs
//! that nobody thought of. So each change is tried on the fastest tests first, and only survivors
//! on the slower ones. `.cargo/mutants.toml` lists the changes that are left out, and why. The
//! scripts and the functions in PostgreSQL are changed by their differential test itself, and its
//! `excuses.txt` lists the changes that are left out there.

use std::{fs, path::Path, process::ExitCode};

use crate::{
    files, servers,
    step::{Step, account, target, workspace},
    stop::Stop,
    tool,
};

/// The tool that makes the changes. It is not a library here, because its dependencies would then
/// be in the lock file.
const CARGO_MUTANTS: &str = "27.1.0";

/// Its exit code if some changes made tests time out: a hanging test has noticed the change, too.
const SOME_HUNG: i32 = 3;

/// Files of one package, and the tests that should notice a change in them, fastest first. None of
/// these tests needs a server: the changes are made in a copy of the source, which has no servers.
struct Part {
    package: &'static str,
    files: &'static str,
    tests: &'static [&'static [&'static str]],
}

/// The checks of every store, on stores in memory, and the tests in virtual time.
const IN_MEMORY: &[&str] = &["--test-package=conformance", "--", "--test=stores", "memory"];
const AT_WILL: &[&str] = &["--test-package=conformance", "--", "--test=quorum", "--test=in_memory"];

/// What holds of the client's state machines whatever happens.
const WHATEVER_HAPPENS: &[&str] = &["--test-package=fuzz", "--", "--test=machines"];

const PARTS: [Part; 2] = [
    Part {
        package: "leasehold-core",
        files: "crates/core/src/",
        tests: &[&["--test-package=leasehold-core", "--", "--lib"], WHATEVER_HAPPENS, IN_MEMORY, AT_WILL],
    },
    Part {
        package: "leasehold",
        files: "crates/leasehold/src/quorum",
        tests: &[&["--test-package=leasehold", "--", "--lib"], AT_WILL, IN_MEMORY],
    },
];

/// The parts of the scripts, and the test that changes them.
const SCRIPTS: &str = "crates/redis/src/scripts/";
const TEST_OF_SCRIPTS: &str = "no_change_of_any_script_goes_unnoticed";

/// The functions of a database, and the test that changes them.
const FUNCTIONS: &str = "crates/postgres/src/quick.sql";
const TEST_OF_FUNCTIONS: &str = "no_change_of_any_function_goes_unnoticed";

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, Stop> {
    let (scripts, rest): (Vec<_>, Vec<_>) =
        arguments.iter().cloned().partition(|argument| argument.starts_with(SCRIPTS));
    let (functions, rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(|argument| argument == FUNCTIONS);
    let stray = scripts.iter().find(|file| !file.ends_with(".lua") || !workspace().join(file).is_file());
    let stray = stray.or_else(|| {
        rest.iter().find(|file| {
            !PARTS.iter().any(|part| file.starts_with(part.files)) || !workspace().join(file).is_file()
        })
    });
    if let Some(stray) = stray {
        return Err(Stop::Usage(format!(
            "{stray:?} is not a file of the core, the quorum, the scripts or the functions\n\
             hint: name it from the root, as in crates/core/src/round.rs"
        )));
    }
    let mut steps = Vec::new();
    if arguments.is_empty() || !rest.is_empty() {
        steps.extend(of_rust(&rest)?);
    }
    let (of_scripts, of_functions) =
        (arguments.is_empty() || !scripts.is_empty(), arguments.is_empty() || !functions.is_empty());
    if of_scripts || of_functions {
        servers::fetch()?;
    }
    if of_scripts {
        let names: Vec<_> = scripts.iter().map(|file| &file[SCRIPTS.len()..]).collect();
        steps.push(Step::cargo(&line_of(TEST_OF_SCRIPTS), &[("LEASEHOLD_MUTANTS_OF", &names.join(","))]));
    }
    if of_functions {
        steps.push(Step::cargo(&line_of(TEST_OF_FUNCTIONS), &[]));
    }
    Ok(account("mutants", &steps))
}

/// Runs one test of the differential tests.
fn line_of(test: &str) -> [&str; 8] {
    ["test", "-p", "conformance", "--test", "differential", "--", "--nocapture", test]
}

fn of_rust(arguments: &[String]) -> Result<Vec<Step>, String> {
    let mut chosen: Vec<(&Part, Vec<String>)> = Vec::new();
    for part in &PARTS {
        let ours = arguments.iter().filter(|file| file.starts_with(part.files)).cloned();
        let files: Vec<_> =
            if arguments.is_empty() { vec![format!("{}**", part.files)] } else { ours.collect() };
        if !files.is_empty() {
            chosen.push((part, files));
        }
    }
    let tool = tool::subcommand("cargo-mutants", CARGO_MUTANTS)?;
    chosen.iter().map(|(part, files)| tried(&tool, part, files)).collect()
}

/// Tries the survivors of each test run on the next. The last step reports those that survive all
/// of them.
fn tried(tool: &Path, part: &Part, chosen: &[String]) -> Result<Step, String> {
    let output = target().join("mutants").join(part.package);
    // cargo-mutants would skip the mutants that an earlier run caught, so its results are removed.
    let found = files::directory(&output, "mutants.out")?;
    files::remove(&found)?;
    let files: Vec<_> = chosen.iter().map(|file| format!("--file={file}")).collect();
    let (package, output) = (format!("--package={}", part.package), format!("--output={}", output.display()));
    let mut last = None;
    for (n, tests) in part.tests.iter().enumerate() {
        let mut line = vec!["mutants", &package, &output];
        line.extend(files.iter().map(String::as_str));
        if n > 0 {
            line.push("--iterate");
        }
        line.extend(*tests);
        let mut step = Step::program(tool, &line);
        if fs::read_to_string(found.join("missed.txt")).is_ok_and(|missed| missed.is_empty()) {
            step = step.or_exit(SOME_HUNG);
        }
        if step.passed() {
            return Ok(step);
        }
        last = Some(step);
    }
    Ok(last.unwrap_or_else(|| Step::left_out(format!("no tests for {}", part.package))))
}
