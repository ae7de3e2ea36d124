use std::sync::Arc;
use std::time::Duration;

use leasehold::Locks;

use super::closed_loop::{Competitor, How, TASKS, laps};
use super::{Bench, Workload, on_one_thread};
use crate::AnyError;
use crate::backend::Backend;
use crate::bare_sql::{BareSql, Strategy};
use crate::figure::Figures;
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
    let store = &Backend::Postgres.open();
    figures.announce("postgres");
    let bench = &mut Bench { workload: WORKLOAD.name, settings, figures, store };
    on_one_thread(async {
        let bare = Arc::new(BareSql::connect(&store.url).await?);
        let field = [
            Competitor { name: "ours", how: How::Ours(Locks::connect(&store.url).await?) },
            Competitor { name: "bare row", how: How::Sql(Arc::clone(&bare), Strategy::Row) },
            Competitor { name: "advisory lock", how: How::Sql(bare, Strategy::Advisory) },
        ];
        for (tasks, case) in TASKS.into_iter().filter(|(tasks, _)| *tasks <= 64) {
            throughput(bench, &field, tasks, case).await?;
        }
        Ok(())
    })?;
    hand_over(bench)
}

async fn throughput(
    bench: &mut Bench<'_>,
    field: &[Competitor],
    tasks: usize,
    case: &str,
) -> Result<(), AnyError> {
    let laps = laps(bench.settings, tasks, field).await?;
    let laps: Vec<_> = laps.into_iter().map(|laps| laps.speed).collect();
    for (competitor, speed) in field.iter().zip(&laps) {
        bench.add(case, competitor.name, "k/s", speed.clone());
    }
    if let [ours, row, advisory] = laps.as_slice() {
        bench.add(case, "ours ÷ bare row", "", ours.over(row));
        bench.add(case, "ours ÷ advisory lock", "", ours.over(advisory));
    }
    Ok(())
}

fn hand_over(bench: &mut Bench<'_>) -> Result<(), AnyError> {
    const PROCESSES: usize = 4;
    const CASE: &str = "1 ms hold, 1 ms think";
    let Bench { settings, store, .. } = *bench;
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
    bench.add(CASE, "gap p50 ÷ notification", "", gaps.over(&trips));
    bench.add(CASE, "gap p50", "µs", gaps);
    bench.add(CASE, "notification", "µs", trips);
    Ok(())
}
