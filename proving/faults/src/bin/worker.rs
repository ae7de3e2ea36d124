//! A process that waits for a lock, with several tasks, until it is told to end by SIGTERM.

use std::process::ExitCode;

fn main() -> ExitCode {
    faults::worker::run(&std::env::args().skip(1).collect::<Vec<_>>())
}
