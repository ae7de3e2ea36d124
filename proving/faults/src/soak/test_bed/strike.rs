//! Causes and ends faults of each kind.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _};
use servers::{Cluster, Postgres, Proxy, Reply, Server, Watched};

use super::{Database, Member, StoreUnderTest, TestBed};
use crate::{
    Plan,
    judge::vouches,
    soak::{
        fault::Kind,
        workload::{CHIEF, DOC, GPUS, MUTEX, TWO},
    },
    until,
};

/// How long to wait for a call that a fault should interrupt.
const MEETS_WITHIN: Duration = Duration::from_millis(300);

/// Half of it is longer than a call may take, and all of it is longer than a lease.
const SILENCE: Duration = Duration::from_millis(2500);

/// Shorter than the time after which a cluster's nodes consider each other dead.
const HICCUP: Duration = Duration::from_millis(1000);

/// The time limit for sentinels, whose votes may be split several times on a busy machine.
const AGREE_WITHIN: Duration = Duration::from_secs(60);

/// A requested failover takes a second or two, and is abandoned after two in each of its steps.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(8);

impl TestBed {
    /// Causes a fault; returns when it is over.
    pub(crate) fn strike(&self, kind: Kind, dice: &mut StdRng) {
        match &self.place {
            StoreUnderTest::Memory | StoreUnderTest::File => {
                unreachable!("no store that could fail by itself")
            }
            StoreUnderTest::Single(member) => member.strike(kind, SILENCE, dice),
            StoreUnderTest::Sentinel(watched) => watched_fails(watched, kind),
            StoreUnderTest::Cluster(cluster) => node_fails(cluster, kind, dice),
            StoreUnderTest::Postgres(database) => database.strike(kind, dice),
            StoreUnderTest::Quorum(members) => minority_fails(members, kind, dice),
        }
    }
}

impl Member {
    fn strike(&self, kind: Kind, most: Duration, dice: &mut StdRng) {
        wait(|| self.way.unanswered() > 0);
        if !network_fails(&self.way, kind, most, dice) {
            fails(&self.server, kind, most, dice);
        }
        self.way.heal();
    }
}

impl Database {
    fn strike(&self, kind: Kind, dice: &mut StdRng) {
        wait(|| self.way.unanswered() > 0);
        if !network_fails(&self.way, kind, SILENCE, dice) {
            self.fails(kind, dice);
        }
        self.way.heal();
    }

    fn fails(&self, kind: Kind, dice: &mut StdRng) {
        match kind {
            Kind::ClientsKilled => self.end_sessions(),
            Kind::Stopped => {
                self.server.stop();
                sleep_up_to(SILENCE, dice);
                self.server.cont();
            }
            Kind::RestartedWhole => {
                self.server.kill_9();
                sleep_up_to(SILENCE / 4, dice);
                self.server.restart();
            }
            other => unreachable!("{other} is nothing that befalls a database"),
        }
    }

    fn end_sessions(&self) {
        let all =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'leasehold'";
        let psql = Postgres::programs().expect("the server runs").join("psql");
        let done = Command::new(psql).args(["-XAtqc", all, "-d", &self.server.url()]).output();
        assert!(done.as_ref().is_ok_and(|done| done.status.success()), "{done:?}");
    }
}

/// Causes a fault of the network, if it is one; returns when it is over.
fn network_fails(way: &Proxy, kind: Kind, most: Duration, dice: &mut StdRng) -> bool {
    match kind {
        Kind::Cut => way.cut(),
        Kind::CutBefore => {
            way.black_hole();
            sleep_up_to(Duration::from_millis(100), dice);
            way.cut();
        }
        Kind::CutAfter => {
            way.mute();
            wait(|| way.unanswered() > 0);
            way.cut();
        }
        Kind::HalfOpen => {
            way.black_hole();
            sleep_up_to(most, dice);
        }
        Kind::Delayed => {
            way.slow_down(Duration::from_millis(dice.random_range(1..150)));
            sleep_up_to(most, dice);
        }
        Kind::Truncated => {
            if dice.random() {
                way.break_off_request();
            } else {
                way.break_off_answer();
            }
            wait(|| !way.is_to_break_off());
        }
        _ => return false,
    }
    true
}

fn fails(server: &Server, kind: Kind, most: Duration, dice: &mut StdRng) {
    match kind {
        Kind::ClientsKilled => kill_clients(server),
        Kind::ScriptsFlushed => drop(server.text(&["SCRIPT", "FLUSH"])),
        Kind::Paused => {
            let pause = most.mul_f64(dice.random());
            server.text(&["CLIENT", "PAUSE", &pause.as_millis().to_string(), "ALL"]);
            thread::sleep(pause);
        }
        Kind::Stopped => {
            server.stop();
            sleep_up_to(most, dice);
            server.cont();
        }
        Kind::Flushed => drop(server.text(&["FLUSHALL"])),
        Kind::RestartedWhole | Kind::RestartedEmpty => {
            server.kill_9();
            sleep_up_to(most / 4, dice);
            server.restart();
        }
        other => unreachable!("{other} is nothing that befalls a server alone"),
    }
}

/// Closes the connections of all clients but sentinels, which would replace the master.
fn kill_clients(server: &Server) {
    for which in ["normal", "pubsub"] {
        let listed = server.text(&["CLIENT", "LIST", "TYPE", which]);
        let listed = listed.as_text().expect("a list of clients");
        for client in listed.lines().filter(|client| !client.contains(" name=sentinel-")) {
            let id = client.strip_prefix("id=").and_then(|rest| rest.split(' ').next()).expect("an id");
            drop(server.text(&["CLIENT", "KILL", "ID", id]));
        }
    }
}

fn watched_fails(watched: &Watched, kind: Kind) {
    let master = watched.master_by(0);
    let server = &watched.servers[master];
    match kind {
        Kind::FailoverKilled => server.kill_9(),
        Kind::FailoverHung => server.stop(),
        Kind::FailoverOrdered => watched.fail_over(),
        // Only faults that take no time: otherwise the sentinels would replace the master.
        _ => return fails(server, kind, Duration::ZERO, &mut rand::SeedableRng::seed_from_u64(0)),
    }
    let mut ordered = Instant::now();
    until("the sentinels have replaced it", AGREE_WITHIN, || {
        let replaced = (0..watched.sentinels.len()).all(|sentinel| watched.master_by(sentinel) != master);
        // The sentinels may have abandoned the failover because the replica was slow.
        if !replaced && kind == Kind::FailoverOrdered && ordered.elapsed() > GIVEN_UP_AFTER {
            let _ = watched.try_fail_over();
            ordered = Instant::now();
        }
        replaced
    });
    match kind {
        Kind::FailoverKilled => server.restart(),
        Kind::FailoverHung => server.cont(),
        _ => {}
    }
    watched.until_ready();
}

fn node_fails(cluster: &Cluster, kind: Kind, dice: &mut StdRng) {
    if kind == Kind::SlotMoved {
        let [a, _] = TWO;
        let keys = [MUTEX, a, DOC, GPUS, CHIEF];
        let key = keys.choose(dice).expect("some");
        let slot = cluster.nodes()[0].text(&["CLUSTER", "KEYSLOT", key]).as_integer();
        let slot = slot.and_then(|slot| u16::try_from(slot).ok()).expect("a slot");
        return cluster.hand_over(slot, cluster.other(slot));
    }
    fails(cluster.nodes().choose(dice).expect("some"), kind, HICCUP, dice);
    cluster.wait_until("the cluster serves", || {
        cluster.nodes().iter().all(|node| {
            let info = node.connect().and_then(|mut connection| connection.text(&["CLUSTER", "INFO"]));
            info.is_ok_and(|info| info.as_text().is_some_and(|text| text.contains("cluster_state:ok")))
        })
    });
}

/// Causes the same fault at fewer than half, and waits until all that forgot something count again.
fn minority_fails(members: &[Member], kind: Kind, dice: &mut StdRng) {
    let count = dice.random_range(1..=(members.len() - 1) / 2);
    let struck: Vec<_> = members.sample(dice, count).collect();
    thread::scope(|scope| {
        for member in &struck {
            let mut dice = rand::SeedableRng::seed_from_u64(dice.random());
            scope.spawn(move || member.strike(kind, SILENCE, &mut dice));
        }
    });
    if kind.loses_state() {
        // It abstains for the longest TTL and a second, counted from the first request to it.
        until("it counts again", 3 * Plan::MAX_TTL, || struck.iter().all(|member| vouches(&member.server)));
    }
}

fn sleep_up_to(most: Duration, dice: &mut StdRng) {
    thread::sleep(most.mul_f64(dice.random()));
}

/// Waits for a condition that need not come true.
fn wait(mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() && begun.elapsed() < MEETS_WITHIN {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Drops an expected reply. An answer to another question would otherwise go unnoticed.
fn drop(reply: Reply) {
    assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
}
