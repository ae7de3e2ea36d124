use std::time::Duration;

use super::{Bench, Workload, on_one_thread};
use crate::AnyError;
use crate::backend::OpenStore;
use crate::bare::{self, Bare};
use crate::figure::Figures;
use crate::sample::Sample;
use crate::settings::Settings;
use crate::workers::{Race, Workers};

pub(super) const WORKLOAD: Workload = Workload {
    name: "hand_off",
    title: "From one holder to the next",
    method: "\
Eight processes (on `memory` eight tasks) compete for one key. The *gap* is from the call for a
release to the next holder's guard, if that holder was already waiting; all processes read one
clock. A bare PING on an idle connection is measured in the same repetition: *cold* after 1 ms of
rest, and *hot* without. After equal rests a joining process reaches the server together with the
releasing one, and the answer to a release wakes its process before the server writes to the next
holder.",
    run,
};

const PROCESSES: usize = 8;

/// The quantiles of a gap that are figures, in per cent.
const QUANTILES: [u32; 7] = [10, 25, 50, 75, 90, 95, 99];

/// A way in which processes use the key.
struct Use {
    case: &'static str,
    hold: u64,
    think: u64,
    /// The turns of each process in one repetition, in the full and in the short form.
    each: [u32; 2],
    /// True if the gap is compared with the round trip after a rest.
    cold: bool,
}

const USES: [Use; 2] = [
    Use { case: "1 ms hold, 1 ms think", hold: 1_000, think: 1_000, each: [100, 8], cold: true },
    Use { case: "no hold, no think", hold: 0, think: 0, each: [1_000, 100], cold: false },
];

fn run(settings: &Settings, figures: &mut Figures) -> Result<(), AnyError> {
    for backend in settings.backends() {
        figures.announce(&format!("hand_off on {backend}"));
        let store = backend.open();
        let mut workers = Workers::start(&store, if backend.is_shared() { PROCESSES } else { 1 })?;
        let mut bench = Bench { workload: WORKLOAD.name, settings, figures, store: &store };
        for key_use in &USES {
            one_use(&mut bench, &mut workers, key_use)?;
        }
    }
    Ok(())
}

fn one_use(bench: &mut Bench<'_>, workers: &mut Workers, key_use: &Use) -> Result<(), AnyError> {
    let Bench { settings, store, .. } = *bench;
    let Use { case, hold, think, each: [full, short], cold } = *key_use;
    let mut quantiles = QUANTILES.map(|quantile| (quantile, Sample::default()));
    let mut trips = Sample::default();
    let race = Race { key: case, waiters: PROCESSES, each: settings.pick(full, short), hold, think };
    for repetition in 0..=settings.repetitions() {
        let trip = round_trip(settings, store, cold)?;
        let gaps = workers.take_turns(&race)?.gaps();
        // The first repetition is a warm-up.
        if repetition > 0 {
            trips.push(trip);
            for (quantile, sample) in &mut quantiles {
                sample.push(gaps.quantile(f64::from(*quantile) / 100.0));
            }
        }
    }
    let trip = if cold { "cold round trip" } else { "hot round trip" };
    for (quantile, sample) in quantiles {
        if quantile == 50 {
            bench.add(case, &format!("gap p50 ÷ {trip}"), "", sample.over(&trips));
        }
        bench.add(case, &format!("gap p{quantile}"), "µs", sample);
    }
    bench.add(case, trip, "µs", trips);
    Ok(())
}

/// The median round trip, in µs; NaN where there is no wire.
fn round_trip(settings: &Settings, store: &OpenStore, cold: bool) -> Result<f64, AnyError> {
    if store.server().is_none() {
        return Ok(f64::NAN);
    }
    let (rest, count) = if cold {
        (Duration::from_millis(1), settings.pick(200, 30))
    } else {
        (Duration::ZERO, settings.pick(2_000, 200))
    };
    on_one_thread(async {
        let bare = Bare::connect(&store.url).await?;
        let mut trips = Sample::default();
        for _ in 0..count {
            trips.push(bare::round_trip(&bare, rest).await?);
        }
        Ok(trips.median())
    })
}
