//! The results for people: a table, and the page docs/performance.md.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::error::AnyError;
use crate::figure::{Figure, shown};
use crate::machine::Machine;
use crate::pictures::{self, Picture};
use crate::targets::TARGETS;
use crate::workloads::ALL;

/// One line per figure, in columns.
#[must_use]
pub fn table(figures: &[Figure]) -> String {
    let row = |figure: &Figure| {
        let [value, spread, target, met] = cells(figure);
        [figure.name.clone(), value, spread, target, met]
    };
    let rows: Vec<_> = figures.iter().map(row).collect();
    let mut widths = [0; 5];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
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

/// Draws a page's plots into docs/plots. Returns those for which there were figures.
///
/// # Errors
///
/// If a plot cannot be drawn or written.
pub fn draw(docs: &Path, pictures: &[Picture], figures: &[Figure]) -> Result<Vec<Picture>, AnyError> {
    let plots = docs.join("plots");
    fs::create_dir_all(&plots)?;
    let mut drawn = Vec::new();
    for picture in pictures {
        if let Some(svg) = (picture.draw)(figures)? {
            fs::write(plots.join(picture.file), svg)?;
            drawn.push(*picture);
        }
    }
    Ok(drawn)
}

/// The Markdown that shows a plot.
#[must_use]
pub fn shown_on_a_page(picture: &Picture) -> String {
    format!("![{}](plots/{})\n\n", picture.shows, picture.file)
}

/// Writes the page and its plots into `docs`.
///
/// # Errors
///
/// As [`draw`].
pub fn write(docs: &Path, figures: &[Figure]) -> Result<(), AnyError> {
    let drawn = draw(docs, &pictures::ALL, figures)?;
    Ok(fs::write(docs.join("performance.md"), page(figures, &drawn, &Machine::this()))?)
}

/// The page.
#[must_use]
pub fn page(figures: &[Figure], pictures: &[Picture], machine: &Machine) -> String {
    let mut text = String::from(HEAD);
    let _ = writeln!(text, "{machine}\n");
    text += "## Missed targets\n\n";
    let lost: Vec<_> = figures.iter().filter(|figure| figure.met == Some(false)).collect();
    if lost.is_empty() {
        text += "No target was missed.\n\n";
    } else {
        text += "| figure | measured | quartiles | target |\n|---|---|---|---|\n";
        for figure in lost {
            let [value, spread, target, _] = cells(figure);
            let _ = writeln!(text, "| {} | {value} | {spread} | {target} |", figure.name.replace('/', " · "));
        }
        text.push('\n');
    }
    for workload in &ALL {
        let of: Vec<_> = figures.iter().filter(|figure| figure.parts()[0] == workload.name).collect();
        if of.is_empty() {
            continue;
        }
        let _ = writeln!(text, "## {}\n\n{}\n", workload.title, workload.method);
        for picture in pictures.iter().filter(|picture| picture.workload == workload.name) {
            text += &shown_on_a_page(picture);
        }
        text += "| where | case | measure | median | quartiles | target | |\n|---|---|---|---|---|---|---|\n";
        for figure in of {
            let [_, backend, measure, case] = figure.parts();
            let [value, spread, target, met] = cells(figure);
            let _ =
                writeln!(text, "| {backend} | {case} | {measure} | {value} | {spread} | {target} | {met} |");
        }
        text.push('\n');
    }
    text += "## The targets and their reasons\n\n| workload | measure | case | target | why |\n|---|---|---|---|---|\n";
    for target in &TARGETS {
        let (workload, measure, case) =
            (target.workload, target.measure, target.case.unwrap_or("all others"));
        let _ = writeln!(text, "| {workload} | {measure} | {case} | {} | {} |", target.bound, target.because);
    }
    text
}

const HEAD: &str = "\
# How fast it is

This page has every benchmark of Leasehold: first where it misses its targets, then one section for
each workload. [peers.md](peers.md) compares other lock libraries, and [sizing.md](sizing.md) says
how many servers you need. `cargo xtask bench`, with `--write` or `--pages`, generates this page.
To change it, change `proving/bench`.

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
        figures.add(of("uncontended", "16 tasks"), "again ÷ floor", "", ratios);
        figures.add(of("uncontended", "16 tasks"), "again", "k/s", 123.4);
        figures.add(of("held", "9 guards"), "bytes per guard", "B", 300.0);
        figures.all().to_vec()
    }

    fn machine() -> Machine {
        Machine { processor: "Abacus 9000".into(), threads: 2, kernel: "6.1".into() }
    }

    #[test]
    fn missed_targets_come_first_and_each_figure_is_under_its_workload() {
        let page = page(&figures(), &pictures::ALL, &machine());
        let lost = "| uncontended · valkey-9.1 · again ÷ floor · 16 tasks | 0.500 | 0.400–0.600 | ≥ 0.9 |";
        let own = "| valkey-9.1 | 16 tasks | again ÷ floor | 0.500 | 0.400–0.600 | ≥ 0.9 | MISSED |";
        let met = "| valkey-9.1 | 9 guards | bytes per guard | 300 B |  | ≤ 512 | met |";
        let order = [
            "Abacus 9000, 2 threads, Linux 6.1",
            "## Missed targets",
            lost,
            "## Acquiring and releasing",
            "](plots/throughput.svg)",
            own,
            "| again | 123 k/s |",
            "## Many locks held",
            met,
            "## The targets",
        ];
        let mut rest = &*page;
        for part in order {
            let at =
                rest.find(part).unwrap_or_else(|| panic!("{part:?} is missing, or too early, in:\n{page}"));
            rest = &rest[at + part.len()..];
        }
        assert!(!page.contains("## From one holder"), "a workload without figures has no heading");
    }

    #[test]
    fn a_page_without_losses_says_so() {
        assert!(page(&figures()[1..], &[], &machine()).contains("No target was missed."));
    }

    #[test]
    fn every_target_is_on_the_page_and_belongs_to_a_workload() {
        let page = page(&[], &[], &machine());
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
