use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold::Locks;
use servers::Flavor;

use super::{Workload, on_one_thread};
use crate::backend::{Backend, OpenStore};
use crate::bare::{Bare, Strategy};
use crate::clock;
use crate::error::AnyError;
use crate::figure::{Figures, Of};
use crate::sample::Sample;
use crate::settings::Settings;

pub(super) const WORKLOAD: Workload = Workload {
    name: "uncontended",
    title: "Acquiring and releasing without contention",
    method: "\
Tasks that share one connection each acquire and release their own key, as fast as they can: *again*
the same key, and *fresh* a key that was never used. They are compared with loops of bare redis-rs
on the same thread: a *bare pair* is `SET NX PX` and a compare-and-delete script, without a fence, a
deadline or a queue.",
    run,
};

const TASKS: [(usize, &str); 4] = [(1, "1 task"), (16, "16 tasks"), (64, "64 tasks"), (256, "256 tasks")];

fn run(settings: &Settings, figures: &mut Figures) -> Result<(), AnyError> {
    for backend in settings.backends() {
        let store = backend.open();
        figures.announce(&format!("uncontended on {backend}"));
        on_one_thread(async {
            for (tasks, case) in TASKS {
                if settings.pick(true, [1, 64].contains(&tasks)) {
                    one_case(settings, figures, &store, tasks, case).await?;
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

async fn one_case(
    settings: &Settings,
    figures: &mut Figures,
    store: &OpenStore,
    tasks: usize,
    case: &str,
) -> Result<(), AnyError> {
    if let Some(server) = store.server() {
        // Data of the previous cases would slow this case's server down.
        server.text(&["FLUSHALL"]);
    }
    let field = Competitor::field(store).await?;
    // The targets of a file are rates, because there is no bare loop for it.
    let on_a_file = format!("{case}, on a file");
    let case = if store.directory().is_some() { &on_a_file } else { case };
    let mut laps: Vec<Laps> = field.iter().map(|_| Laps::default()).collect();
    for repetition in 0..=settings.repetitions() {
        // Each competitor is first, and last, in turn.
        for n in 0..field.len() {
            let n = (n + repetition) % field.len();
            let lap = closed_loop(settings, tasks, &field[n]).await?;
            // The first repetition is a warm-up for connections, scripts and the server's memory.
            if repetition > 0 {
                laps[n].speed.push(lap.0);
                laps[n].processor.push(lap.1);
            }
        }
    }
    let of = Of { workload: WORKLOAD.name, backend: store.backend, case };
    for (competitor, laps) in field.iter().zip(&laps) {
        figures.add(of, competitor.name, "k/s", laps.speed.clone());
    }
    // In the order of `Competitor::field`.
    if let [again, fresh, pair] = laps.as_slice() {
        figures.add(of, "again ÷ bare pair", "", again.speed.over(&pair.speed));
        figures.add(of, "fresh ÷ bare pair", "", fresh.speed.over(&pair.speed));
        figures.add(of, "client processor", "µs", again.processor.clone());
        figures.add(of, "client processor of the bare pair", "µs", pair.processor.clone());
    }
    Ok(())
}

/// The results of a competitor, one per repetition.
#[derive(Default)]
struct Laps {
    /// Thousands of cycles per second.
    speed: Sample,
    /// µs of this process's processor time per cycle.
    processor: Sample,
}

#[derive(Clone)]
struct Competitor {
    name: &'static str,
    how: How,
    fresh: bool,
}

#[derive(Clone)]
enum How {
    Ours(Locks),
    Bare(Bare, Strategy),
}

impl Competitor {
    /// Leasehold, and on a server the loops that it is compared with.
    async fn field(store: &OpenStore) -> Result<Vec<Self>, AnyError> {
        let locks = Locks::connect(&store.url).await?;
        let ours = |name, fresh| Self { name, how: How::Ours(locks.clone()), fresh };
        let mut field = vec![ours("again", false), ours("fresh", true)];
        if store.server().is_some() {
            let bare = Bare::connect(store).await?;
            let bare = |name, strategy, fresh| Self { name, how: How::Bare(bare.clone(), strategy), fresh };
            field.push(bare("bare pair", Strategy::Pair, false));
        }
        Ok(field)
    }

    async fn cycle(&self, key: &str, serial: u64) -> Result<(), AnyError> {
        match &self.how {
            How::Ours(locks) => {
                locks.mutex(key).lock().await?.release().await?;
                Ok(())
            }
            How::Bare(bare, strategy) => bare.cycle(*strategy, key, serial).await,
        }
    }
}

/// The fastest known way to lock with a fence, on a key that was used before.
pub(super) fn floor(backend: Backend) -> Strategy {
    match backend.flavor() {
        Some(Flavor::Valkey91) => Strategy::FencedNative,
        _ => Strategy::FencedPair,
    }
}

/// Thousands of cycles per second, and µs of processor time per cycle.
async fn closed_loop(
    settings: &Settings,
    tasks: usize,
    competitor: &Competitor,
) -> Result<(f64, f64), AnyError> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let competitor = Arc::new(competitor.clone());
    let (begun, before) = (clock::now(), clock::processor());
    let end = begun + u64::try_from(settings.slice().as_nanos())?;
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let competitor = competitor.clone();
            tokio::spawn(async move {
                let mut key = format!("{}:{task}", competitor.name);
                let mut cycles = 0_u32;
                loop {
                    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
                    if competitor.fresh {
                        key = format!("fresh:{serial}");
                    }
                    competitor.cycle(&key, serial).await?;
                    cycles += 1;
                    if clock::now() >= end {
                        return Ok::<_, AnyError>(cycles);
                    }
                }
            })
        })
        .collect();
    let mut cycles = 0.0;
    for task in running {
        cycles += f64::from(task.await??);
    }
    let (took, used) = ((clock::now() - begun) as f64, (clock::processor() - before) as f64);
    Ok((cycles * 1e6 / took, used / cycles / 1e3))
}
