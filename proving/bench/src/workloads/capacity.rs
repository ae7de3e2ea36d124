use std::time::Duration;

use futures_util::future::try_join_all;
use leasehold::{Guard, LockError, Locks};
use servers::Server;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::{MEMBERS, Workload, on_one_thread};
use crate::AnyError;
use crate::backend::{OpenStore, quorum_url};
use crate::figure::{Figures, Of};
use crate::settings::Settings;
use crate::vitals::Vitals;

pub(super) const WORKLOAD: Workload = Workload {
    name: "capacity",
    title: "What a lock costs a server",
    method: "\
All figures come from the server's own statistics (`INFO`): memory in use, processor time including
the kernel's, and bytes on its sockets, while only one kind of call is made.
*Alone*: 16 clients, each of which sends one command at a time in its own packet. *Together*: 64
tasks on one connection, and renewals in the keeper's batches.",
    run,
};

/// So long that nothing is renewed before the end of the measurement.
const LONG: Duration = Duration::from_secs(600);

/// One client alone would let the server sleep after each command, which costs more than the command.
const CLIENTS: usize = 16;

fn run(settings: &Settings, figures: &mut Figures) -> Result<(), AnyError> {
    // Unless servers are named, one of each make: the others would show the same.
    let all = settings.backends().count() > 2;
    for backend in settings.backends() {
        if all && ["redis-6.2", "redis-8.2"].contains(&backend.name()) {
            continue;
        }
        let store = backend.open();
        let Some(server) = store.server() else { continue };
        figures.announce(&format!("capacity on {backend}"));
        on_one_thread(async {
            let locks = Locks::connect(&store.url).await?;
            cycles(&locks, "warm", 1).await?;
            let clients = try_join_all((0..CLIENTS).map(|_| connected(&store.url))).await?;
            let mut bench = Bench { settings, figures, store: &store, server, locks, clients };
            bench.memory().await?;
            bench.pairs().await?;
            bench.renewals().await?;
            bench.waiters().await?;
            bench.hand_offs().await?;
            bench.majority().await
        })?;
    }
    Ok(())
}

struct Bench<'a> {
    settings: &'a Settings,
    figures: &'a mut Figures,
    store: &'a OpenStore,
    server: &'a Server,
    locks: Locks,
    clients: Vec<Locks>,
}

impl Bench<'_> {
    async fn memory(&mut self) -> Result<(), AnyError> {
        let count = self.settings.pick(100_000, 500);
        let empty = settled(self.server).await;
        let guards = take(&self.locks, "capacity", count, LONG).await?;
        let held = settled(self.server).await;
        release(guards).await?;
        self.add("server memory per held lock", "B", held.since(&empty).memory / count as f64);
        self.server.text(&["FLUSHALL"]);
        Ok(())
    }

    async fn pairs(&mut self) -> Result<(), AnyError> {
        let each = self.settings.pick(1_000, 20);
        let used = self.used_by(cycles_of_all(&self.clients, "alone", each)).await?;
        let per_pair = |used: f64| used / (f64::from(each) * CLIENTS as f64);
        self.add("server processor per pair, alone", "µs", per_pair(used.processor));
        self.add("bytes received per pair", "B", per_pair(used.received));
        self.add("bytes sent per pair", "B", per_pair(used.sent));
        let (tasks, each) = (64, self.settings.pick(250, 6));
        let keys: Vec<_> = (0..tasks).map(|task| format!("together:{task}")).collect();
        let together = try_join_all(keys.iter().map(|key| cycles(&self.locks, key, each)));
        let used = self.used_by(together).await?;
        self.add("server processor per pair, together", "µs", used.processor / f64::from(each * tasks));
        Ok(())
    }

    async fn renewals(&mut self) -> Result<(), AnyError> {
        let each = self.settings.pick(1_000, 20);
        let guards = one_each(&self.clients, "renewed").await?;
        let used = self.used_by(try_join_all(guards.iter().map(|guard| renew(guard, each)))).await?;
        release(guards).await?;
        let per_renewal = |used: f64| used / (f64::from(each) * CLIENTS as f64);
        self.add("server processor per renewal, alone", "µs", per_renewal(used.processor));
        self.add("bytes per renewal", "B", per_renewal(used.received + used.sent));
        // Renewed by the keeper after a third of the TTL: three times per TTL.
        let (guards, ttl) = self.settings.pick((10_000, 4_000), (2_000, 2_000));
        let ttl = Duration::from_millis(ttl);
        let guards = take(&self.locks, "kept", guards, ttl).await?;
        let extended = || self.server.calls("pexpire");
        let extended_before = extended();
        let rest = async {
            sleep(ttl).await;
            Ok(())
        };
        let used = self.used_by(rest).await?;
        let renewed = (extended() - extended_before) as f64;
        self.add("server processor per renewal, together", "µs", used.processor / renewed);
        release(guards).await?;
        self.server.text(&["FLUSHALL"]);
        Ok(())
    }

    async fn waiters(&mut self) -> Result<(), AnyError> {
        let count = self.settings.pick(4_000, 300);
        let holder = Locks::connect(&self.store.url).await?;
        let guard = holder.mutex("waited for").ttl(LONG).lock().await?;
        let before = settled(self.server).await;
        let mutex = self.locks.mutex("waited for");
        let waiting: Vec<JoinHandle<Result<Guard, LockError>>> =
            (0..count).map(|_| tokio::spawn(mutex.lock().into_future())).collect();
        while holder.inspect("waited for").await?.waiters.len() < count {
            sleep(Duration::from_millis(20)).await;
        }
        let used = settled(self.server).await.since(&before);
        self.add("server memory per waiter", "B", used.memory / count as f64);
        waiting.iter().for_each(JoinHandle::abort);
        guard.release().await?;
        self.server.text(&["FLUSHALL"]);
        Ok(())
    }

    /// Two connections with four tasks each, which all want one key and release it at once.
    async fn hand_offs(&mut self) -> Result<(), AnyError> {
        let each = self.settings.pick(500, 30);
        let other = Locks::connect(&self.store.url).await?;
        cycles(&other, "warm", 1).await?;
        let hands = [&self.locks, &other];
        let all = try_join_all((0..8).map(|n| cycles(hands[n % 2], "handed on", each)));
        let used = self.used_by(all).await?;
        self.add("server processor per hand-off", "µs", used.processor / f64::from(each * 8));
        Ok(())
    }

    async fn majority(&mut self) -> Result<(), AnyError> {
        let each = self.settings.pick(250, 10);
        let others: Vec<_> = (1..MEMBERS).map(|_| self.store.backend.open()).collect();
        let members: Vec<_> = [self.store].into_iter().chain(&others).collect();
        let servers: Vec<_> = members.iter().filter_map(|store| store.server()).collect();
        let url = quorum_url(members.iter().map(|store| &*store.url), LONG);
        let clients = try_join_all((0..CLIENTS).map(|_| Locks::connect(&url))).await?;
        cycles_of_all(&clients, "warm", 1).await?;
        let looks = || servers.iter().map(|server| Vitals::with_its_own(server)).collect::<Vec<_>>();
        let used_since = |looks: &[[Vitals; 2]]| {
            let used = servers
                .iter()
                .zip(looks)
                .map(|(server, [before, own])| Vitals::of(server).since(before).since(own).processor);
            used.sum::<f64>() / (MEMBERS as f64 * f64::from(each) * CLIENTS as f64)
        };
        let before = looks();
        cycles_of_all(&clients, "by five", each).await?;
        self.add("server processor per pair of a majority, each member", "µs", used_since(&before));
        let guards = one_each(&clients, "kept by five").await?;
        let before = looks();
        try_join_all(guards.iter().map(|guard| renew(guard, each))).await?;
        self.add("server processor per renewal of a majority, each member", "µs", used_since(&before));
        release(guards).await
    }

    /// What the server uses during this work, without what the readings themselves cost.
    async fn used_by<T>(&self, work: impl Future<Output = Result<T, AnyError>>) -> Result<Vitals, AnyError> {
        let [before, own] = Vitals::with_its_own(self.server);
        work.await?;
        Ok(Vitals::of(self.server).since(&before).since(&own))
    }

    fn add(&mut self, measure: &str, unit: &str, value: f64) {
        let of = Of { workload: WORKLOAD.name, backend: self.store.backend, case: "" };
        self.figures.add(of, measure, unit, value);
    }
}

/// A server's statistics once its memory is stable: it counts its clients' buffers only once a second.
async fn settled(server: &Server) -> Vitals {
    let mut last = Vitals::of(server);
    for _ in 0..5 {
        sleep(Duration::from_millis(1100)).await;
        let now = Vitals::of(server);
        if (now.memory - last.memory).abs() < 1000.0 {
            return now;
        }
        last = now;
    }
    last
}

async fn cycles(locks: &Locks, key: &str, count: u32) -> Result<(), AnyError> {
    let mutex = locks.mutex(key).ttl(LONG);
    for _ in 0..count {
        mutex.lock().await?.release().await?;
    }
    Ok(())
}

async fn connected(url: &str) -> Result<Locks, AnyError> {
    let locks = Locks::connect(url).await?;
    cycles(&locks, "warm", 1).await?;
    Ok(locks)
}

/// By each client, on a key of its own.
async fn cycles_of_all(clients: &[Locks], name: &str, each: u32) -> Result<(), AnyError> {
    let keys: Vec<_> = (0..clients.len()).map(|nth| format!("{name}:{nth}")).collect();
    try_join_all(clients.iter().zip(&keys).map(|(locks, key)| cycles(locks, key, each))).await?;
    Ok(())
}

async fn one_each(clients: &[Locks], name: &str) -> Result<Vec<Guard>, AnyError> {
    let asked = clients.iter().enumerate();
    let asked = asked.map(|(nth, locks)| locks.mutex(format!("{name}:{nth}")).ttl(LONG).lock().into_future());
    Ok(try_join_all(asked).await?)
}

async fn renew(guard: &Guard, times: u32) -> Result<(), AnyError> {
    for _ in 0..times {
        guard.renew(LONG).await?;
    }
    Ok(())
}

/// Acquires keys, 64 at a time.
async fn take(locks: &Locks, name: &str, count: usize, ttl: Duration) -> Result<Vec<Guard>, AnyError> {
    let mut guards = Vec::with_capacity(count);
    for first in (0..count).step_by(64) {
        let several = first..count.min(first + 64);
        let asked = several.map(|n| locks.mutex(format!("{name}:{n}")).ttl(ttl).lock().into_future());
        guards.extend(try_join_all(asked).await?);
    }
    Ok(guards)
}

async fn release(guards: Vec<Guard>) -> Result<(), AnyError> {
    let mut guards = guards.into_iter();
    loop {
        let several: Vec<_> = guards.by_ref().take(64).map(Guard::release).collect();
        if several.is_empty() {
            return Ok(());
        }
        try_join_all(several).await?;
    }
}
