//! Runs the short form with Leasehold's processes, Rust's other libraries and one of each language.

use std::process::{Command, Output};

use bench::backend::Backend;
use bench::figure::Figure;
use bench_compare::competitors::{ALL, FEW, Waits};
use interop::Language;

fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench-compare")).args(words).output().unwrap()
}

#[test]
fn every_contender_is_measured_on_both_workloads() {
    let output = run(&["--short", "--json"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let figures: Vec<Figure> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let value = |name: &str| {
        let figure = figures.iter().find(|figure| figure.name == name);
        figure.unwrap_or_else(|| panic!("no {name}: {figures:?}")).value
    };

    for who in ALL.into_iter().filter(|who| FEW.contains(&who.name())) {
        if !who.lacking().is_empty() {
            assert!(said.contains(&format!("LEFT OUT: {who}")), "{said}");
            continue;
        }
        for on in ["redis-7.0", "postgres"] {
            if !who.locks_on(Backend::named(on).unwrap()) {
                continue;
            }
            for case in ["1 task", "16 tasks", "64 tasks"] {
                assert!(value(&format!("uncontended/{on}/{who}/{case}")) > 0.0);
                assert!(value(&format!("uncontended/{on}/{who} ÷ bare/{case}")) > 0.0);
            }
            if who.waits == Waits::Never {
                continue;
            }
            // A turn takes at least a grant and a release; Jain's index of four is at least 1/4.
            if on != "postgres" {
                assert!(value(&format!("hand_off/{on}/commands per turn/{who}")) >= 2.0 - 0.1, "{figures:?}");
            }
            let jain = value(&format!("hand_off/{on}/Jain index/{who}"));
            assert!((0.25..=1.0).contains(&jain), "{figures:?}");
            assert!(value(&format!("hand_off/{on}/turns/{who}")) > 0.0);
        }
    }
    // A poller is overtaken by the process that released; in a queue, at most three turns pass first.
    let [ours, asks] =
        ["leasehold", "rslock"].map(|who| value(&format!("hand_off/redis-7.0/wait p99/{who}")));
    assert!(ours < asks, "{ours} ms compared with {asks} ms");
    let target = figures.iter().find(|figure| figure.name.ends_with("that of the best peer/leasehold"));
    assert!(target.is_some_and(|figure| figure.target.as_deref() == Some("≤ 1")), "{figures:?}");
}

#[test]
fn invalid_arguments_are_refused_before_anything_runs() {
    for (words, known) in [
        (&["redisson"][..], "redlock-universal"),
        (&["--on=memory"], "redis-7.0"),
        (&["--on=postgres", "rslock"], "rslock has no locks there"),
        (&["--write", "--short"], "cannot be used with"),
        (&["--write", "rslock"], "cannot be used with"),
    ] {
        let output = run(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(known) && output.stdout.is_empty(), "{said}");
    }
}

/// Without this test, the short form would pass if the libraries were missing.
#[test]
fn nobody_is_left_out_where_the_language_is_there() {
    for language in Language::ALL {
        if language.lacking().is_empty() {
            assert!(
                language.has_libraries(),
                "the libraries of {language} are not here; run `cargo xtask peers`"
            );
        }
    }
}
