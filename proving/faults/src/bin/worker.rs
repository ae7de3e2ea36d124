//! A process whose tasks wait for a lock, until SIGTERM ends it.

use std::process::ExitCode;

fn main() -> ExitCode {
    faults::worker::run(&std::env::args().skip(1).collect::<Vec<_>>())
}
