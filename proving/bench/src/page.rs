//! The results for people: a table, and the pages docs/performance.md and docs/figures.md.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::AnyError;
use crate::figure::{Figure, shown};
use crate::machine::Machine;
use crate::targets::{NOT_YET, NotYet, TARGETS};
use crate::workloads::ALL;

/// One line per figure, in columns.
pub fn table(figures: &[Figure]) -> String {
    let row = |figure: &Figure| {
        let [value, spread, target, met] = cells(figure);
        [figure.name.clone(), value, spread, target, met]
    };
    let rows: Vec<_> = figures.iter().map(row).collect();
    let width = |nth: usize| rows.iter().map(|row| row[nth].chars().count()).max().unwrap_or_default();
    let widths = [0, 1, 2, 3, 4].map(width);
    let mut text = String::new();
    for row in &rows {
        let line: Vec<_> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text += line.join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// Value with unit, quartiles, target, verdict.
fn cells(figure: &Figure) -> [String; 4] {
    let value = format!("{} {}", shown(figure.value), figure.unit).trim_end().to_owned();
    let spread =
        figure.spread.map_or_else(String::new, |[low, high]| format!("{}–{}", shown(low), shown(high)));
    let met = figure.met.map_or("", |met| if met { "met" } else { "MISSED" });
    [value, spread, figure.target.clone().unwrap_or_default(), met.to_owned()]
}

/// The docs of the tree in which this was built, unless cargo runs it in a tree that was moved.
pub fn docs() -> PathBuf {
    let built =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    built.join("../../docs")
}

/// Writes the page and the page of all figures into `docs`.
pub fn write(docs: &Path, figures: &[Figure]) -> Result<(), AnyError> {
    let machine = Machine::this();
    fs::write(docs.join("performance.md"), page(figures, &machine))?;
    Ok(fs::write(docs.join("figures.md"), every_figure(figures, &machine))?)
}

/// A row of the summary: its text, and the workload, measure and case of its figures.
type Row = (&'static str, [&'static str; 3]);

const SUMMARY: [Row; 14] = [
    (
        "acquire and release, ÷ a bare pair without a fence, 1 task",
        ["uncontended", "again ÷ bare pair", "1 task"],
    ),
    ("the same, 16 tasks", ["uncontended", "again ÷ bare pair", "16 tasks"]),
    ("the same, 64 tasks", ["uncontended", "again ÷ bare pair", "64 tasks"]),
    ("the same, 256 tasks", ["uncontended", "again ÷ bare pair", "256 tasks"]),
    ("processor of the client for both, 64 tasks", ["uncontended", "client processor", "64 tasks"]),
    ("quorum of five, ÷ five bare pairs that are all awaited, 1 task", ["quorum", "ours ÷ raw", "1 task"]),
    ("the same, 64 tasks", ["quorum", "ours ÷ raw", "64 tasks"]),
    (
        "processor of the client per renewal, 100,000 guards",
        ["held", "client processor per renewal", "100000 guards"],
    ),
    ("memory of a guard", ["held", "bytes per guard", "100000 guards"]),
    ("commands per turn in a queue of 64", ["queue", "commands per turn", "64 waiters, 1 process"]),
    ("fairness of that queue (Jain index)", ["queue", "Jain index", "64 waiters, 1 process"]),
    (
        "hand-over, ÷ a round trip after a rest",
        ["hand_off", "gap p50 ÷ cold round trip", "1 ms hold, 1 ms think"],
    ),
    ("thousand locks per second, 1 task on a file", ["uncontended", "again", "1 task, on a file"]),
    ("the same, 64 tasks on a file", ["uncontended", "again", "64 tasks, on a file"]),
];

/// The backends of the summary, each with its name there.
const COLUMNS: [(&str, &str); 4] =
    [("redis-7.0", "Redis 7.0"), ("valkey-9.1", "Valkey 9.1"), ("memory", "in memory"), ("file", "file")];

/// The page: a summary, the missed targets, and all targets.
pub fn page(figures: &[Figure], machine: &Machine) -> String {
    let mut text = format!("{HEAD}{machine}\n\n");
    let names = COLUMNS.map(|(_, name)| name).join(" | ");
    let _ = writeln!(text, "| | {names} | target |\n|---|---|---|---|---|---|");
    for (what, [workload, measure, case]) in SUMMARY {
        let at = |backend| figures.iter().find(|figure| figure.parts() == [workload, backend, measure, case]);
        let all = COLUMNS.map(|(backend, _)| at(backend));
        if all.iter().all(Option::is_none) {
            continue;
        }
        let shown = all.map(|figure| figure.map_or_else(String::new, |figure| cells(figure)[0].clone()));
        let target = all.into_iter().flatten().find_map(|figure| figure.target.clone()).unwrap_or_default();
        let _ = writeln!(text, "| {what} | {} | {target} |", shown.join(" | "));
    }
    text += "\n## Missed targets\n\n";
    text += "| figure | measured | quartiles | target |\n|---|---|---|---|\n";
    for figure in figures.iter().filter(|figure| figure.met == Some(false)) {
        let [value, spread, target, _] = cells(figure);
        let _ = writeln!(text, "| {} | {value} | {spread} | {target} |", figure.name.replace('/', " · "));
    }
    // Only the tests' build still has all functions, and only its test counts these.
    for NotYet { workload, backend, measure, at_most } in NOT_YET {
        let target = TARGETS.iter().find(|target| (target.workload, target.measure) == (workload, measure));
        if let Some(target) = target.filter(|_| measure.ends_with("entered by a lock")) {
            let name = format!("{workload} · {backend} · {measure}, in the tests' build");
            let _ = writeln!(text, "| {name} | at most {at_most} |  | {} |", target.bound);
        }
    }
    text.push('\n');
    text += "## The targets and their reasons\n\nA row without a reason has that of the row above.\n\n";
    text += "| workload | measure | case | target | why |\n|---|---|---|---|---|\n";
    let mut given = "";
    for target in &TARGETS {
        let (workload, measure, case) =
            (target.workload, target.measure, target.case.unwrap_or("all others"));
        let why = if target.because == given { "" } else { target.because };
        let _ = writeln!(text, "| {workload} | {measure} | {case} | {} | {why} |", target.bound);
        given = target.because;
    }
    text
}

/// The page with every figure, one section for each workload.
pub fn every_figure(figures: &[Figure], machine: &Machine) -> String {
    let mut text = format!("{HEAD_OF_FIGURES}{machine}\n\n");
    for workload in &ALL {
        let of: Vec<_> = figures.iter().filter(|figure| figure.parts()[0] == workload.name).collect();
        if of.is_empty() {
            continue;
        }
        let _ = writeln!(text, "## {}\n\n{}\n", workload.title, workload.method);
        text += "| where | case | measure | median | quartiles | target |\n|---|---|---|---|---|---|\n";
        let mut above = ("", "");
        for figure in of {
            let [_, backend, measure, case] = figure.parts();
            // A row of the same place and case as the one above it names neither.
            let place =
                if above == (backend, case) { " | ".to_owned() } else { format!("{backend} | {case}") };
            above = (backend, case);
            let [value, spread, target, met] = cells(figure);
            let target = format!("{target} {met}");
            let _ = writeln!(text, "| {place} | {measure} | {value} | {spread} | {} |", target.trim_end());
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

const HEAD: &str = "\
# How fast it is

The first table says what Leasehold costs; the second one, where it misses its targets.
[figures.md](figures.md) has every figure with the method of each workload, [peers.md](peers.md)
compares other lock libraries, and [sizing.md](sizing.md) says how many servers you need. `cargo
xtask bench`, with `--write` or `--pages`, generates this page. To change it, change
`proving/bench`.

A figure is the median of repeated runs, with its quartiles. Runs that are compared with each other
take turns; only one warm-up each is left out, and no outlier. Times and rates depend on the machine
and on its other work. So each target on a time is set on the ratio to a bare loop in the same
process and run, with the same client. Commands, turns and bytes are counted, and are the same on
every machine.

| | |
|---|---|
| `cargo xtask bench` | everything, more than an hour |
| `cargo xtask bench queue --on valkey-9.1` | one workload at one place |
| `cargo xtask bench --json` | a line of JSON for each figure |
| `cargo xtask bench --short` | a minute; fails where a count misses its target |

";

const HEAD_OF_FIGURES: &str = "\
# All figures

This page has every figure of Leasehold's benchmarks, with a section for each workload.
[performance.md](performance.md) says how they are measured and which targets are missed; `cargo
xtask bench` generates both pages.

";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::figure::{Figures, Of, Telling};
    use crate::sample::Sample;

    fn figures() -> Vec<Figure> {
        let mut figures = Figures::new(Telling::Table);
        let valkey = Backend::named("valkey-9.1").unwrap();
        let of = |workload, case| Of { workload, backend: valkey, case };
        let ratios: Sample = [0.4, 0.5, 0.6].into_iter().collect();
        figures.add(of("uncontended", "16 tasks"), "again ÷ bare pair", "", ratios);
        figures.add(of("uncontended", "16 tasks"), "again", "k/s", 123.4);
        figures.add(of("held", "9 guards"), "bytes per guard", "B", 300.0);
        figures.all().to_vec()
    }

    fn machine() -> Machine {
        Machine { processor: "Abacus 9000".into(), threads: 2, kernel: "6.1".into() }
    }

    #[track_caller]
    fn has_in_order(page: &str, parts: &[&str]) {
        let mut rest = page;
        for part in parts {
            let at =
                rest.find(part).unwrap_or_else(|| panic!("{part:?} is missing, or too early, in:\n{page}"));
            rest = &rest[at + part.len()..];
        }
    }

    #[test]
    fn the_summary_precedes_the_missed_targets() {
        let summary = "| the same, 16 tasks |  | 0.500 |  |  | ≥ 0.95 |";
        let missed =
            "| uncontended · valkey-9.1 · again ÷ bare pair · 16 tasks | 0.500 | 0.400–0.600 | ≥ 0.95 |";
        let page = page(&figures(), &machine());
        let counted = "files entered by a lock, in the tests' build | at most 48 |  | ≤ 20 |";
        has_in_order(
            &page,
            &[
                "Abacus 9000, 2 threads, Linux 6.1",
                summary,
                "## Missed targets",
                missed,
                counted,
                "## The targets",
            ],
        );
        assert!(!page.contains("the same, 64 tasks"), "a row without figures is left out");
    }

    #[test]
    fn each_figure_is_under_its_workload() {
        let page = every_figure(&figures(), &machine());
        let own = "| valkey-9.1 | 16 tasks | again ÷ bare pair | 0.500 | 0.400–0.600 | ≥ 0.95 MISSED |";
        let met = "| valkey-9.1 | 9 guards | bytes per guard | 300 B |  | ≤ 512 met |";
        has_in_order(
            &page,
            &["## Acquiring and releasing", own, "| again | 123 k/s |", "## Many locks held", met],
        );
        assert!(!page.contains("## From one holder"), "a workload without figures has no heading");
    }

    #[test]
    fn each_row_of_the_summary_is_of_a_workload() {
        for (what, [workload, ..]) in SUMMARY {
            assert!(ALL.iter().any(|it| it.name == workload), "{what}");
        }
    }

    #[test]
    fn every_target_is_on_the_page_and_belongs_to_a_workload() {
        let page = page(&[], &machine());
        for target in &TARGETS {
            assert!(page.contains(target.because) && page.contains(&format!("| {} |", target.bound)));
            assert!(ALL.iter().any(|workload| workload.name == target.workload), "{target:?}");
        }
    }

    #[test]
    fn the_table_has_its_columns_one_under_the_other() {
        let table = table(&figures());
        let columns: Vec<_> =
            table.lines().map(|line| line.chars().position(|c| c == '≥' || c == '≤')).collect();
        assert_eq!(columns[0], columns[2], "{table}");
    }
}
