use super::Workload;
use crate::AnyError;
use crate::backend::OpenStore;
use crate::figure::{Figures, Of};
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
        let of = Of { workload: WORKLOAD.name, backend, case: &case };
        let ttl = settings.pick(30_000, 6_000);
        let mut workers = Workers::start_weighed(&store)?;
        let Report::Weight(Some(bytes)) = workers.tell(0, &Order::Keep { guards, ttl })? else {
            return Err("bench-weighed counts nothing".into());
        };
        figures.add(of, "bytes per guard", "B", bytes);
        drop(workers);
        if let Some(server) = store.server() {
            // Removes the guards of the process that has ended.
            server.text(&["FLUSHALL"]);
        } else if backend.is_shared() {
            drop(store);
            renewals(figures, of, &backend.open(), guards, ttl)?;
            continue;
        }
        renewals(figures, of, &store, guards, ttl)?;
    }
    Ok(())
}

/// Runs for two thirds of the TTL, in which each guard is renewed twice.
fn renewals(
    figures: &mut Figures,
    of: Of<'_>,
    store: &OpenStore,
    guards: usize,
    ttl: u64,
) -> Result<(), AnyError> {
    let mut workers = Workers::start(store, 1)?;
    workers.tell(0, &Order::Keep { guards, ttl })?;
    let look = || store.server().map(|server| (Vitals::of(server), server.calls("pexpire")));
    let before = look();
    let Report::Kept { processor, lost } = workers.tell(0, &Order::Rest { millis: ttl * 2 / 3 })? else {
        return Err("a rest was not reported".into());
    };
    figures.add(of, "lost", "", lost as f64);
    if let Some(((after, extended), (before, extended_before))) = look().zip(before) {
        let renewed = (extended - extended_before) as f64;
        figures.add(of, "server time per renewal", "µs", after.since(&before).script_time / renewed);
        figures.add(of, "client processor per renewal", "µs", processor as f64 / 1e3 / renewed);
    }
    Ok(())
}
