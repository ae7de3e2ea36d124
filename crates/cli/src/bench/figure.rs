//! The results as they are shown: the median of the rounds, and their spread.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::json;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Quantity {
    RoundTripRested,
    RoundTrip,
    BaselinePairs,
    Pairs,
    BaselinePairsAtOnce,
    PairsAtOnce,
    HandOff,
}

impl Quantity {
    pub(super) const ALL: [Self; 7] = [
        Self::RoundTripRested,
        Self::RoundTrip,
        Self::BaselinePairs,
        Self::Pairs,
        Self::BaselinePairsAtOnce,
        Self::PairsAtOnce,
        Self::HandOff,
    ];
}

#[derive(Debug)]
pub(super) struct Figures {
    rounds: Vec<BTreeMap<Quantity, f64>>,
    tasks: usize,
}

/// A row of the table: our result, and the baseline.
struct Row {
    figure: &'static str,
    shown: String,
    tasks: Option<usize>,
    ours: Option<Quantity>,
    baseline: Quantity,
}

#[derive(Clone, Copy, Serialize)]
enum Unit {
    #[serde(rename = "us")]
    Micros,
    #[serde(rename = "per-second")]
    PerSecond,
}

#[derive(Serialize)]
struct Line<'a> {
    figure: &'a str,
    of: &'a str,
    tasks: Option<usize>,
    /// `None` for a ratio.
    unit: Option<Unit>,
    median: f64,
    lowest: f64,
    highest: f64,
    rounds: usize,
    store: &'a str,
}

impl Figures {
    pub(super) const fn of(tasks: usize) -> Self {
        Self { rounds: Vec::new(), tasks }
    }

    pub(super) fn add(&mut self, measured: Vec<(Quantity, f64)>) {
        self.rounds.push(measured.into_iter().collect());
    }

    fn rows(&self) -> [Row; 5] {
        let row = |figure, shown: String, tasks, ours, baseline| Row { figure, shown, tasks, ours, baseline };
        let times = |figure, shown: &str, ours, baseline| row(figure, shown.into(), None, ours, baseline);
        let pairs = |tasks, shown: String, ours, baseline| {
            row("pairs", format!("pairs a second, {shown}"), Some(tasks), Some(ours), baseline)
        };
        let (several, hand_off) = (format!("{} tasks", self.tasks), Some(Quantity::HandOff));
        [
            times("round-trip-rested", "round trip, at rest before", None, Quantity::RoundTripRested),
            times("round-trip", "round trip, back to back", None, Quantity::RoundTrip),
            pairs(1, "1 task".into(), Quantity::Pairs, Quantity::BaselinePairs),
            pairs(self.tasks, several, Quantity::PairsAtOnce, Quantity::BaselinePairsAtOnce),
            times("hand-off", "hand-off, against a round trip", hand_off, Quantity::RoundTripRested),
        ]
    }

    fn values(&self, what: Quantity) -> Vec<f64> {
        self.rounds.iter().filter_map(|round| round.get(&what).copied()).collect()
    }

    /// The ratio in each round, because a disturbance of a round affects both sides.
    fn ratios(&self, ours: Quantity, baseline: Quantity) -> Vec<f64> {
        self.rounds.iter().filter_map(|round| Some(round.get(&ours)? / round.get(&baseline)?)).collect()
    }

    pub(super) fn table(&self, store: &str) -> String {
        let head = ["", "leasehold", "baseline", "leasehold ÷ baseline"].map(str::to_owned);
        let mut lines = vec![head];
        for row in self.rows() {
            let unit = Some(row.unit());
            let ours = row.ours.map(|ours| shown(self.values(ours), unit));
            let ratio = row.ours.map(|ours| shown(self.ratios(ours, row.baseline), None));
            let baseline = shown(self.values(row.baseline), unit);
            lines.push([row.shown, ours.unwrap_or_default(), baseline, ratio.unwrap_or_default()]);
        }
        let width =
            |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
        let widths = [0, 1, 2, 3].map(width);
        let mut text = format!("{store}: medians of {} rounds (lowest to highest)\n\n", self.rounds.len());
        for line in &lines {
            let [what, cells @ ..] = line;
            let mut shown = format!("{what:<width$}", width = widths[0]);
            for (cell, width) in cells.iter().zip(&widths[1..]) {
                shown += &format!("   {cell:>width$}");
            }
            text.push_str(shown.trim_end());
            text.push('\n');
        }
        text
    }

    /// The output for programs: one JSON object per line.
    pub(super) fn lines(&self, store: &str) -> String {
        let mut text = String::new();
        for row in self.rows() {
            let mut line = |of, unit, values: Vec<f64>| {
                let rounds = values.len();
                let Some(spread) = spread(values) else { return };
                // More digits would claim more precision than was measured.
                let [median, lowest, highest] = spread.map(|value| (value * 1e3).round() / 1e3);
                let (figure, tasks) = (row.figure, row.tasks);
                let line = Line { figure, of, tasks, unit, median, lowest, highest, rounds, store };
                text.push_str(&json::line(&line));
            };
            if let Some(ours) = row.ours {
                line("leasehold", Some(row.unit()), self.values(ours));
                line("ratio", None, self.ratios(ours, row.baseline));
            }
            if row.figure != "hand-off" {
                line("baseline", Some(row.unit()), self.values(row.baseline));
            }
        }
        text
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }
}

impl Row {
    const fn unit(&self) -> Unit {
        if self.tasks.is_some() { Unit::PerSecond } else { Unit::Micros }
    }
}

fn shown(values: Vec<f64>, unit: Option<Unit>) -> String {
    let Some([median, lowest, highest]) = spread(values) else { return String::new() };
    match unit {
        // Results for a near store are in microseconds, and for a distant one in milliseconds.
        Some(Unit::Micros) if median >= 10_000.0 => {
            format!("{:.1} ms ({:.1} to {:.1})", median / 1e3, lowest / 1e3, highest / 1e3)
        }
        Some(Unit::Micros) => format!("{median:.0} µs ({lowest:.0} to {highest:.0})"),
        Some(Unit::PerSecond) => format!("{} ({} to {})", grouped(median), grouped(lowest), grouped(highest)),
        None => format!("{median:.2} ({lowest:.2} to {highest:.2})"),
    }
}

/// 12,345.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        even if even.is_multiple_of(2) => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

/// The median, the lowest and the highest.
fn spread(mut values: Vec<f64>) -> Option<[f64; 3]> {
    values.sort_by(f64::total_cmp);
    let [lowest, highest] = [*values.first()?, *values.last()?];
    Some([median(values), lowest, highest])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let mut figures = Figures::of(16);
        for (nth, baseline) in [1000.0, 4000.0, 2000.0].into_iter().enumerate() {
            let of = |what: &Quantity| match what {
                Quantity::RoundTrip => 40.0 + nth as f64,
                Quantity::RoundTripRested => 100.0,
                Quantity::HandOff => 250.0,
                Quantity::Pairs => baseline * 0.5,
                Quantity::PairsAtOnce => baseline * 10.0,
                Quantity::BaselinePairs | Quantity::BaselinePairsAtOnce => baseline,
            };
            figures.add(Quantity::ALL.iter().map(|what| (*what, of(what))).collect());
        }
        figures
    }

    #[test]
    fn a_ratio_is_of_each_round_by_itself() {
        let table = figures().table("redis://h");
        let row = table.lines().find(|line| line.starts_with("pairs a second, 1 task")).unwrap();
        assert!(row.contains("1,000 (500 to 2,000)") && row.contains("2,000 (1,000 to 4,000)"), "{table}");
        assert!(row.ends_with("0.50 (0.50 to 0.50)"), "{table}");
        assert!(table.contains("20,000 (10,000 to 40,000)"), "{table}");
        assert!(table.starts_with("redis://h: medians of 3 rounds"), "{table}");
    }

    #[test]
    fn a_hand_off_is_shown_next_to_a_round_trip_and_json_has_one_figure_per_line() {
        let lines = figures().lines("redis://h");
        let lines: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 10);
        let of =
            |figure: &str, of: &str| lines.iter().find(|l| l["figure"] == figure && l["of"] == of).unwrap();
        assert_eq!(of("hand-off", "ratio")["median"], 2.5);
        assert_eq!(of("round-trip", "baseline")["highest"], 42.0);
        assert_eq!(of("pairs", "leasehold")["tasks"], 1);
        assert!(of("pairs", "ratio")["unit"].is_null());
    }

    #[test]
    fn the_middle_of_an_even_number_lies_between_two() {
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
