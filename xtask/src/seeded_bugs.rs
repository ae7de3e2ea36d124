//! `cargo xtask seeded-bugs`: puts known bugs into a copy of the source, one at a time, and checks
//! that the tests named for each fail.
//!
//! A promise is worth as much as the test that fails without it. So each rule that the promises
//! rest on is broken once, by a small exact change of the product, and tests that pass without the
//! change must fail with it. The copy is in `target/seeded-bugs` and has its own target directory,
//! so that a second run builds little.

mod bug;
mod bugs;
mod copy;
mod trial;

use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
    time::Instant,
};

use self::{
    bug::{Bug, Suite},
    bugs::BUGS,
    copy::Copy,
    trial::Verdict,
};
use crate::{servers, stop::Stop};

/// The result for one bug.
struct Row {
    bug: &'static Bug,
    outcome: Result<Vec<(&'static str, Verdict)>, String>,
}

impl Row {
    /// True if every test that it names failed.
    fn is_caught(&self) -> bool {
        let is_red = |tests: &Vec<_>| tests.iter().all(|(_, verdict)| *verdict == Verdict::Red);
        self.outcome.as_ref().is_ok_and(is_red)
    }
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, Stop> {
    if arguments.iter().any(|argument| argument == "--list") {
        let width = widest(BUGS.iter());
        BUGS.iter().for_each(|bug| println!("{:<width$}  {}", bug.name, bug.file));
        return Ok(ExitCode::SUCCESS);
    }
    let chosen: Vec<_> =
        BUGS.iter().filter(|bug| arguments.iter().all(|word| bug.name.contains(word.as_str()))).collect();
    if chosen.is_empty() {
        return Err(Stop::Usage(format!(
            "no bug's name contains {:?}\nhint: `cargo xtask seeded-bugs --list` names all of them",
            arguments.join(" ")
        )));
    }
    servers::fetch()?;
    Ok(table(&plant_all(&chosen)?))
}

fn plant_all(chosen: &[&'static Bug]) -> Result<Vec<Row>, String> {
    let copy = Copy::take()?;
    are_green(&copy, chosen)?;
    let mut rows = Vec::new();
    for (n, bug) in chosen.iter().enumerate() {
        let begun = Instant::now();
        eprintln!("xtask seeded-bugs: {} of {}: {}", n + 1, chosen.len(), bug.name);
        let seeded = copy.seed(bug)?;
        let outcome = tried(&copy, bug);
        drop(seeded);
        let row = Row { bug, outcome };
        let word = if row.is_caught() { "caught" } else { "NOT CAUGHT" };
        eprintln!("xtask seeded-bugs: {word} in {:.0?}", begun.elapsed());
        rows.push(row);
    }
    Ok(rows)
}

/// Checks that the tests pass without a bug: a test that fails without it says nothing about it.
fn are_green(copy: &Copy, chosen: &[&'static Bug]) -> Result<(), String> {
    let mut all: BTreeMap<Suite, BTreeSet<&'static str>> = BTreeMap::new();
    for (suite, test) in chosen.iter().flat_map(|bug| bug.tests) {
        all.entry(*suite).or_default().insert(test);
    }
    eprintln!("xtask seeded-bugs: running the tests without any bug first");
    let mut cannot_tell = Vec::new();
    for (suite, tests) in all {
        let tests: Vec<_> = tests.into_iter().collect();
        for (test, verdict) in trial::run(copy, suite, &tests)? {
            if verdict != Verdict::Green {
                cannot_tell
                    .push(format!("{test} of {suite} is {verdict} without any bug, so it proves nothing"));
            }
        }
    }
    if cannot_tell.is_empty() { Ok(()) } else { Err(cannot_tell.join("\n")) }
}

fn tried(copy: &Copy, bug: &'static Bug) -> Result<Vec<(&'static str, Verdict)>, String> {
    let mut seen = Vec::new();
    let suites: BTreeSet<_> = bug.tests.iter().map(|(suite, _)| *suite).collect();
    for suite in suites {
        let tests: Vec<_> = bug.tests.iter().filter(|(of, _)| *of == suite).map(|(_, test)| *test).collect();
        seen.extend(trial::run(copy, suite, &tests)?);
    }
    Ok(seen)
}

fn widest(bugs: impl Iterator<Item = &'static Bug>) -> usize {
    bugs.map(|bug| bug.name.chars().count()).max().unwrap_or_default()
}

fn table(rows: &[Row]) -> ExitCode {
    let width = widest(rows.iter().map(|row| row.bug));
    println!("\n{:<width$}  {:<10}  by", "bug", "");
    for row in rows {
        let word = if row.is_caught() { "caught" } else { "NOT CAUGHT" };
        let name = row.bug.name;
        match &row.outcome {
            Err(why) => println!("{name:<width$}  {word:<10}  {why}"),
            Ok(tests) => {
                for (n, (test, verdict)) in tests.iter().enumerate() {
                    let (name, word) = if n == 0 { (name, word) } else { ("", "") };
                    let and = if *verdict == Verdict::Red { String::new() } else { format!(" ({verdict})") };
                    println!("{name:<width$}  {word:<10}  {test}{and}");
                }
            }
        }
    }
    let missed = rows.iter().filter(|row| !row.is_caught()).count();
    println!("\n{} bugs, {missed} not caught", rows.len());
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
