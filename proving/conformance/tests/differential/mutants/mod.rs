//! Each change of a script, or of a function in PostgreSQL, is noticed by a history, case, cost or
//! constant.
//!
//! A change that nothing notices is in `excuses.txt`, with a reason. The daily tests try a sample, and
//! `cargo xtask mutants [crates/redis/src/scripts/turn.lua]` all, or those of one file.

mod function_trial;
mod lua;
mod script_trial;
mod sql;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};
use std::{env, fs};

use self::function_trial::{FunctionTrial, functions};
use self::script_trial::ScriptTrial;
use crate::scripts::{self, Part};

/// The files whose mutants are tried, separated by commas; otherwise those of all.
const CHOICE: &str = "LEASEHOLD_MUTANTS_OF";

/// The tests of every day try one mutant of so many.
const SAMPLED: u64 = 40;

type Changed = (Part, Mutant);

/// A server on which one mutant is tried after the other.
trait Trial {
    fn begin() -> Self;

    /// True if a test notices that the part has the text of the mutant.
    fn notices(&mut self, part: &Part, mutant: &Mutant) -> bool;
}

#[derive(Debug)]
struct Mutant {
    /// The line with its change: `if a {{< => <=}} b then`; numbered if another has the same name.
    name: String,
    text: String,
}

/// Where a change begins and ends, and what stands there instead.
type Change = (usize, usize, String);

#[test]
fn no_change_of_a_sample_of_the_scripts_goes_unnoticed() {
    all_are_noticed::<ScriptTrial>(of_scripts().into_iter().filter(is_in_sample).collect());
}

#[test]
fn no_change_of_a_sample_of_the_functions_goes_unnoticed() {
    all_are_noticed::<FunctionTrial>(of_functions().into_iter().filter(is_in_sample).collect());
}

#[test]
fn no_change_of_any_script_goes_unnoticed() {
    let chosen = env::var(CHOICE).unwrap_or_default();
    let is_chosen =
        |(part, _): &Changed| chosen.is_empty() || chosen.split(',').any(|name| part.name == name);
    all_are_noticed::<ScriptTrial>(of_scripts().into_iter().filter(is_chosen).collect());
}

#[test]
fn no_change_of_any_function_goes_unnoticed() {
    all_are_noticed::<FunctionTrial>(of_functions());
}

#[test]
fn each_excuse_is_for_exactly_one_mutant() {
    let all = of_scripts().into_iter().chain(of_functions());
    let mutants: BTreeSet<_> = all.map(|(part, mutant)| (part.name, mutant.name)).collect();
    let mut times = BTreeMap::new();
    for excuse in excuses() {
        assert!(mutants.contains(&excuse), "no mutant has this excuse: {excuse:?}");
        *times.entry(excuse).or_insert(0) += 1;
    }
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "excused more than once: {twice:?}");
}

/// Below a line `# reason`: `file: name of the mutant`.
fn excuses() -> Vec<(String, String)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/mutants/excuses.txt");
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty());
    let mut has_reason = false;
    let mut excuses = Vec::new();
    for line in lines {
        if let Some(reason) = line.strip_prefix("# ") {
            has_reason = !reason.is_empty();
        } else {
            assert!(has_reason, "no reason: {line}");
            let (part, name) = line.split_once(": ").expect("`file: name`");
            excuses.push((part.into(), name.into()));
        }
    }
    excuses
}

fn of_scripts() -> Vec<Changed> {
    changed(scripts::parts(), lua::mutants)
}

fn of_functions() -> Vec<Changed> {
    changed(functions(), sql::mutants)
}

fn changed(parts: Vec<Part>, mutants: fn(&str) -> Vec<Mutant>) -> Vec<Changed> {
    let of = |part: Part| mutants(&part.text).into_iter().map(move |mutant| (part.clone(), mutant));
    parts.into_iter().flat_map(of).collect()
}

/// Makes a mutant of each change, in the order of the text.
fn changed_texts(text: &str, mut changes: Vec<Change>) -> Vec<Mutant> {
    changes.sort();
    let mut seen = BTreeMap::new();
    let mutants = changes.into_iter().map(|(from, to, instead)| {
        let line = text[..from].rfind('\n').map_or(0, |before| before + 1);
        let end = text[from..].find('\n').map_or(text.len(), |behind| from + behind);
        let name = format!("{}{{{{{} => {instead}}}}}{}", &text[line..from], &text[from..to], &text[to..end]);
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        let times = seen.entry(name.clone()).and_modify(|times| *times += 1).or_insert(1);
        let name = if *times == 1 { name } else { format!("{name} ({times})") };
        Mutant { name, text: [&text[..from], &instead, &text[to..]].concat() }
    });
    mutants.collect()
}

/// Tries those that are not excused; each worker has its own server.
fn all_are_noticed<T: Trial>(mut all: Vec<Changed>) {
    let excuses = excuses();
    all.retain(|(part, mutant)| !excuses.contains(&(part.name.clone(), mutant.name.clone())));
    assert!(!all.is_empty(), "no mutant was found");
    println!("{} mutants", all.len());
    let (next, unnoticed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        let mut trial = T::begin();
        while let Some((part, mutant)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            if !trial.notices(part, mutant) {
                let name = format!("{}: {}", part.name, mutant.name);
                println!("not noticed: {name}");
                unnoticed.lock().unwrap().push(name);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, NonZero::get).min(all.len()) {
            scope.spawn(work);
        }
    });
    let unnoticed = unnoticed.into_inner().unwrap();
    assert!(unnoticed.is_empty(), "{} not noticed:\n{}", unnoticed.len(), unnoticed.join("\n"));
}

/// The same ones as long as their lines stay as they are.
fn is_in_sample((part, mutant): &Changed) -> bool {
    digest(&part.name, &mutant.name).is_multiple_of(SAMPLED)
}

/// FNV-1a.
fn digest(part: &str, name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    part.bytes().chain(name.bytes()).fold(0xcbf2_9ce4_8422_2325, step)
}
