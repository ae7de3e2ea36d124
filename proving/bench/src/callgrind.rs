//! What a process of ours executes, counted by callgrind: the difference between a path and one
//! twice as long is the cost of that many cycles, without start-up, connecting and warm-up. This
//! needs no marks in the code and no symbols, and other load does not change it.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::process::{Child, Command, Stdio};

use crate::AnyError;
use crate::path::Walk;

/// The environment variable that makes a missing valgrind a failure.
pub const DEMANDED: &str = "BENCH_DEMANDS_VALGRIND";

/// The reason why instructions cannot be counted on this machine, if there is one.
pub fn lacking() -> Option<String> {
    let said = Command::new("valgrind").arg("--version").output();
    (!said.is_ok_and(|output| output.status.success()))
        .then(|| "instructions are not counted: there is no valgrind; remedy: install it (apt-get install valgrind)".to_owned())
}

/// True if a missing valgrind is to be an error rather than a skipped test.
pub fn is_demanded() -> bool {
    env::var_os(DEMANDED).is_some_and(|value| !value.is_empty() && value != "0")
}

pub fn per_cycle(walk: &Walk) -> Result<f64, AnyError> {
    let [once, twice] = profiles(walk)?.map(|profile| sum(&profile));
    let (once, twice) = once.zip(twice).ok_or("callgrind wrote no totals")?;
    let cycles = f64::from(walk.cycles) * f64::from(walk.tasks);
    Ok((twice as f64 - once as f64) / cycles)
}

/// The functions of the published crates, closures included, that each cycle of a walk enters, and
/// the files in which they are. Both are 0 if the program has no symbols.
pub fn entered(walk: &Walk) -> Result<[usize; 2], AnyError> {
    let [once, twice] = profiles(walk)?;
    let (once, twice) = (calls(&once), calls(&twice));
    let more = |function: &(&str, &str), count: u64| count - once.get(function).unwrap_or(&0).min(&count);
    let each = u64::from(walk.cycles) * u64::from(walk.tasks);
    let each: Vec<_> = twice
        .iter()
        .filter(|((file, name), count)| {
            file.contains("/crates/") && name.contains("leasehold") && more(&(*file, *name), **count) >= each
        })
        .collect();
    let files: BTreeSet<_> = each.iter().map(|((file, _), _)| file).collect();
    Ok([each.len(), files.len()])
}

/// The profiles of a walk, and of one with twice the cycles.
fn profiles(walk: &Walk) -> Result<[String; 2], AnyError> {
    let farther = Walk { cycles: walk.cycles * 2, ..walk.clone() };
    // In parallel, unless both would use the same file, which has one writer.
    let first = Counted::start(walk)?;
    if walk.shares_a_file() {
        return Ok([first.profile()?, Counted::start(&farther)?.profile()?]);
    }
    let second = Counted::start(&farther)?;
    Ok([first.profile()?, second.profile()?])
}

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
            .args(["--compress-strings=no", "--compress-pos=no"])
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

    fn profile(self) -> Result<String, AnyError> {
        let output = self.process.wait_with_output()?;
        if !output.status.success() {
            let log = fs::read_to_string(self.directory.path().join("valgrind.log")).unwrap_or_default();
            return Err(format!("valgrind: {}{log}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(fs::read_to_string(self.directory.path().join(PROFILE))?)
    }
}

/// Reads the sum from callgrind's profile, whose last line is `totals: N`.
fn sum(profile: &str) -> Option<u64> {
    profile.lines().rev().find_map(|line| line.strip_prefix("totals:"))?.trim().parse().ok()
}

/// How often each function was called, by its file and name. A profile names the caller (`fl=`,
/// `fn=`), and then each function that it calls (`cfn=`, and `cfi=` if in another file) and the
/// number of calls.
fn calls(profile: &str) -> BTreeMap<(&str, &str), u64> {
    let mut calls = BTreeMap::new();
    let (mut file, mut callee_file, mut callee) = ("", "", "");
    for line in profile.lines() {
        match line.split_once('=') {
            Some(("fl", name)) => (file, callee_file) = (name, name),
            Some(("cfi" | "cfl", name)) => callee_file = name,
            Some(("cfn", name)) => callee = name,
            Some(("calls", counts)) => {
                let count = counts.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
                *calls.entry((callee_file, callee)).or_insert(0) += count;
                callee_file = file;
            }
            _ => {}
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_says_how_often_each_function_was_called() {
        let profile = "fl=a.rs\nfn=one\n3 7\ncfn=two\ncalls=5 3\n3 7\ncfi=b.rs\ncfn=three\ncalls=2 3\n3 7\n\
                       cfn=two\ncalls=1 3\n3 7\n\nfl=b.rs\nfn=three\ncfi=a.rs\ncfn=two\ncalls=4 1\n1 1\n";
        assert_eq!(calls(profile), BTreeMap::from([(("a.rs", "two"), 10), (("b.rs", "three"), 2)]));
    }

    #[test]
    fn the_total_of_a_profile_is_its_last_word() {
        assert_eq!(sum("events: Ir\nsummary: 7\n\nfn=(1) main\n3 7\n\ntotals: 51337\n"), Some(51_337));
        assert_eq!(sum("events: Ir\n"), None);
    }
}
