//! Counts that other load does not change, on stores with queues: commands, order, fairness, bytes.

use std::process::Command;

use bench::callgrind;
use bench::figure::Figure;
use bench::targets;

macro_rules! at_each_store {
    ($($promise:ident)*) => {
        $(mod $promise {
            servers::tests! {
                fn memory() = super::$promise("memory");
                fn file() = super::$promise("file");
                fn redis_7_0() = super::$promise("redis-7.0");
                fn valkey_9_1() = super::$promise("valkey-9.1");
            }
        })*
    };
}

at_each_store! { counts_meet_their_targets hot_paths_stay_as_short_as_they_are }

/// Every counted measure. Of the first two, there is one with a wire and one without.
const COUNTED: [[&str; 2]; 6] = [
    ["queue/*/commands per turn", "queue/*/calls per turn"],
    ["queue/*/Jain index", "queue/*/Jain index"],
    ["queue/*/inversions", "queue/*/inversions"],
    ["queue/*/least ÷ most turns", "queue/*/least ÷ most turns"],
    ["waiters/*/bytes per waiter", "waiters/*/bytes per waiter"],
    ["held/*/bytes per guard", "held/*/bytes per guard"],
];

fn counts_meet_their_targets(backend: &str) {
    let figures = short(&["--on", backend, "queue", "waiters", "held"]);
    for [on_a_wire, elsewhere] in COUNTED.map(|names| names.map(|name| name.replace('*', backend))) {
        let of: Vec<_> = figures
            .iter()
            .filter(|figure| figure.name.starts_with(&on_a_wire) || figure.name.starts_with(&elsewhere))
            .collect();
        assert!(!of.is_empty(), "no figure of {on_a_wire}: {figures:?}");
        for figure in of {
            let [workload, _, measure, case] = figure.parts();
            if targets::of(workload, measure, case).is_none_or(|target| !target.counted) {
                continue;
            }
            if targets::not_yet(workload, backend, measure).is_some() {
                assert_eq!(
                    figure.met,
                    Some(false),
                    "it is met, so take it off bench::targets::NOT_YET: {figure:?}"
                );
            } else {
                assert!(figure.binding && figure.met == Some(true), "{figure:?}");
            }
        }
    }
}

fn hot_paths_stay_as_short_as_they_are(backend: &str) {
    let figures = short(&["--on", backend, "instructions"]);
    let bounded = |counted: &str| {
        let of =
            figures.iter().filter(|figure| figure.parts()[2].starts_with(counted) && figure.target.is_some());
        of.inspect(|figure| assert!(figure.binding && figure.met == Some(true), "{figure:?}")).count()
    };
    assert!(bounded("allocations") > 0, "{figures:?}");
    match callgrind::lacking() {
        Some(why) if !callgrind::is_demanded() => eprintln!("LEFT OUT: {why}"),
        _ => assert!(bounded("cycle ÷ bare") + bounded("instructions") > 0, "{figures:?}"),
    }
}

/// The costs with which docs/sizing.md calculates.
const COSTS: [&str; 12] = [
    "server memory per held lock",
    "server memory per waiter",
    "server processor per pair, alone",
    "server processor per pair, together",
    "server processor per renewal, alone",
    "server processor per renewal, together",
    "server processor per hand-off",
    "bytes received per pair",
    "bytes sent per pair",
    "bytes per renewal",
    "server processor per pair of a majority, each member",
    "server processor per renewal of a majority, each member",
];

#[test]
fn every_cost_that_the_sizing_page_needs_is_measured() {
    let figures = short(&["--on", "valkey-9.1", "capacity"]);
    let of = |measure: &str| {
        let name = format!("capacity/valkey-9.1/{measure}");
        let figure = figures.iter().find(|figure| figure.name == name);
        figure.unwrap_or_else(|| panic!("no {name}: {figures:?}")).value
    };
    for measure in COSTS {
        assert!(of(measure) > 0.0, "{figures:?}");
    }
    assert_eq!(figures.len(), COSTS.len(), "{figures:?}");
    // Regression: buffers of clients counted as memory of the locks; noticed late, it was negative.
    let memory = of("server memory per held lock");
    assert!((100.0..150.0).contains(&memory), "{memory} B");
    // Regression: this was the time of a whole batch.
    let [alone, together] =
        ["alone", "together"].map(|how| of(&format!("server processor per renewal, {how}")));
    assert!(together < alone, "{together} µs in batches, {alone} µs alone");
}

#[test]
fn a_count_that_cannot_be_made_is_left_out_in_words_or_refused_where_it_is_demanded() {
    for demanded in ["0", "1"] {
        let output = Command::new(env!("CARGO_BIN_EXE_bench"))
            .args(["--short", "--on", "memory", "instructions"])
            .env("PATH", "/nowhere")
            .env(callgrind::DEMANDED, demanded)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("there is no valgrind; remedy: install it"), "{said}");
        assert_eq!(output.status.success(), demanded == "0", "{said}");
    }
}

/// The figures of a short run, which must have passed.
fn short(words: &[&str]) -> Vec<Figure> {
    let output =
        Command::new(env!("CARGO_BIN_EXE_bench")).args(["--short", "--json"]).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn timed_workloads_run_on_a_server_and_on_a_file() {
    let figures = short(&["--on", "file", "--on", "valkey-9.1", "uncontended", "hand_off", "held", "file"]);
    for (measure, demanded) in [
        ("uncontended/valkey-9.1/again ÷ bare pair/64 tasks", true),
        ("uncontended/valkey-9.1/again ÷ bare pair/1 task", true),
        ("uncontended/valkey-9.1/fresh ÷ bare pair/1 task", false),
        ("hand_off/valkey-9.1/gap p50 ÷ cold round trip/1 ms hold, 1 ms think", true),
        ("held/valkey-9.1/client processor per renewal/1000 guards", true),
        ("file/file/through the store ÷ bare transactions/1 process", false),
    ] {
        let figure = figures.iter().find(|figure| figure.name == measure);
        let figure = figure.unwrap_or_else(|| panic!("no {measure}: {figures:?}"));
        assert!(figure.value > 0.0 && figure.target.is_some() == demanded && !figure.fails(), "{figure:?}");
    }
}

#[test]
fn invalid_arguments_are_refused_before_anything_runs() {
    for (words, known) in [
        (&["hand-off"][..], "hand_off"),
        (&["--on=redis"], "redis-7.0"),
        (&["--write", "--short"], "cannot be used with"),
        (&["--write", "queue"], "cannot be used with"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_bench")).args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(known) && output.stdout.is_empty(), "{said}");
    }
}
