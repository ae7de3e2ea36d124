use super::{Bench, Workload};
use crate::AnyError;
use crate::figure::Figures;
use crate::order::{Order, Report};
use crate::settings::Settings;
use crate::vitals::Vitals;
use crate::workers::Workers;

pub(super) const WORKLOAD: Workload = Workload {
    name: "held",
    title: "Many locks held and renewed",
    method: "\
One process acquires many keys and keeps them. *Bytes per guard* are live bytes by a counting
allocator, including the guard itself; on `memory` they include the store's records. *Client
processor per renewal* is the process's user and system time divided by the renewals that the server
counted, and *server time per renewal* is the time of the scripts; up to 64 renewals share one.",
    run,
};

fn run(settings: &Settings, figures: &mut Figures) -> Result<(), AnyError> {
    let guards = settings.pick(100_000, 1_000);
    let case = format!("{guards} guards");
    for backend in settings.backends() {
        figures.announce(&format!("held on {backend}"));
        let store = backend.open();
        let mut bench = Bench { workload: WORKLOAD.name, settings, figures, store: &store };
        let ttl = settings.pick(30_000, 6_000);
        let mut workers = Workers::start_weighed(&store)?;
        let Report::Weight(Some(bytes)) = workers.tell(0, &Order::Keep { guards, ttl })? else {
            return Err("bench-weighed counts nothing".into());
        };
        bench.add(&case, "bytes per guard", "B", bytes);
        drop(workers);
        if let Some(server) = store.server() {
            // Removes the guards of the process that has ended.
            server.text(&["FLUSHALL"]);
        } else if backend.is_shared() {
            drop(store);
            let store = &backend.open();
            renewals(&mut Bench { workload: WORKLOAD.name, settings, figures, store }, &case, guards, ttl)?;
            continue;
        }
        renewals(&mut bench, &case, guards, ttl)?;
    }
    Ok(())
}

/// Runs for two thirds of the TTL, in which each guard is renewed twice.
fn renewals(bench: &mut Bench<'_>, case: &str, guards: usize, ttl: u64) -> Result<(), AnyError> {
    let store = bench.store;
    let mut workers = Workers::start(store, 1)?;
    workers.tell(0, &Order::Keep { guards, ttl })?;
    let look = || store.server().map(|server| (Vitals::of(server), server.calls("pexpire")));
    let before = look();
    let Report::Kept { processor, lost } = workers.tell(0, &Order::Rest { millis: ttl * 2 / 3 })? else {
        return Err("a rest was not reported".into());
    };
    bench.add(case, "lost", "", lost as f64);
    if let Some(((after, extended), (before, extended_before))) = look().zip(before) {
        let renewed = (extended - extended_before) as f64;
        bench.add(case, "server time per renewal", "µs", after.since(&before).script_time / renewed);
        bench.add(case, "client processor per renewal", "µs", processor as f64 / 1e3 / renewed);
    }
    Ok(())
}
