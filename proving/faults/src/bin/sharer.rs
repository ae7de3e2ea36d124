//! A process that holds locks together with others, with several tasks, until it is told to end by SIGTERM.

use std::process::ExitCode;

fn main() -> ExitCode {
    faults::sharing::run(&std::env::args().skip(1).collect::<Vec<_>>())
}
