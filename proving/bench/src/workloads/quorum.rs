//! An uncontended lock in five servers.

use std::time::Duration;

use leasehold::Locks;
use servers::Server;

use super::closed_loop::{Competitor, How, TASKS, laps};
use super::{Bench, MEMBERS, Workload, on_one_thread};
use crate::AnyError;
use crate::backend::{OpenStore, quorum_url};
use crate::bare::Bare;
use crate::clock;
use crate::figure::Figures;
use crate::sample::Sample;
use crate::settings::Settings;

pub(super) const WORKLOAD: Workload = Workload {
    name: "quorum",
    title: "A majority of five servers, uncontended",
    method: "\
Tasks each acquire and release their own key, on five servers of one kind. *Raw* is bare redis-rs on
the same thread: `SET NX PX` at all five at once, and, when all have answered, a compare-and-delete
at all five at once, without a fence, ids or cleanup. *One stopped* is the time from the request to
the guard while one of the five is stopped, divided by the same on five that answer; the two take
turns.",
    run,
};

/// Longer than this workload: a restarted server votes only this long after it is first seen.
const MAX_TTL: Duration = Duration::from_secs(60);

fn run(settings: &Settings, figures: &mut Figures) -> Result<(), AnyError> {
    for backend in settings.backends().filter(|backend| backend.flavor().is_some()) {
        figures.announce(&format!("quorum on {backend}"));
        let sites: Vec<_> = (0..MEMBERS).map(|_| backend.open()).collect();
        let mut bench = Bench { workload: WORKLOAD.name, settings, figures, store: &sites[0] };
        on_one_thread(async {
            for (tasks, case) in TASKS {
                if settings.pick(true, [1, 64].contains(&tasks)) {
                    beside_raw(&mut bench, &sites, tasks, case).await?;
                }
            }
            one_stopped(&mut bench, &sites).await
        })?;
    }
    Ok(())
}

/// Leasehold and the raw loop, alternating.
async fn beside_raw(
    bench: &mut Bench<'_>,
    sites: &[OpenStore],
    tasks: usize,
    case: &str,
) -> Result<(), AnyError> {
    for server in sites.iter().filter_map(OpenStore::server) {
        // Data of the previous cases would slow this case's servers down.
        server.text(&["FLUSHALL"]);
    }
    let mut raw = Vec::new();
    for store in sites {
        raw.push(Bare::connect(&store.url).await?);
    }
    let locks = locks(sites.iter()).await?;
    let field = [
        Competitor { name: "ours", how: How::Ours(locks) },
        Competitor { name: "raw", how: How::PairAtAll(raw.into()) },
    ];
    let laps = laps(bench.settings, tasks, &field).await?;
    if let [ours, raw] = laps.as_slice() {
        bench.add(case, "ours ÷ raw", "", ours.speed.over(&raw.speed));
        bench.add(case, "ours", "k/s", ours.speed.clone());
        bench.add(case, "raw", "k/s", raw.speed.clone());
        bench.add(case, "client processor", "µs", ours.processor.clone());
        bench.add(case, "client processor of raw", "µs", raw.processor.clone());
    }
    Ok(())
}

/// The time of an acquisition with one of five members stopped, relative to that with all five.
async fn one_stopped(bench: &mut Bench<'_>, sites: &[OpenStore]) -> Result<(), AnyError> {
    // A sixth server replaces the stopped one, so that the healthy quorum always has five.
    let hung = bench.store.backend.open();
    let with_hung = [&hung].into_iter().chain(&sites[1..]);
    let mut each = [Sample::default(), Sample::default()];
    let places = [locks(with_hung).await?, locks(sites.iter()).await?];
    for place in &places {
        place.mutex("warm").lock().await?.release().await?;
    }
    hung.server().into_iter().for_each(Server::stop);
    // Wait until the quorum has noticed that one member does not answer.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for place in &places {
        place.mutex("warm").lock().await?.release().await?;
    }
    for repetition in 0..bench.settings.pick(2_000, 50) {
        for n in 0..places.len() {
            let n = (n + repetition) % places.len();
            let begun = clock::now();
            let guard = places[n].mutex("k").lock().await?;
            each[n].push((clock::now() - begun) as f64 / 1e3);
            guard.release().await?;
        }
    }
    hung.server().into_iter().for_each(Server::cont);
    let [with_hung, healthy] = each;
    bench.add("", "p50 with one stopped ÷ p50 healthy", "", with_hung.median() / healthy.median());
    bench.add("", "acquisition with one stopped", "µs", with_hung);
    bench.add("", "acquisition, all healthy", "µs", healthy);
    Ok(())
}

async fn locks<'a>(sites: impl Iterator<Item = &'a OpenStore>) -> Result<Locks, AnyError> {
    let url = quorum_url(sites.map(|store| &*store.url), MAX_TTL);
    Ok(Locks::connect(&url).await?)
}
