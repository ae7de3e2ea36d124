use servers::{Reply, Server};

use super::{Bench, Workload};
use crate::AnyError;
use crate::figure::Figures;
use crate::order::{Order, Report};
use crate::sample::Sample;
use crate::settings::Settings;
use crate::vitals::Vitals;
use crate::workers::{Race, Workers};

pub(super) const WORKLOAD: Workload = Workload {
    name: "waiters",
    title: "The cost of a long queue",
    method: "\
Many tasks of one process wait for one key; then each acquires it once and releases it at once.
*Server time* is the time of the scripts by the server's own statistics, including everything that
they call, while the queue empties. *Bytes per waiter* are live bytes by a counting allocator while
all are queued, less the size of as many tasks that wait for nothing; on `memory` they include the
queue itself. *Longest script among the dead*: a process is killed while 10,000 of its tasks are
queued before a living one, and then the lock is released.",
    run,
};

const COUNTS: [(usize, &str); 5] = [
    (1, "1 waiter"),
    (10, "10 waiters"),
    (100, "100 waiters"),
    (1_000, "1000 waiters"),
    (10_000, "10000 waiters"),
];

fn run(settings: &Settings, figures: &mut Figures) -> Result<(), AnyError> {
    for backend in settings.backends() {
        figures.announce(&format!("waiters on {backend}"));
        let store = &backend.open();
        let bench = &mut Bench { workload: WORKLOAD.name, settings, figures, store };
        weights(bench)?;
        if let Some(server) = store.server() {
            drains(bench, server)?;
            the_dead(bench, server)?;
        }
    }
    Ok(())
}

fn drains(bench: &mut Bench<'_>, server: &Server) -> Result<(), AnyError> {
    let Bench { settings, store, .. } = *bench;
    let mut workers = Workers::start(store, 1)?;
    let (mut at_ten, mut at_most) = (f64::NAN, f64::NAN);
    for (waiters, case) in COUNTS {
        if settings.pick(false, waiters > 1_000) {
            continue;
        }
        let mut server_time = Sample::default();
        // Enough grants at each length for equal precision, within reasonable time.
        let times = settings.pick((2_000 / waiters).clamp(3, 100), 1);
        for _ in 0..times {
            let race = Race { key: case, waiters, each: 1, hold: 0, think: 0 };
            workers.start_queue(&race)?;
            let before = Vitals::of(server);
            workers.tell(0, &Order::Yield)?;
            workers.collect()?;
            let used = Vitals::of(server).since(&before);
            server_time.push(used.script_time / used.scripts);
        }
        if waiters == 10 {
            at_ten = server_time.median();
        }
        at_most = server_time.median();
        bench.add(case, "server time", "µs per script", server_time);
    }
    if settings.pick(true, false) {
        bench.add("", "growth of server time, 10 to 10,000", "", at_most / at_ten);
    }
    Ok(())
}

fn weights(bench: &mut Bench<'_>) -> Result<(), AnyError> {
    for &(waiters, case) in bench.settings.pick(&COUNTS[3..], &COUNTS[3..4]) {
        let mut workers = Workers::start_weighed(bench.store)?;
        let key = format!("weighed {waiters}");
        let Report::Weight(Some(bytes)) = workers.tell(0, &Order::WeighWaiters { key, waiters })? else {
            return Err("bench-weighed counts nothing".into());
        };
        bench.add(case, "bytes per waiter", "B", bytes);
    }
    Ok(())
}

fn the_dead(bench: &mut Bench<'_>, server: &Server) -> Result<(), AnyError> {
    let Bench { settings, store, .. } = *bench;
    let dead = settings.pick(10_000, 1_000);
    let mut longest = Sample::default();
    // The log must contain every script longer than 0.1 ms.
    server.text(&["CONFIG", "SET", "slowlog-log-slower-than", "100"]);
    server.text(&["CONFIG", "SET", "slowlog-max-len", "100000"]);
    for repetition in 0..settings.pick(3, 1) {
        let (key, mut living, mut dying) =
            (format!("dead {repetition}"), Workers::start(store, 1)?, Workers::start(store, 1)?);
        let take = |waiters| Order::Take { key: key.clone(), waiters, each: 1, hold: 0, think: 0 };
        living.tell(0, &Order::Hold { key: key.clone() })?;
        dying.tell(0, &take(dead))?;
        living.tell(0, &Order::Queued { key: key.clone(), waiters: dead })?;
        living.tell(0, &take(1))?;
        living.tell(0, &Order::Queued { key: key.clone(), waiters: dead + 1 })?;
        drop(dying);
        server.text(&["SLOWLOG", "RESET"]);
        living.tell(0, &Order::Yield)?;
        living.collect()?;
        longest.push(longest_script(&server.text(&["SLOWLOG", "GET", "100000"])));
    }
    let case = format!("{dead} dead");
    bench.add(&case, "longest script among the dead", "ms", longest);
    Ok(())
}

/// The longest script, in ms. A script that is not in the log took less than 0.1 ms.
fn longest_script(log: &Reply) -> f64 {
    let Reply::Array(Some(entries)) = log else { return f64::NAN };
    let scripts = entries.iter().filter_map(|entry| match entry {
        Reply::Array(Some(fields)) => {
            let Reply::Array(Some(words)) = fields.get(3)? else { return None };
            let is_script = words.first()?.as_text()?.to_ascii_uppercase().starts_with("EVAL");
            is_script.then(|| fields.get(2)?.as_integer()).flatten()
        }
        _ => None,
    });
    scripts.max().map_or(0.1, |micros| micros as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_script_is_found_among_other_commands() {
        let text = |text: &str| Reply::Bulk(Some(text.into()));
        let entry = |micros, command: &str| {
            let words = Reply::Array(Some(vec![text(command), text("x")]));
            Reply::Array(Some(vec![Reply::Integer(1), Reply::Integer(2), Reply::Integer(micros), words]))
        };
        let log = [entry(900, "EVALSHA"), entry(1_500, "evalsha"), entry(7_000, "KEYS")];
        assert!((longest_script(&Reply::Array(Some(log.into()))) - 1.5).abs() < 1e-12);
        assert!((longest_script(&Reply::Array(Some(vec![]))) - 0.1).abs() < 1e-12);
    }
}
