//! Each change of each script is noticed by a history, a case, a cost or a constant.
//!
//! A change that nothing notices is in `excuses.txt`, by its exact name and with a reason. The
//! tests of every day try a sample. `cargo xtask mutants` tries all of them, and `cargo xtask
//! mutants crates/redis/src/scripts/turn.lua` those of one file.

mod lua;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};
use std::time::Duration;
use std::{env, fs};

use leasehold_redis::script;
use servers::{Flavor, Server};

use self::lua::Mutant;
use crate::scripts::{self, Part};
use crate::subject::Subject;
use crate::{cases, constants, costs};

/// The files whose mutants are tried, separated by commas; otherwise those of all.
const CHOICE: &str = "LEASEHOLD_MUTANTS_OF";

/// The tests of every day try one mutant of so many.
const SAMPLED: u64 = 40;

/// Most mutants are noticed by the first few.
const FEW: u64 = 30;
const HISTORIES: u64 = 150;

/// A script without an answer for so long never ends. A busy machine has answered by then: an
/// unchanged script that is late would look like a mutant that was noticed.
const LIMIT: Duration = Duration::from_secs(3);

/// How long each try to stop a script waits for the server.
const STOP_LIMIT: Duration = Duration::from_millis(300);

#[test]
fn no_change_of_a_sample_goes_unnoticed() {
    all_are_noticed(&|part, mutant| digest(&part.name, &mutant.name).is_multiple_of(SAMPLED));
}

#[test]
fn no_change_of_any_script_goes_unnoticed() {
    let chosen = env::var(CHOICE).unwrap_or_default();
    all_are_noticed(&|part, _| chosen.is_empty() || chosen.split(',').any(|name| part.name == name));
}

#[test]
fn each_excuse_is_for_exactly_one_mutant() {
    let mutants: BTreeSet<_> = scripts::parts()
        .into_iter()
        .flat_map(|part| {
            let mutants = lua::mutants(&part.text).into_iter();
            mutants.map(move |mutant| (part.name.clone(), mutant.name)).collect::<Vec<_>>()
        })
        .collect();
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

/// Tries those that are chosen and not excused; each worker has its own server.
fn all_are_noticed(is_chosen: &dyn Fn(&Part, &Mutant) -> bool) {
    let (parts, excuses) = (scripts::parts(), excuses());
    let mut all = Vec::new();
    for part in &parts {
        let is_excused = |mutant: &Mutant| excuses.contains(&(part.name.clone(), mutant.name.clone()));
        let mutants = lua::mutants(&part.text).into_iter();
        let tried = mutants.filter(|mutant| is_chosen(part, mutant) && !is_excused(mutant));
        all.extend(tried.map(|mutant| (part, mutant)));
    }
    assert!(!all.is_empty(), "no mutant was found");
    println!("{} mutants", all.len());
    let (next, unnoticed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        let mut trial = Trial::begin();
        while let Some((part, mutant)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            if !trial.notices(&part.text, &mutant.text) {
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

/// FNV-1a, so that a mutant stays in the sample while its line stays as it is.
fn digest(part: &str, name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    part.bytes().chain(name.bytes()).fold(0xcbf2_9ce4_8422_2325, step)
}

/// A server on which one mutant is tried after the other.
struct Trial {
    server: Server,
    subject: Subject,
}

impl Trial {
    fn begin() -> Self {
        let server = Server::start(Flavor::Valkey91);
        // It soon answers that a script keeps it busy.
        let limit: i64 = 20;
        let mut connection = connection(&server);
        redis::cmd("CONFIG").arg("SET").arg("busy-reply-threshold").arg(limit).exec(&mut connection).unwrap();
        let mut trial = Self { subject: Subject::on(&server), server };
        assert!(!trial.notices("", ""), "something is noticed although nothing was changed");
        trial
    }

    fn notices(&mut self, part: &str, text: &str) -> bool {
        // An answer that the tests cannot decode counts as noticed, too.
        let notices = panic::catch_unwind(AssertUnwindSafe(|| self.looks(part, text))).unwrap_or(true);
        if notices && !is_free(&self.server) {
            *self = Self::begin();
        }
        notices
    }

    fn looks(&mut self, part: &str, text: &str) -> bool {
        if constants::check(text).is_err() {
            return true;
        }
        // A new connection, because the last one may still get answers of the previous mutant.
        self.subject = Subject::on(&self.server);
        let subject = &mut self.subject;
        subject.set_read_timeout(LIMIT);
        let instead: Vec<_> =
            scripts::with(part).map(|script| (script.text(), script.text().replace(part, text))).collect();
        // Otherwise the scripts of single requests must handle all cases.
        subject.batches = [&script::BATCH_GRANT, &script::BATCH_RELEASE, &script::BATCH_RENEW]
            .iter()
            .any(|batch| batch.text().contains(part));
        if subject.run_instead(instead).is_err() {
            return true;
        }
        (0..FEW).any(|seed| subject.agrees(seed).is_err())
            || cases::all(subject).is_err()
            || costs::all(subject).is_err()
            || (FEW..HISTORIES).any(|seed| subject.agrees(seed).is_err())
    }
}

fn connection(server: &Server) -> redis::Connection {
    let connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    connection.set_read_timeout(Some(STOP_LIMIT)).unwrap();
    connection
}

/// Stops a script that would run on for ever. If it has written something, it cannot be stopped:
/// then this is false.
fn is_free(server: &Server) -> bool {
    (0..20).any(|_| {
        let mut connection = connection(server);
        // If none runs, there is nothing to stop.
        let _ = redis::cmd("SCRIPT").arg("KILL").exec(&mut connection);
        redis::cmd("PING").exec(&mut connection).is_ok()
    })
}
