//! Programs of `proving` that document their own arguments.

use std::process::ExitCode;

use crate::{
    peers, servers,
    step::{Step, account},
};

/// Measures Leasehold: `proving/bench`.
pub(crate) fn bench(arguments: &[String]) -> ExitCode {
    if let Err(failed) = servers::fetch() {
        return failed;
    }
    // Builds both programs of the package, because one starts the other to count allocations.
    let build = Step::cargo(&["build", "--release", "-p", "bench", "--bins"], &[]);
    if !build.passed() {
        return account("bench", &[build]);
    }
    run(&["--release", "-p", "bench", "--bin", "bench"], arguments)
}

/// Compares Leasehold with other lock libraries: `proving/bench-compare`.
pub(crate) fn bench_compare(arguments: &[String]) -> ExitCode {
    // `peers::fetch` has listed the libraries that are left out, and the program lists them again.
    match servers::fetch().and_then(|()| peers::fetch()) {
        Ok(_) => run(&["--release", "-p", "bench-compare"], arguments),
        Err(failed) => failed,
    }
}

/// Injects random faults on every kind of lock, store and topology: the soak test of
/// `proving/faults`.
pub(crate) fn soak(arguments: &[String]) -> ExitCode {
    match servers::fetch() {
        Ok(()) => run(&["-p", "faults", "--bin", "soak"], arguments),
        Err(failed) => failed,
    }
}

/// Runs more seeds of `proving/simulation` than the tests do, or replays one.
pub(crate) fn simulate(arguments: &[String]) -> ExitCode {
    run(&["-p", "simulation"], arguments)
}

/// The program prints its own report, so cargo prints nothing, and there is no summary of steps.
fn run(program: &[&str], arguments: &[String]) -> ExitCode {
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    Step::cargo(&[&["run", "--quiet"], program, &["--"], &arguments].concat(), &[]).code()
}
