//! Processes of this build and of an older one compete for the same lock. The older build, of which
//! `cargo xtask upgrade` passes the worker's path in the environment, has queues and quorums, but
//! no shared keys.

use std::{
    env,
    path::{Path, PathBuf},
    process, thread,
    time::Duration,
};

use faults::{
    Crowd, ParsedHistory, Plan,
    history::{EventKind, HistoryWriter, now},
    judge::{in_order, lasts, left_behind, no_gap_is_longer_than, report, slack, sound},
    until,
};
use leasehold::Locks;
use servers::{Flavor, Server};
use tempfile::TempDir;

/// The number of processes of each build.
const PROCESSES: usize = 3;

/// The most that a waiter killed in the queue costs the others, whichever build notices.
const DEAD_WAITER: Duration = Duration::from_millis(250);

/// The longest time for which a process does not ask if it hears nothing.
const RE_ASK: Duration = Duration::from_secs(5);

const SOON: Duration = Duration::from_secs(30);

struct Scene {
    servers: Vec<Server>,
    directory: TempDir,
}

impl Scene {
    fn at(flavors: &[Flavor]) -> Self {
        let servers = flavors.iter().map(|flavor| Server::start(*flavor)).collect();
        Self { servers, directory: TempDir::new().expect("a directory") }
    }

    fn plan(&self) -> Plan {
        let urls: Vec<_> = self.servers.iter().map(Server::url).collect();
        let mut plan = Plan::new(&urls.join(" "), &self.directory.path().join("history"));
        plan.tasks = 4;
        plan
    }

    /// Checks the rules of every run, after all processes have ended.
    fn is_clean(&self, name: &str, crowd: &Crowd) -> ParsedHistory {
        let parsed_history = crowd.parsed_history();
        report(name, crowd, &parsed_history);
        until("nobody holds or waits", crowd.ttl() + slack(crowd), || crowd.is_forgotten(Plan::KEY));
        for server in &self.servers {
            assert_eq!(left_behind(server), [""; 0]);
        }
        sound(&parsed_history);
        parsed_history
    }
}

fn this_one() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_worker"))
}

fn older_one() -> PathBuf {
    env::var_os("LEASEHOLD_OLDER_WORKER").expect("cargo xtask upgrade says where it is").into()
}

/// Processes of both builds compete for a while; all are served to the end.
fn of_both_builds(plan: Plan) -> Crowd {
    let mut crowd = Crowd::new(plan);
    crowd.add(this_one(), PROCESSES);
    crowd.add(&older_one(), PROCESSES);
    crowd.wait_until_all_were_served_since(0);
    thread::sleep(lasts(Duration::from_secs(3), Duration::from_secs(20)));
    crowd.wait_until_all_were_served_since(now());
    crowd.dismiss();
    crowd
}

/// All are served, again and again, in the order in which they came, and nobody waits for long.
fn share_one_queue(scene: &Scene) {
    let plan = scene.plan();
    let crowd = of_both_builds(plan);

    let parsed_history = scene.is_clean("two builds in one queue", &crowd);
    in_order(&parsed_history);
    no_gap_is_longer_than(&parsed_history, DEAD_WAITER + slack(&crowd));
}

#[test]
#[ignore = "wants an older build: cargo xtask upgrade"]
fn two_builds_share_one_queue_on_redis() {
    share_one_queue(&Scene::at(&[Flavor::Redis70]));
}

#[test]
#[ignore = "wants an older build: cargo xtask upgrade"]
fn two_builds_share_one_queue_on_valkey() {
    share_one_queue(&Scene::at(&[Flavor::Valkey91]));
}

/// As in a rolling upgrade: new processes replace old ones, one by one; the last of each is killed.
#[test]
#[ignore = "wants an older build: cargo xtask upgrade"]
fn one_build_takes_the_others_place_under_load() {
    let scene = Scene::at(&[Flavor::Redis70]);
    let plan = scene.plan();
    let mut crowd = Crowd::new(plan);
    crowd.add(&older_one(), PROCESSES);
    crowd.wait_until_all_were_served_since(0);
    for old in crowd.alive() {
        crowd.add(this_one(), 1);
        crowd.wait_until_all_were_served_since(now());
        crowd.kill(old);
    }
    crowd.wait_until_all_were_served_since(now());
    crowd.dismiss();

    let parsed_history = scene.is_clean("one build in the place of the other", &crowd);
    no_gap_is_longer_than(&parsed_history, crowd.ttl() + RE_ASK + slack(&crowd));
}

#[test]
#[ignore = "wants an older build: cargo xtask upgrade"]
fn two_builds_share_a_majority_of_three() {
    let scene = Scene::at(&[Flavor::Redis62, Flavor::Redis82, Flavor::Valkey91]);
    let mut plan = scene.plan();
    (plan.tasks, plan.hold) = (2, Duration::from_millis(2));
    let crowd = of_both_builds(plan);
    scene.is_clean("two builds in a quorum", &crowd);
}

/// Readers of this build and writers of the older one wait in the same queue.
#[test]
#[ignore = "wants an older build: cargo xtask upgrade"]
fn readers_and_an_older_build_keep_each_other_out() {
    const TURNS: u32 = 30;
    let scene = Scene::at(&[Flavor::Redis70]);
    let mut plan = scene.plan();
    (plan.tasks, plan.think) = (1, Duration::from_millis(300));
    let history = plan.history.clone();
    let mut crowd = Crowd::new(plan);
    crowd.add(&older_one(), PROCESSES);
    crowd.wait_until_all_were_served_since(0);
    let writer = HistoryWriter::at(&history).expect("the history can be written");
    let note = |what| writer.note(now(), process::id(), 1, what);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let locks = Locks::connect(&scene.servers[0].url()).await.expect("it is there");
        for _ in 0..TURNS {
            note(EventKind::Asks);
            let guard = locks.rw_lock(Plan::KEY).read().within(SOON).await.expect("readers have their turn");
            let left = u64::try_from(guard.remaining().as_nanos()).expect("no long lease");
            note(EventKind::Granted { fence: guard.fence().get(), until: now() + left });
            tokio::time::sleep(Duration::from_millis(5)).await;
            note(EventKind::LetsGo { held: guard.is_held() });
            guard.release().await.expect("held to the end");
            note(EventKind::Released);
        }
        locks.close(Duration::from_secs(3)).await.expect("all is given back");
    });
    crowd.wait_until_all_were_served_since(now());
    crowd.dismiss();
    let parsed_history = scene.is_clean("readers next to an older build", &crowd);
    let read =
        parsed_history.spans.iter().filter(|span| span.process == process::id() && span.granted.is_some());
    assert_eq!(read.count(), TURNS as usize);
}
