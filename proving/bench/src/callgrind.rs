//! The number of instructions that a process of ours executes, counted by callgrind.
//!
//! Two processes run a path, one of them twice as often. The difference is the cost of that many
//! cycles, without start-up, connecting and warm-up. This needs no symbols and no marks in the
//! code, and other load on the machine does not change it.

use std::env;
use std::fs;
use std::path::Path as FilePath;
use std::process::{Child, Command, Stdio};

use crate::error::AnyError;
use crate::path::Walk;

/// The environment variable that makes a missing valgrind a failure.
pub const DEMANDED: &str = "BENCH_DEMANDS_VALGRIND";

/// The reason why instructions cannot be counted on this machine, if there is one.
#[must_use]
pub fn lacking() -> Option<String> {
    let said = Command::new("valgrind").arg("--version").output();
    (!said.is_ok_and(|output| output.status.success()))
        .then(|| "instructions are not counted: there is no valgrind; remedy: install it (apt-get install valgrind)".to_owned())
}

/// True if a missing valgrind is to be an error rather than a skipped test.
#[must_use]
pub fn is_demanded() -> bool {
    env::var_os(DEMANDED).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Instructions per cycle.
///
/// # Errors
///
/// If valgrind is missing, or the walk fails.
pub fn per_cycle(walk: &Walk) -> Result<f64, AnyError> {
    let farther = Walk { cycles: walk.cycles * 2, ..walk.clone() };
    // In parallel, unless both would use the same file: their keys differ, but a file has one
    // writer.
    let first = Counted::start(walk)?;
    let (once, twice) = if walk.shares_a_file() {
        (first.instructions()?, Counted::start(&farther)?.instructions()?)
    } else {
        let second = Counted::start(&farther)?;
        (first.instructions()?, second.instructions()?)
    };
    let cycles = f64::from(walk.cycles) * f64::from(walk.tasks);
    Ok((twice as f64 - once as f64) / cycles)
}

/// A process under callgrind.
struct Counted {
    process: Child,
    directory: tempfile::TempDir,
}

const PROFILE: &str = "callgrind.out";

impl Counted {
    fn start(walk: &Walk) -> Result<Self, AnyError> {
        let program = env::current_exe()?.with_file_name("bench");
        let directory = tempfile::TempDir::with_prefix("leasehold-callgrind-")?;
        let process = Command::new("valgrind")
            .args(["--tool=callgrind", "--quiet", "--read-inline-info=no", "--log-file=valgrind.log"])
            .arg(format!("--callgrind-out-file={PROFILE}"))
            .arg(program)
            .args(walk.words())
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Self { process, directory })
    }

    fn instructions(self) -> Result<u64, AnyError> {
        let output = self.process.wait_with_output()?;
        if !output.status.success() {
            let log = fs::read_to_string(self.directory.path().join("valgrind.log")).unwrap_or_default();
            return Err(format!("valgrind: {}{log}", String::from_utf8_lossy(&output.stderr)).into());
        }
        total(&self.directory.path().join(PROFILE))
    }
}

fn total(profile: &FilePath) -> Result<u64, AnyError> {
    let text = fs::read_to_string(profile)?;
    Ok(sum(&text).ok_or("callgrind wrote no totals")?)
}

/// Reads the sum from callgrind's profile, whose last line is `totals: N`.
fn sum(profile: &str) -> Option<u64> {
    profile.lines().rev().find_map(|line| line.strip_prefix("totals:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_a_profile_is_its_last_word() {
        assert_eq!(sum("events: Ir\nsummary: 7\n\nfn=(1) main\n3 7\n\ntotals: 51337\n"), Some(51_337));
        assert_eq!(sum("events: Ir\n"), None);
    }
}
