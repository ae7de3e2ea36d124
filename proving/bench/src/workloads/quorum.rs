//! An uncontended lock in five servers.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{AnyStore, Locks};
use servers::Server;
use tokio::task::JoinSet;

use super::{MEMBERS, Workload, on_one_thread};
use crate::backend::{Backend, OpenStore};
use crate::bare::Bare;
use crate::clock;
use crate::error::AnyError;
use crate::figure::{Figures, Of};
use crate::sample::Sample;
use crate::settings::Settings;

pub(super) const WORKLOAD: Workload = Workload {
    name: "quorum",
    title: "A majority of five servers, uncontended",
    method: "\
Tasks each acquire and release their own key, on five servers of one kind. *Raw* is bare redis-rs on
the same thread: `SET NX PX` at all five at once, and, when all have answered, a compare-and-delete
at all five at once, without a fence, ids or cleanup. *Fenced raw* is the same with the smallest
script that gives a fence, instead of `SET`. *One stopped* is the time from the request to the guard
while one of the five is stopped, divided by the same on five that answer; the two take turns.",
    run,
};

const TASKS: [(usize, &str); 4] = [(1, "1 task"), (16, "16 tasks"), (64, "64 tasks"), (256, "256 tasks")];

/// Longer than this workload takes. A restarted server votes only after this time, which starts
/// when it is first seen.
const MAX_TTL: Duration = Duration::from_secs(60);

fn run(settings: &Settings, figures: &mut Figures) -> Result<(), AnyError> {
    for backend in settings.backends().filter(|backend| backend.flavor().is_some()) {
        figures.announce(&format!("quorum on {backend}"));
        let sites: Vec<_> = (0..MEMBERS).map(|_| backend.open()).collect();
        on_one_thread(async {
            for (tasks, case) in TASKS {
                if settings.pick(true, [1, 64].contains(&tasks)) {
                    let of = Of { workload: WORKLOAD.name, backend, case };
                    beside_raw(settings, figures, &sites, tasks, of).await?;
                }
            }
            one_stopped(settings, figures, backend, &sites).await
        })?;
    }
    Ok(())
}

/// Leasehold and the raw loop, alternating.
async fn beside_raw(
    settings: &Settings,
    figures: &mut Figures,
    sites: &[OpenStore],
    tasks: usize,
    of: Of<'_>,
) -> Result<(), AnyError> {
    for server in sites.iter().filter_map(OpenStore::server) {
        // Data of the previous cases would slow this case's servers down.
        server.text(&["FLUSHALL"]);
    }
    let mut raw = Vec::new();
    for store in sites {
        raw.push(Bare::connect(store).await?);
    }
    let raw: Arc<[_]> = raw.into();
    let competitors = [
        Competitor::Ours(locks(sites.iter().filter_map(OpenStore::server))?),
        Competitor::Raw(raw.clone()),
        Competitor::FencedRaw(raw),
    ];
    let mut laps: [Laps; 3] = Default::default();
    for repetition in 0..=settings.repetitions() {
        // Each competitor is first in turn.
        for n in 0..competitors.len() {
            let n = (n + repetition) % competitors.len();
            let (speed, processor) = closed_loop(settings, tasks, &competitors[n]).await?;
            // The first repetition is a warm-up for connections, scripts and the servers' memory.
            if repetition > 0 {
                laps[n].speed.push(speed);
                laps[n].processor.push(processor);
            }
        }
    }
    let [ours, raw, fenced] = laps;
    figures.add(of, "ours ÷ raw", "", ours.speed.over(&raw.speed));
    figures.add(of, "ours ÷ fenced raw", "", ours.speed.over(&fenced.speed));
    figures.add(of, "ours", "k/s", ours.speed);
    figures.add(of, "raw", "k/s", raw.speed);
    figures.add(of, "fenced raw", "k/s", fenced.speed);
    figures.add(of, "client processor", "µs", ours.processor);
    figures.add(of, "client processor of raw", "µs", raw.processor);
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
enum Competitor {
    Ours(Locks),
    Raw(Arc<[Bare]>),
    FencedRaw(Arc<[Bare]>),
}

impl Competitor {
    /// A key per competitor: Leasehold's releases to the slowest members may still be under way,
    /// and must not delay the raw loop.
    fn key(&self, task: usize) -> String {
        match self {
            Self::Ours(_) => format!("ours:{task}"),
            Self::Raw(_) => format!("raw:{task}"),
            Self::FencedRaw(_) => format!("fenced:{task}"),
        }
    }

    async fn cycle(&self, key: &str, serial: u64) -> Result<(), AnyError> {
        match self {
            Self::Ours(locks) => {
                locks.mutex(key).lock().await?.release().await?;
                Ok(())
            }
            Self::Raw(members) => Bare::cycle_at_all(members, false, key, serial).await,
            Self::FencedRaw(members) => Bare::cycle_at_all(members, true, key, serial).await,
        }
    }
}

/// Thousands of cycles per second, and µs of processor time per cycle.
async fn closed_loop(
    settings: &Settings,
    tasks: usize,
    competitor: &Competitor,
) -> Result<(f64, f64), AnyError> {
    let (begun, before) = (clock::now(), clock::processor());
    let end = begun + u64::try_from(settings.slice().as_nanos())?;
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (competitor, key) = (competitor.clone(), competitor.key(task));
        running.spawn(async move {
            let mut cycles = 0_u32;
            loop {
                competitor.cycle(&key, u64::from(cycles)).await?;
                cycles += 1;
                if clock::now() >= end {
                    return Ok::<_, AnyError>(cycles);
                }
            }
        });
    }
    let mut cycles = 0.0;
    while let Some(task) = running.join_next().await {
        cycles += f64::from(task??);
    }
    let (took, used) = ((clock::now() - begun) as f64, (clock::processor() - before) as f64);
    Ok((cycles * 1e6 / took, used / cycles / 1e3))
}

/// The time of an acquisition with one of five members stopped, divided by the time with five that
/// answer.
async fn one_stopped(
    settings: &Settings,
    figures: &mut Figures,
    backend: Backend,
    sites: &[OpenStore],
) -> Result<(), AnyError> {
    // A sixth server replaces the stopped one, so that the healthy quorum always has five.
    let hung = backend.open();
    let servers: Vec<&Server> = sites.iter().filter_map(OpenStore::server).collect();
    let stopped = hung.server().into_iter();
    let with_hung = stopped.chain(servers.iter().copied().skip(1));
    let mut each = [Sample::default(), Sample::default()];
    let places = [locks(with_hung)?, locks(servers.iter().copied())?];
    for place in &places {
        place.mutex("warm").lock().await?.release().await?;
    }
    hung.server().into_iter().for_each(Server::stop);
    // Wait until the quorum has noticed that one member does not answer.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for place in &places {
        place.mutex("warm").lock().await?.release().await?;
    }
    for repetition in 0..settings.pick(2_000, 50) {
        for n in 0..places.len() {
            let n = (n + repetition) % places.len();
            let begun = clock::now();
            let guard = places[n].mutex("k").lock().await?;
            each[n].push((clock::now() - begun) as f64 / 1e3);
            guard.release().await?;
        }
    }
    hung.server().into_iter().for_each(Server::cont);
    let of = Of { workload: WORKLOAD.name, backend, case: "" };
    let [with_hung, healthy] = each;
    figures.add(of, "p50 with one stopped ÷ p50 healthy", "", with_hung.median() / healthy.median());
    figures.add(of, "acquisition with one stopped", "µs", with_hung);
    figures.add(of, "acquisition, all healthy", "µs", healthy);
    Ok(())
}

fn locks<'a>(servers: impl Iterator<Item = &'a Server>) -> Result<Locks, AnyError> {
    let stores: Result<Vec<_>, _> =
        servers.map(|server| AnyStore::from_url(&format!("{}?quarantine=no", server.url()))).collect();
    Ok(Locks::builder().quorum(stores?, MAX_TTL)?)
}
