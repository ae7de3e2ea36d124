//! The soak test: random faults, all kinds of locks, every store and topology; see `soak --help`.
//! It starts itself again for each of its workers.

use std::process::ExitCode;

fn main() -> ExitCode {
    faults::soak::run(&std::env::args().skip(1).collect::<Vec<_>>())
}
