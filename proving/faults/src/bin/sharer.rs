//! A process whose tasks share locks with others, until SIGTERM ends it.

use std::process::ExitCode;

fn main() -> ExitCode {
    faults::sharing::run(&std::env::args().skip(1).collect::<Vec<_>>())
}
