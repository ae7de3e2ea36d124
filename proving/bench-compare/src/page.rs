//! The page docs/peers.md.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use bench::backend::Backend;
use bench::figure::{Figure, shown};
use bench::machine::Machine;
use competitor::AnyError;

use crate::competitors::{ALL, Competitor, Waits};
use crate::targets::TARGETS;
use crate::{hand_off, uncontended};

/// A column of a table: one figure of each competitor.
struct Column {
    title: &'static str,
    /// The measure and case of the figure, where `WHO` stands for the competitor.
    of: &'static str,
    better: Better,
}

#[derive(Clone, Copy)]
enum Better {
    More,
    Less,
}

const UNCONTENDED: [Column; 6] = [
    Column { title: "1 task, k/s", of: "WHO/1 task", better: Better::More },
    Column { title: "÷ bare, 1 task", of: "WHO ÷ bare/1 task", better: Better::More },
    Column { title: "16 tasks, k/s", of: "WHO/16 tasks", better: Better::More },
    Column { title: "÷ bare, 16 tasks", of: "WHO ÷ bare/16 tasks", better: Better::More },
    Column { title: "64 tasks, k/s", of: "WHO/64 tasks", better: Better::More },
    Column { title: "÷ bare, 64 tasks", of: "WHO ÷ bare/64 tasks", better: Better::More },
];

const HAND_OFF: [Column; 6] = [
    Column { title: "gap p50, µs", of: "gap p50/WHO", better: Better::Less },
    Column { title: "gap p99, µs", of: "gap p99/WHO", better: Better::Less },
    Column { title: "wait p99, ms", of: "wait p99/WHO", better: Better::Less },
    Column { title: "turns a second", of: "turns/WHO", better: Better::More },
    Column { title: "commands per turn", of: "commands per turn/WHO", better: Better::Less },
    Column { title: "Jain index", of: "Jain index/WHO", better: Better::More },
];

/// Both tables: the workload, its heading, its method, its columns.
const TABLES: [(&str, &str, &str, &[Column]); 2] = [
    (uncontended::NAME, "Acquiring and releasing without contention", uncontended::METHOD, &UNCONTENDED),
    (hand_off::NAME, "From one holder to the next", hand_off::METHOD, &HAND_OFF),
];

pub fn write(docs: &Path, figures: &[Figure]) -> Result<(), AnyError> {
    Ok(fs::write(docs.join("peers.md"), page(figures, &Machine::this()))?)
}

fn page(figures: &[Figure], machine: &Machine) -> String {
    let mut text = String::from(HEAD);
    let (on_server, on_database) = by_place(figures);
    let _ = writeln!(text, "{machine} The server was {}.\n", backend_of(&on_server));
    text += &competitors(figures);
    text += &losses(&[("", &on_server), (", PostgreSQL", &on_database)]);
    for (workload, title, method, columns) in TABLES {
        let _ = writeln!(text, "## {title}\n\n{method}\n");
        text += &table(&on_server, workload, columns);
        if !on_database.is_empty() {
            text += "On PostgreSQL. Advisory locks have no lease and no fence, and write nothing; ours is a row \
                     of a table, with both. The server keeps its data in memory, so no commit waits for a \
                     disk.\n\n";
            text += &table(&on_database, workload, columns);
        }
    }
    text += &demands(figures);
    text
}

fn competitors(figures: &[Figure]) -> String {
    let mut text = String::from("| library | version | language | a waiter |\n|---|---|---|---|\n");
    for who in ALL.into_iter().filter(|who| was_measured(figures, *who)) {
        let waits = match who.waits {
            Waits::Told => "is notified by the server",
            Waits::Asks => "asks again after a while",
            Waits::Never => "is refused at once, so there is no hand-off",
        };
        let _ = writeln!(text, "| {who} | {} | {} | {waits} |", who.version(), who.language());
    }
    text.push('\n');
    text
}

/// The figures of a Redis or Valkey server, and those of a database.
fn by_place(figures: &[Figure]) -> (Vec<Figure>, Vec<Figure>) {
    figures.iter().cloned().partition(|figure| figure.parts()[1] != Backend::Postgres.name())
}

fn backend_of(figures: &[Figure]) -> &str {
    figures.first().map_or("", |figure| figure.parts()[1])
}

fn losses(places: &[(&str, &[Figure])]) -> String {
    let mut text = String::from("## Where Leasehold is slower\n\n");
    let mut rows = String::new();
    for (place, figures) in places {
        for (workload, title, _, columns) in TABLES {
            for column in columns {
                let Some(ours) = find(figures, workload, column, ALL[0]) else { continue };
                for who in ALL.into_iter().skip(1) {
                    let Some(theirs) = find(figures, workload, column, who) else { continue };
                    let lost = match column.better {
                        Better::More => theirs.value > ours.value,
                        Better::Less => theirs.value < ours.value,
                    };
                    let (column, its, ours) = (column.title, cell(theirs), cell(ours));
                    // Of figures that are shown alike, neither is ahead.
                    if lost && its.split(' ').next() != ours.split(' ').next() {
                        let _ = writeln!(rows, "| {title}{place} | {column} | {who} | {its} | {ours} |");
                    }
                }
            }
        }
    }
    if rows.is_empty() {
        text += "No library is ahead in any column.\n\n";
    } else {
        let _ = writeln!(text, "| workload | figure | library | its | ours |\n|---|---|---|---|---|\n{rows}");
    }
    text
}

fn table(figures: &[Figure], workload: &str, columns: &[Column]) -> String {
    let titles: Vec<_> = columns.iter().map(|column| column.title).collect();
    let mut text = format!("| library | {} |\n|---|{}\n", titles.join(" | "), "---|".repeat(columns.len()));
    for who in ALL {
        let cells: Vec<_> = columns.iter().map(|column| find(figures, workload, column, who)).collect();
        if cells.iter().any(Option::is_some) {
            let cells: Vec<_> = cells.into_iter().map(|found| found.map_or_else(String::new, cell)).collect();
            let _ = writeln!(text, "| {who} | {} |", cells.join(" | "));
        }
    }
    text.push('\n');
    text
}

fn demands(figures: &[Figure]) -> String {
    let mut text = String::from(
        "## What is demanded of ours\n\n| workload | measure | case | measured | target | | why |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for figure in figures {
        let ([workload, _, measure, case], Some(met)) = (figure.parts(), figure.met) else { continue };
        let Some(target) = bench::targets::among(&TARGETS, workload, measure, case) else { continue };
        let met = if met { "met" } else { "MISSED" };
        let _ = writeln!(
            text,
            "| {workload} | {measure} | {case} | {} | {} | {met} | {} |",
            cell(figure),
            target.bound,
            target.because
        );
    }
    text
}

fn find<'a>(figures: &'a [Figure], workload: &str, column: &Column, who: Competitor) -> Option<&'a Figure> {
    let wanted = column.of.replace("WHO", who.name());
    figures.iter().find(|figure| {
        let [its, _, measure, case] = figure.parts();
        its == workload && format!("{measure}/{case}") == wanted
    })
}

fn was_measured(figures: &[Figure], who: Competitor) -> bool {
    TABLES.iter().any(|(workload, _, _, columns)| {
        columns.iter().any(|column| find(figures, workload, column, who).is_some())
    })
}

/// The median, and the quartiles.
fn cell(figure: &Figure) -> String {
    let spread = figure.spread.map(|[low, high]| format!(" ({}–{})", shown(low), shown(high)));
    shown(figure.value) + &spread.unwrap_or_default()
}

const HEAD: &str = "\
# How fast other lock libraries are

This page compares the speed of Leasehold with twelve other lock libraries, and says first where
Leasehold is slower. `cargo xtask bench-compare --write` generates it. To change it, change
`proving/bench-compare`.

Each library runs in its own processes, on the same server, in turns with the others. It uses its own
defaults, except for the TTL, which is 10 s for all. A figure is the median of repeated runs, with
its quartiles in brackets; only one warm-up each is left out, and no outlier. Times and rates depend
on the machine, on its other work, and on the language. So the ratio to the bare loop in the same
process shows best what a lock costs.

A comparison of speed does not compare promises. In these figures Leasehold gives each holder a
fence and each waiter a place in a queue; no other library here does both.
[comparison.md](comparison.md) compares the features, and [interop.md](interop.md) says what holds
for each library on a shared key.

| | |
|---|---|
| `cargo xtask bench-compare` | everything, about six minutes |
| `cargo xtask bench-compare rslock redis-py` | Leasehold and these |
| `cargo xtask bench-compare --on valkey-9.1` | on another server |
| `cargo xtask bench-compare --json` | a line of JSON for each figure |
| `cargo xtask bench-compare --short` | a few libraries, one minute |

";

#[cfg(test)]
mod tests {
    use super::*;
    use bench::figure::{Figures, Of, Telling};

    fn figures() -> Vec<Figure> {
        let mut figures = Figures::against(&TARGETS, Telling::Table);
        let backend = Backend::named("redis-7.0").unwrap();
        let mut add = |workload, case, measure: &str, value: f64| {
            figures.add(Of { workload, backend, case }, measure, "", value);
        };
        add("uncontended", "1 task", "leasehold", 20.0);
        add("uncontended", "1 task", "rslock", 21.5);
        add("uncontended", "1 task", "distributed-lock", 3.5);
        add("uncontended", "1 task", "leasehold ÷ rslock", 0.93);
        add("hand_off", "leasehold", "gap p50", 150.0);
        add("hand_off", "rslock", "gap p50", 90_000.0);
        add("hand_off", "leasehold", "gap p50 ÷ that of the best peer", 1.5);
        let mut add = |case, measure: &str, value: f64| {
            figures.add(Of { workload: "uncontended", backend: Backend::Postgres, case }, measure, "", value);
        };
        add("1 task", "leasehold", 5.001);
        add("1 task", "sqlx", 6.5);
        add("1 task", "distributed-lock-postgres", 5.002);
        figures.all().to_vec()
    }

    fn a_page() -> String {
        let machine = Machine { processor: "Abacus 9000".into(), threads: 2, kernel: "6.1".into() };
        page(&figures(), &machine)
    }

    #[test]
    fn a_waiter_ahead_of_ours_is_first_and_one_behind_it_is_not() {
        let page = a_page();
        let (_, rest) = page.split_once("## Where Leasehold is slower").unwrap();
        let (lost, rest) = rest.split_once("## Acquiring and releasing").unwrap();
        assert!(lost.contains("| 1 task, k/s | rslock | 21.5 | 20 |"), "{lost}");
        assert!(lost.contains("contention, PostgreSQL | 1 task, k/s | sqlx | 6.50 | 5.00 |"), "{lost}");
        // Regression: a library was ahead with 1.000, where ours was 1.000 too.
        assert!(!lost.contains("gap p50") && !lost.contains("distributed-lock"), "{lost}");
        for row in ["| rslock | 90000 |", "| leasehold | 150 |", "≥ 0.88 | met |", "≤ 1 | MISSED |"] {
            assert!(rest.contains(row), "no {row} in {rest}");
        }
    }

    #[test]
    fn only_measured_libraries_are_named_with_version_and_strategy() {
        let page = a_page();
        assert!(page.contains("| rslock | 0.10.0 | Rust | asks again after a while |"), "{page}");
        assert!(page.contains("is refused at once") && !page.contains("| pottery"), "{page}");
    }
}
