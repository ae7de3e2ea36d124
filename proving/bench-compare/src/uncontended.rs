//! Workload: acquiring and releasing an uncontended lock.

use bench::backend::OpenStore;
use bench::figure::{Figures, Of};
use bench::sample::Sample;
use competitor::{AnyError, Order};

use crate::play::Cast;
use crate::settings::Settings;

pub const NAME: &str = "uncontended";

pub const METHOD: &str = "\
Tasks (in Python, threads) share one client in one process, and each acquires and releases its own
key as fast as it can. The ratio is to `SET NX PX` and a compare-and-delete script, sent without the
library in the same process: by redis-rs, ioredis or redis-py. On PostgreSQL it is to
`pg_try_advisory_lock` and `pg_advisory_unlock` as prepared statements of tokio-postgres, on one
connection.";

/// The numbers of tasks that share a client.
pub const TASKS: [(usize, &str); 3] = [(1, "1 task"), (16, "16 tasks"), (64, "64 tasks")];

#[derive(Default)]
struct Laps {
    library: Sample,
    bare: Sample,
}

pub fn run(settings: &Settings, figures: &mut Figures, store: &OpenStore) -> Result<(), AnyError> {
    figures.announce(&format!("{NAME} on {}", settings.backend));
    let field = &settings.competitors;
    let mut casts =
        field.iter().map(|who| Cast::start(*who, &store.url, 1)).collect::<Result<Vec<_>, AnyError>>()?;
    for (tasks, case) in TASKS {
        let mut laps: Vec<Laps> = field.iter().map(|_| Laps::default()).collect();
        for repetition in 0..=settings.repetitions() {
            // Each is first, and last, in turn.
            for n in 0..field.len() {
                let n = (n + repetition) % field.len();
                let millis = settings.slice();
                let library = casts[n].cycles(field[n], &Order::Cycle { tasks, millis })?;
                let bare = casts[n].cycles(field[n], &Order::Bare { tasks, millis })?;
                // The first repetition is a warm-up.
                if repetition > 0 {
                    laps[n].library.push(library);
                    laps[n].bare.push(bare);
                }
            }
        }
        let of = Of { workload: NAME, backend: store.backend, case };
        for (competitor, laps) in field.iter().zip(&laps) {
            figures.add(of, competitor.name(), "k/s", laps.library.clone());
            figures.add(of, &format!("{competitor} ÷ bare"), "", laps.library.over(&laps.bare));
        }
        if let Some(rslock) = field.iter().position(|who| who.name() == "rslock") {
            figures.add(of, "leasehold ÷ rslock", "", laps[0].library.over(&laps[rslock].library));
        }
    }
    Ok(())
}
