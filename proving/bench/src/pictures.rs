//! The plots of the page, made from its results.

use crate::AnyError;
use crate::figure::Figure;
use crate::plot::{Curve, curves};

#[derive(Clone, Copy, Debug)]
pub struct Picture {
    /// The name of its file, in docs/plots.
    pub file: &'static str,
    /// The workload whose section shows it.
    pub workload: &'static str,
    /// The alternative text.
    pub shows: &'static str,
    /// Draws it; `None` if its figures were not measured.
    pub draw: fn(&[Figure]) -> Result<Option<String>, AnyError>,
}

pub const ALL: [Picture; 3] = [
    Picture {
        file: "throughput.svg",
        workload: "uncontended",
        shows: "Thousands of cycles a second by the number of tasks: ours and the bare pair on two servers, and ours without one",
        draw: throughput,
    },
    Picture {
        file: "hand-off.svg",
        workload: "hand_off",
        shows: "The share of hand-offs that take longer than a time, by where the locks are; 1 ms hold, 1 ms think",
        draw: hand_off,
    },
    Picture {
        file: "waiters.svg",
        workload: "waiters",
        shows: "The server's time for a script by the number of waiters, on each server",
        draw: waiters,
    },
];

/// The quantiles of a gap that are figures, in per cent.
pub const QUANTILES: [u32; 7] = [10, 25, 50, 75, 90, 95, 99];

fn throughput(figures: &[Figure]) -> Result<Option<String>, AnyError> {
    let drawn = [
        ("Leasehold", "redis-7.0", "again"),
        ("bare pair", "redis-7.0", "bare pair"),
        ("Leasehold", "valkey-9.1", "again"),
        ("bare pair", "valkey-9.1", "bare pair"),
        ("Leasehold", "file", "again"),
        ("Leasehold", "memory", "again"),
    ];
    let all = drawn.map(|(who, backend, measure)| Curve {
        name: format!("{who}, {backend}"),
        points: by_count(figures, ["uncontended", backend, measure]),
    });
    curves("tasks on one connection", "thousands of cycles a second", &measured(all))
}

fn hand_off(figures: &[Figure]) -> Result<Option<String>, AnyError> {
    let of = |backend: &str| {
        let points = QUANTILES.iter().filter_map(|quantile| {
            let name = format!("hand_off/{backend}/gap p{quantile}/1 ms hold, 1 ms think");
            let figure = figures.iter().find(|figure| figure.name == name)?;
            Some((figure.value, f64::from(100 - quantile)))
        });
        Curve { name: backend.to_owned(), points: points.collect() }
    };
    let all = ["redis-7.0", "valkey-9.1", "redis-6.2", "redis-8.2", "file", "memory"].map(of);
    curves("from release to the next holder, µs", "hand-offs that take longer, %", &measured(all))
}

fn waiters(figures: &[Figure]) -> Result<Option<String>, AnyError> {
    let all = ["redis-7.0", "valkey-9.1", "redis-6.2", "redis-8.2"].map(|backend| Curve {
        name: backend.to_owned(),
        points: by_count(figures, ["waiters", backend, "server time"]),
    });
    curves("waiters", "server time for a script, µs", &measured(all))
}

/// The values of a measure by the number that its case begins with: `16 tasks`.
pub fn by_count(figures: &[Figure], [workload, backend, measure]: [&str; 3]) -> Vec<(f64, f64)> {
    let of = figures.iter().filter_map(|figure| {
        let [its_workload, its_backend, its_measure, case] = figure.parts();
        let is_it = [its_workload, its_backend, its_measure] == [workload, backend, measure];
        let count = case.split(' ').next()?.parse().ok()?;
        is_it.then_some((count, figure.value))
    });
    of.collect()
}

/// Removes curves without points.
pub fn measured(all: impl IntoIterator<Item = Curve>) -> Vec<Curve> {
    all.into_iter().filter(|curve| !curve.points.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::figure::{Figures, Of, Telling};
    use crate::workloads;

    #[test]
    fn a_picture_is_drawn_of_what_was_measured_and_no_other_is() {
        let mut figures = Figures::new(Telling::Table);
        let backend = Backend::named("redis-7.0").unwrap();
        for (count, case) in [(10.0, "10 waiters"), (1000.0, "1000 waiters")] {
            figures.add(
                Of { workload: "waiters", backend, case },
                "server time",
                "µs per script",
                count / 7.0,
            );
        }
        assert_eq!(
            by_count(figures.all(), ["waiters", "redis-7.0", "server time"]),
            [(10.0, 10.0 / 7.0), (1000.0, 1000.0 / 7.0)]
        );
        let drawn = ALL.map(|picture| (picture.draw)(figures.all()).unwrap().is_some());
        assert_eq!(drawn, [false, false, true]);
    }

    #[test]
    fn every_picture_belongs_to_a_workload() {
        for picture in ALL {
            assert!(workloads::ALL.iter().any(|workload| workload.name == picture.workload), "{picture:?}");
        }
    }
}
