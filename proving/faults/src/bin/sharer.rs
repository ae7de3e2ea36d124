//! A process whose tasks hold locks together with others, until SIGTERM ends it.

use std::process::ExitCode;

fn main() -> ExitCode {
    faults::sharing::run(&std::env::args().skip(1).collect::<Vec<_>>())
}
