//! Programs of `proving` that document their own arguments.

use std::process::ExitCode;

use crate::{peers, servers, step::Step, stop::Stop};

/// Measures Leasehold: `proving/bench`.
pub(crate) fn bench(arguments: &[String]) -> Result<ExitCode, Stop> {
    servers::fetch()?;
    // Builds both programs of the package, because one starts the other to count allocations.
    Step::cargo(&["build", "--release", "-p", "bench", "--bins"], &[]).must_pass("bench")?;
    run(&["--release", "-p", "bench", "--bin", "bench"], arguments)
}

/// Compares Leasehold with other lock libraries: `proving/bench-compare`.
pub(crate) fn bench_compare(arguments: &[String]) -> Result<ExitCode, Stop> {
    servers::fetch()?;
    // This has listed the libraries that are left out, and the program lists them again.
    peers::fetch()?;
    run(&["--release", "-p", "bench-compare"], arguments)
}

/// Injects random faults on every kind of lock, store and topology: the soak test of
/// `proving/faults`.
pub(crate) fn soak(arguments: &[String]) -> Result<ExitCode, Stop> {
    servers::fetch()?;
    run(&["-p", "faults", "--bin", "soak"], arguments)
}

/// Runs more seeds of `proving/simulation` than the tests do, or replays one.
pub(crate) fn simulate(arguments: &[String]) -> Result<ExitCode, Stop> {
    run(&["-p", "simulation"], arguments)
}

/// The program prints its own report, so cargo prints nothing, and there is no summary of steps.
fn run(program: &[&str], arguments: &[String]) -> Result<ExitCode, Stop> {
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    Ok(Step::cargo(&[&["run", "--quiet"], program, &["--"], &arguments].concat(), &[]).code())
}
