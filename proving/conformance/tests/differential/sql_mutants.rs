//! Each change of the quick functions in PostgreSQL is noticed by a history.
//!
//! A change that no history notices is in `sql_excuses.txt`, with the reason or with the test that
//! notices it. The tests of every day try a sample.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};

use servers::Postgres;
use tokio::runtime::{Builder, Runtime};

use crate::postgres::Tables;

/// The tests of every day try one mutant of so many.
const SAMPLED: usize = 40;

/// Most mutants are noticed by the first few.
const HISTORIES: u64 = 120;

const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// Each change of a word or a symbol.
const CHANGES: [(&str, &[&str]); 21] = [
    ("<", &["<=", ">"]),
    (">", &[">=", "<"]),
    ("<=", &["<", ">"]),
    (">=", &[">", "<"]),
    ("=", &["<>"]),
    ("<>", &["="]),
    ("AND", &["OR"]),
    ("OR", &["AND"]),
    ("NOT", &[""]),
    ("IS", &["IS NOT"]),
    ("+", &["-"]),
    ("-", &["+"]),
    ("*", &["/"]),
    ("/", &["*"]),
    ("true", &["false"]),
    ("false", &["true"]),
    ("'on'", &["'off'"]),
    ("'off'", &["'on'"]),
    ("greatest", &["least"]),
    ("least", &["greatest"]),
    ("DESC", &["ASC"]),
];

#[test]
fn no_change_of_a_sample_of_sql_goes_unnoticed() {
    all_are_noticed(&|nth| nth % SAMPLED == 0);
}

#[test]
fn no_change_of_any_script_of_sql_goes_unnoticed() {
    all_are_noticed(&|_| true);
}

#[test]
fn each_excuse_is_for_one_mutant_of_the_functions() {
    let known: BTreeSet<_> = mutants().into_iter().map(|mutant| mutant.name).collect();
    let excuses = excuses();
    for excuse in &excuses {
        assert!(known.contains(excuse), "no mutant has this excuse: {excuse}");
    }
    assert_eq!(excuses.iter().collect::<BTreeSet<_>>().len(), excuses.len(), "excused twice");
}

/// A changed function.
struct Mutant {
    /// The function, and the changed line: `quick_renew: IF {{NOT => }} FOUND THEN`. Of mutants with
    /// the same name, all but the first have a number.
    name: String,
    function: String,
    text: String,
}

/// The functions by their names, as `leasehold init` creates them.
fn functions() -> Vec<(String, String)> {
    let schema = leasehold::postgres::schema_sql("postgres://h/d").unwrap();
    assert!(schema.contains(NOW), "the time is read in another way");
    let schema = schema.replace(NOW, "{now}");
    let begins: Vec<_> = schema.match_indices("\nCREATE ").map(|(at, _)| at + 1).collect();
    let quick = begins.into_iter().filter_map(|from| {
        let text = &schema[from..];
        let (head, _) = text.split_once('(')?;
        let name = head.rsplit_once('.')?.1;
        let end = text.find("$quick$;")? + "$quick$;".len();
        name.starts_with("quick_").then(|| (name.to_owned(), text[..end].to_owned()))
    });
    let found: Vec<_> = quick.collect();
    assert_eq!(found.len(), 3, "{found:?}");
    found
}

fn mutants() -> Vec<Mutant> {
    let mut seen = BTreeMap::new();
    let mut all = Vec::new();
    for (function, text) in functions() {
        for (from, to, instead) in changes(&text) {
            let line = text[..from].rfind('\n').map_or(0, |before| before + 1);
            let end = text[from..].find('\n').map_or(text.len(), |behind| from + behind);
            let (before, changed, behind) = (&text[line..from], &text[from..to], &text[to..end]);
            let name = format!("{function}: {before}{{{{{changed} => {instead}}}}}{behind}");
            let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
            let times = seen.entry(name.clone()).and_modify(|times| *times += 1).or_insert(1);
            let name = if *times == 1 { name } else { format!("{name} ({times})") };
            let text = [&text[..from], &instead, &text[to..]].concat();
            all.push(Mutant { name, function: function.clone(), text });
        }
    }
    all
}

/// Where each change begins and ends, and what stands there instead, in the order of the text.
fn changes(text: &str) -> Vec<(usize, usize, String)> {
    let mut found = Vec::new();
    let mut start = text.find("\nBEGIN").expect("a body");
    for line in text[start..].split_inclusive('\n') {
        let code = line.split("--").next().unwrap_or_default();
        let words = code.trim();
        let is_statement =
            words.contains(" := ") || ["RETURN", "CONTINUE"].iter().any(|verb| words.starts_with(verb));
        if is_statement && words.ends_with(';') {
            let indent = code.len() - code.trim_start().len();
            found.push((start + indent, start + indent + words.len(), String::new()));
        }
        let tokens = tokens(code);
        for (nth, (at, token)) in tokens.iter().enumerate() {
            let change = |to: String| (start + at, start + at + token.len(), to);
            if let Ok(number) = token.parse::<u64>() {
                found.push(change((number + 1).to_string()));
            }
            // Without the NOT behind it, this is the change of that.
            let is_negated = tokens.get(nth + 1).is_some_and(|(_, next)| *next == "NOT");
            let known = CHANGES.iter().filter(|(from, _)| from == token && !(*from == "IS" && is_negated));
            found.extend(known.flat_map(|(_, to)| *to).map(|to| change((*to).to_owned())));
        }
        start += line.len();
    }
    found
}

/// Words, numbers, strings and runs of symbols, each with where it begins.
fn tokens(code: &str) -> Vec<(usize, &str)> {
    let kind = |letter: char| match letter {
        '\'' => 3,
        letter if letter.is_alphanumeric() || "_.{}".contains(letter) => 1,
        letter if "<>=+-*/|:".contains(letter) => 2,
        _ => 0,
    };
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(first) = code[from..].chars().next() {
        let rest = &code[from..];
        let length = match kind(first) {
            0 => first.len_utf8(),
            3 => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            same => rest.find(|letter| kind(letter) != same).unwrap_or(rest.len()),
        };
        if kind(first) > 0 {
            found.push((from, &rest[..length]));
        }
        from += length;
    }
    found
}

/// Below a line `# reason`: the name of the mutant.
fn excuses() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/sql_excuses.txt");
    let text = std::fs::read_to_string(file).unwrap();
    let mut has_reason = false;
    let mut excuses = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if line.starts_with("# ") {
            has_reason = true;
        } else {
            assert!(has_reason, "no reason: {line}");
            excuses.push(line.to_owned());
        }
    }
    excuses
}

/// Tries those that are chosen and not excused; each worker has its own server.
fn all_are_noticed(is_chosen: &dyn Fn(usize) -> bool) {
    let excuses = excuses();
    let chosen = mutants().into_iter().enumerate().filter(|(nth, _)| is_chosen(*nth));
    let all: Vec<_> =
        chosen.map(|(_, mutant)| mutant).filter(|mutant| !excuses.contains(&mutant.name)).collect();
    assert!(!all.is_empty(), "no mutant was found");
    println!("{} mutants", all.len());
    let (next, unnoticed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        let trial = Trial::begin();
        while let Some(mutant) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            if !trial.notices(mutant) {
                println!("not noticed: {}", mutant.name);
                unnoticed.lock().unwrap().push(mutant.name.clone());
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

/// A server on which one mutant is tried after the other.
struct Trial {
    runtime: Runtime,
    tables: Tables,
    functions: Vec<(String, String)>,
    _server: Postgres,
}

impl Trial {
    fn begin() -> Self {
        let server = Postgres::of(&Postgres::programs().expect("run `cargo xtask servers`"), &[]);
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let tables = runtime.block_on(async {
            leasehold::postgres::init(&server.url()).await.unwrap();
            Tables::of(&server).await
        });
        let trial = Self { runtime, tables, functions: functions(), _server: server };
        assert!(!trial.finds(HISTORIES / 10), "something is noticed although nothing was changed");
        trial
    }

    /// A function that the server does not accept counts as noticed.
    fn notices(&self, mutant: &Mutant) -> bool {
        let noticed = self.create(&mutant.function, &mutant.text).is_err() || self.finds(HISTORIES);
        let original = self.functions.iter().find(|(name, _)| *name == mutant.function);
        self.create(&mutant.function, &original.expect("it was changed").1).expect("it was accepted before");
        noticed
    }

    /// The quick functions serve only histories with odd numbers.
    fn finds(&self, histories: u64) -> bool {
        let mut seeds = (0..histories).map(|nth| 2 * nth + 1);
        self.runtime.block_on(self.tables.agree_on_cases()).is_err()
            || seeds.any(|seed| self.runtime.block_on(self.tables.agree(seed)).is_err())
    }

    fn create(&self, function: &str, text: &str) -> Result<(), tokio_postgres::Error> {
        let text = text.replace("{now}", NOW);
        // One implicit transaction: a refused function leaves the one before.
        let text = format!("DROP ROUTINE leasehold.{function}; {text}");
        self.runtime.block_on(self.tables.execute(&text))
    }
}
