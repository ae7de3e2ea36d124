//! A result, and the collection of results of a run.

use std::fs;
use std::path::PathBuf;

use competitor::answer;
use serde::{Deserialize, Serialize};

use crate::AnyError;
use crate::backend::Backend;
use crate::sample::Sample;
use crate::targets::{self, TARGETS, Target};

/// One figure: the median of its measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// `workload/backend/measure/case`; the case is left out if there is only one.
    pub name: String,
    /// The median.
    pub value: f64,
    /// The unit; empty for a ratio or a count.
    pub unit: String,
    /// The target, in words.
    pub target: Option<String>,
    pub met: Option<bool>,
    /// The quartiles.
    pub spread: Option<[f64; 2]>,
    /// True if a missed target fails on any machine: it is counted, and applies in this build.
    pub binding: bool,
}

impl Figure {
    /// The parts of the name: workload, backend, measure, case.
    pub fn parts(&self) -> [&str; 4] {
        let mut parts = self.name.splitn(4, '/');
        [(); 4].map(|()| parts.next().unwrap_or_default())
    }

    /// True if this figure fails a run even on a busy machine.
    pub fn fails(&self) -> bool {
        self.binding && self.met == Some(false)
    }
}

/// The form in which figures are printed as they arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// For people: progress while measuring, and a table at the end.
    Table,
    /// For programs: one line of JSON per figure, as soon as it is known.
    Json,
}

#[derive(Debug)]
pub struct Figures {
    telling: Telling,
    targets: &'static [Target],
    all: Vec<Figure>,
}

/// The subject of a figure.
#[derive(Clone, Copy, Debug)]
pub struct Of<'a> {
    pub workload: &'a str,
    pub backend: Backend,
    /// The case; empty if there is only one.
    pub case: &'a str,
}

impl Figures {
    /// An empty collection without targets.
    pub const fn new(telling: Telling) -> Self {
        Self::against(&TARGETS, telling)
    }

    /// An empty collection that checks its figures against these targets.
    pub const fn against(targets: &'static [Target], telling: Telling) -> Self {
        Self { telling, targets, all: Vec::new() }
    }

    pub fn all(&self) -> &[Figure] {
        &self.all
    }

    pub fn announce(&self, what: &str) {
        if self.telling == Telling::Table {
            eprintln!("bench: {what}");
        }
    }

    /// Adds a figure. A sample without measurements adds none.
    pub fn add(&mut self, of: Of<'_>, measure: &str, unit: &str, sample: impl Into<Sample>) {
        let sample = sample.into();
        let value = sample.median();
        if value.is_nan() {
            return;
        }
        let target = targets::among(self.targets, of.workload, measure, of.case);
        let mut name = format!("{}/{}/{measure}", of.workload, of.backend);
        if !of.case.is_empty() {
            name += "/";
            name += of.case;
        }
        let figure = Figure {
            name,
            value,
            unit: unit.to_owned(),
            target: target.map(|target| target.bound.to_string()),
            met: target.map(|target| target.bound.is_met_by(value)),
            spread: sample.spread(),
            binding: target.is_some_and(|target| target.counted)
                && !targets::passes_for_now(of.workload, of.backend.name(), measure, value),
        };
        if self.telling == Telling::Json {
            answer(&figure);
        }
        self.all.push(figure);
    }
}

/// Reads figures from earlier runs' lines of JSON. Of the same figure, the last value counts.
pub fn told(files: &[PathBuf]) -> Result<Vec<Figure>, AnyError> {
    let mut all: Vec<Figure> = Vec::new();
    for file in files {
        let name = file.display();
        let text = fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
        for (n, line) in text.lines().enumerate() {
            let figure: Figure =
                serde_json::from_str(line).map_err(|error| format!("{name}, line {}: {error}", n + 1))?;
            match all.iter_mut().find(|known| known.name == figure.name) {
                Some(known) => *known = figure,
                None => all.push(figure),
            }
        }
    }
    Ok(all)
}

/// A number rounded to three significant digits, or a whole number in full.
pub fn shown(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(backend: &str, values: &[(&str, f64)]) -> Vec<Figure> {
        let backend = Backend::named(backend).unwrap();
        let mut figures = Figures::new(Telling::Table);
        for (measure, value) in values {
            figures.add(Of { workload: "queue", backend, case: "64 waiters" }, measure, "", *value);
        }
        figures.all
    }

    #[test]
    fn a_counted_demand_that_is_missed_fails() {
        let values =
            [("inversions", 1.0), ("inversions", 0.0), ("commands while held", 9.0), ("no demand", 1.0)];
        let here: Vec<_> =
            figures("memory", &values).iter().map(|figure| (figure.met, figure.fails())).collect();
        assert_eq!(here, [(Some(false), true), (Some(true), false), (Some(false), false), (None, false)]);
    }

    #[test]
    fn a_name_has_its_four_parts_and_what_was_not_measured_has_none() {
        let made = figures("memory", &[("Jain index", 1.0), ("inversions", f64::NAN)]);
        assert_eq!(made.len(), 1);
        assert_eq!(made[0].parts(), ["queue", "memory", "Jain index", "64 waiters"]);
    }

    #[test]
    fn a_figure_is_one_line_of_json_with_what_is_demanded_of_it() {
        let line = serde_json::to_string(&figures("memory", &[("inversions", 2.0)])[0]).unwrap();
        assert_eq!(
            line,
            "{\"name\":\"queue/memory/inversions/64 waiters\",\"value\":2.0,\"unit\":\"\",\"target\":\"≤ 0\",\
             \"met\":false,\"spread\":null,\"binding\":true}"
        );
    }

    #[test]
    fn the_figure_of_the_last_run_counts() {
        let lines = |values: &[(&str, f64)]| {
            let lines = figures("memory", values);
            lines.iter().map(|figure| serde_json::to_string(figure).unwrap() + "\n").collect::<String>()
        };
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        fs::write(&one, lines(&[("inversions", 1.0), ("Jain index", 0.5)])).unwrap();
        fs::write(&other, lines(&[("inversions", 0.0)])).unwrap();
        let told = told(&[one, other.clone()]).unwrap();
        let values: Vec<_> =
            told.iter().map(|figure| (figure.parts()[2], figure.value, figure.met)).collect();
        assert_eq!(values, [("inversions", 0.0, Some(true)), ("Jain index", 0.5, Some(false))]);

        fs::write(&other, "bench: no figure\n").unwrap();
        let why = super::told(std::slice::from_ref(&other)).unwrap_err().to_string();
        assert!(why.starts_with(&format!("{}, line 1: ", other.display())), "{why}");
    }

    #[test]
    fn numbers_are_shown_with_three_digits() {
        let shown: Vec<_> = [0.01234, 0.5, 1.234, 45.67, 123.4, 30_000.0].map(shown).into();
        assert_eq!(shown, ["0.012", "0.500", "1.23", "45.7", "123", "30000"]);
    }
}
