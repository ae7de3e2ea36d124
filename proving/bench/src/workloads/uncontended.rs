use leasehold::Locks;

use super::closed_loop::{Competitor, How, TASKS, laps};
use super::{Bench, Workload, on_one_thread};
use crate::AnyError;
use crate::backend::OpenStore;
use crate::bare::Bare;
use crate::figure::Figures;
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

fn run(settings: &Settings, figures: &mut Figures) -> Result<(), AnyError> {
    for backend in settings.backends() {
        let store = backend.open();
        figures.announce(&format!("uncontended on {backend}"));
        let mut bench = Bench { workload: WORKLOAD.name, settings, figures, store: &store };
        on_one_thread(async {
            for (tasks, case) in TASKS {
                if settings.pick(true, [1, 64].contains(&tasks)) {
                    one_case(&mut bench, tasks, case).await?;
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

async fn one_case(bench: &mut Bench<'_>, tasks: usize, case: &str) -> Result<(), AnyError> {
    let Bench { settings, store, .. } = *bench;
    if let Some(server) = store.server() {
        // Data of the previous cases would slow this case's server down.
        server.text(&["FLUSHALL"]);
    }
    let field = field(store).await?;
    // The targets of a file are rates, because there is no bare loop for it.
    let on_a_file = format!("{case}, on a file");
    let case = if store.backend.is_file() { &on_a_file } else { case };
    let laps = laps(settings, tasks, &field).await?;
    for (competitor, laps) in field.iter().zip(&laps) {
        bench.add(case, competitor.name, "k/s", laps.speed.clone());
    }
    // In the order of `field`.
    if let [again, fresh, pair] = laps.as_slice() {
        bench.add(case, "again ÷ bare pair", "", again.speed.over(&pair.speed));
        bench.add(case, "fresh ÷ bare pair", "", fresh.speed.over(&pair.speed));
        bench.add(case, "client processor", "µs", again.processor.clone());
        bench.add(case, "client processor of the bare pair", "µs", pair.processor.clone());
    }
    Ok(())
}

/// Leasehold, and on a server the loop that it is compared with.
async fn field(store: &OpenStore) -> Result<Vec<Competitor>, AnyError> {
    let locks = Locks::connect(&store.url).await?;
    let mut field = vec![
        Competitor { name: "again", how: How::Ours(locks.clone()) },
        Competitor { name: "fresh", how: How::OursAfresh(locks) },
    ];
    if store.server().is_some() {
        let bare = Bare::connect(&store.url).await?;
        field.push(Competitor { name: "bare pair", how: How::Pair(bare) });
    }
    Ok(field)
}
