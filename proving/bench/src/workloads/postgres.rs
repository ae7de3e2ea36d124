use std::sync::Arc;
use std::time::Duration;

use leasehold::Locks;

use super::closed_loop::{Competitor, How, TASKS, laps};
use super::{Workload, on_one_thread};
use crate::AnyError;
use crate::backend::{Backend, OpenStore};
use crate::bare_sql::{BareSql, Strategy};
use crate::figure::{Figures, Of};
use crate::sample::Sample;
use crate::settings::Settings;
use crate::workers::{Race, Workers};

pub(super) const WORKLOAD: Workload = Workload {
    name: "postgres",
    title: "Locks in a PostgreSQL database",
    method: "\
Tasks that share one connection each acquire and release their own key. *Bare row* is the minimum
for leases in a table, in the same process and also on one connection: a statement that acquires a
row and raises its fence, and one that releases it, both sent unprepared, as a pooler requires.
*Advisory lock* is `pg_try_advisory_lock` and `pg_advisory_unlock`, which have no lease and no fence
and write nothing. The *gap* is from the call for a release to the next holder's guard, among four
processes that hold the key for 1 ms; a bare *notification* is from sending `NOTIFY` to its arrival
on another connection, after 1 ms of rest. The server writes to memory, so a commit waits for no
disk, and the figures show the cost of the statements.",
    run,
};

fn run(settings: &Settings, figures: &mut Figures) -> Result<(), AnyError> {
    let store = Backend::Postgres.open();
    figures.announce("postgres");
    on_one_thread(async {
        let bare = Arc::new(BareSql::connect(&store.url).await?);
        let field = [
            Competitor { name: "ours", how: How::Ours(Locks::connect(&store.url).await?) },
            Competitor { name: "bare row", how: How::Sql(Arc::clone(&bare), Strategy::Row) },
            Competitor { name: "advisory lock", how: How::Sql(bare, Strategy::Advisory) },
        ];
        for (tasks, case) in TASKS.into_iter().filter(|(tasks, _)| *tasks <= 64) {
            throughput(settings, figures, &field, tasks, case).await?;
        }
        Ok(())
    })?;
    hand_over(settings, figures, &store)
}

async fn throughput(
    settings: &Settings,
    figures: &mut Figures,
    field: &[Competitor],
    tasks: usize,
    case: &str,
) -> Result<(), AnyError> {
    let laps: Vec<_> = laps(settings, tasks, field).await?.into_iter().map(|laps| laps.speed).collect();
    let of = Of { workload: WORKLOAD.name, backend: Backend::Postgres, case };
    for (competitor, speed) in field.iter().zip(&laps) {
        figures.add(of, competitor.name, "k/s", speed.clone());
    }
    if let [ours, row, advisory] = laps.as_slice() {
        figures.add(of, "ours ÷ bare row", "", ours.over(row));
        figures.add(of, "ours ÷ advisory lock", "", ours.over(advisory));
    }
    Ok(())
}

fn hand_over(settings: &Settings, figures: &mut Figures, store: &OpenStore) -> Result<(), AnyError> {
    const PROCESSES: usize = 4;
    let mut workers = Workers::start(store, PROCESSES)?;
    let each = settings.pick(100, 8);
    let race = Race { key: "wanted", waiters: PROCESSES, each, hold: 1_000, think: 1_000 };
    let [mut gaps, mut trips] = [(); 2].map(|()| Sample::default());
    for repetition in 0..=settings.repetitions() {
        let bare = on_one_thread(BareSql::notifications(&store.url, Duration::from_millis(1), 2 * each))?;
        let gap = workers.take_turns(&race)?.gaps().median();
        // The first repetition is a warm-up.
        if repetition > 0 {
            trips.push(bare.into_iter().collect::<Sample>().median());
            gaps.push(gap);
        }
    }
    let of = Of { workload: WORKLOAD.name, backend: Backend::Postgres, case: "1 ms hold, 1 ms think" };
    figures.add(of, "gap p50 ÷ notification", "", gaps.over(&trips));
    figures.add(of, "gap p50", "µs", gaps);
    figures.add(of, "notification", "µs", trips);
    Ok(())
}
