//! Processes of this build and of an older one at the same servers, for the same lock.
//!
//! The older one knows the line and quorums, and nothing of keys that several hold together. Where
//! its worker is says the environment: `cargo xtask upgrade` builds it from the history, and runs
//! these.

use std::{
    env,
    path::{Path, PathBuf},
    process, thread,
    time::Duration,
};

use faults::{
    Account, Crowd, Plan,
    history::{Pen, What, now},
    judge::{lasts, left_behind, longer_than, report, slack, sound},
    until,
};
use leasehold::Locks;
use servers::{Flavor, Server};
use tempfile::TempDir;

/// Of each build.
const PROCESSES: usize = 3;

/// Whoever is killed in line costs the others this much at most, whichever build finds out.
const DEAD_WAITER: Duration = Duration::from_millis(250);

/// How long a process goes without asking at most, when it hears nothing.
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

    /// What must hold however it went, when all have gone.
    fn is_clean(&self, name: &str, crowd: &Crowd, ttl: Duration) -> Account {
        let account = crowd.account();
        report(name, crowd, &account);
        until("nobody holds or waits", ttl + slack(crowd), || crowd.is_forgotten());
        for server in &self.servers {
            assert_eq!(left_behind(server), [""; 0]);
        }
        sound(&account);
        account
    }
}

fn this_one() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_worker"))
}

fn older_one() -> PathBuf {
    env::var_os("LEASEHOLD_OLDER_WORKER").expect("cargo xtask upgrade says where it is").into()
}

/// Processes of both builds contend for a while, all of them are served to the end, and then they
/// go.
fn of_both_builds(plan: Plan) -> Crowd {
    let mut crowd = Crowd::new(plan);
    crowd.add(this_one(), PROCESSES);
    crowd.add(&older_one(), PROCESSES);
    crowd.wait_until_all_were_served_since(0, SOON);
    thread::sleep(lasts(Duration::from_secs(3), Duration::from_secs(20)));
    crowd.wait_until_all_were_served_since(now(), SOON);
    crowd.dismiss();
    crowd
}

/// Everybody is served, again and again, in the order in which they came, and nobody waits for
/// long.
fn stand_in_line_together(scene: &Scene) {
    let plan = scene.plan();
    let ttl = plan.ttl;
    let crowd = of_both_builds(plan);

    let account = scene.is_clean("two builds in line", &crowd, ttl);
    if let Some((one, other)) = account.overtaken().first() {
        panic!("overtaken:\n{one}\n{other}");
    }
    let long = longer_than(&account, DEAD_WAITER + slack(&crowd));
    assert!(long.is_empty(), "{}", long[0]);
}

#[test]
#[ignore = "wants an older build: cargo xtask upgrade"]
fn two_builds_stand_in_one_line_at_a_redis() {
    stand_in_line_together(&Scene::at(&[Flavor::Redis70]));
}

#[test]
#[ignore = "wants an older build: cargo xtask upgrade"]
fn two_builds_stand_in_one_line_at_a_valkey() {
    stand_in_line_together(&Scene::at(&[Flavor::Valkey91]));
}

/// As in a rolling upgrade: one after the other goes, and one of the new build comes in its place;
/// the last of each is killed.
#[test]
#[ignore = "wants an older build: cargo xtask upgrade"]
fn one_build_takes_the_others_place_under_load() {
    let scene = Scene::at(&[Flavor::Redis70]);
    let plan = scene.plan();
    let ttl = plan.ttl;
    let mut crowd = Crowd::new(plan);
    crowd.add(&older_one(), PROCESSES);
    crowd.wait_until_all_were_served_since(0, SOON);
    for old in crowd.alive() {
        crowd.add(this_one(), 1);
        crowd.wait_until_all_were_served_since(now(), SOON);
        crowd.kill(old);
    }
    crowd.wait_until_all_were_served_since(now(), SOON);
    crowd.dismiss();

    let account = scene.is_clean("one build in the place of the other", &crowd, ttl);
    let long = longer_than(&account, ttl + RE_ASK + slack(&crowd));
    assert!(long.is_empty(), "{}", long[0]);
}

#[test]
#[ignore = "wants an older build: cargo xtask upgrade"]
fn two_builds_share_a_majority_of_three() {
    let scene = Scene::at(&[Flavor::Redis62, Flavor::Redis82, Flavor::Valkey91]);
    let mut plan = scene.plan();
    (plan.tasks, plan.hold) = (2, Duration::from_millis(2));
    let ttl = plan.ttl;
    let crowd = of_both_builds(plan);
    scene.is_clean("two builds in a quorum", &crowd, ttl);
}

/// The older build knows no readers: what stands at the key then is somebody else's lock to it,
/// which it waits for. And it takes a reader that waits for one that is gone; so readers come in
/// when nobody of that build hands the key on.
#[test]
#[ignore = "wants an older build: cargo xtask upgrade"]
fn readers_and_an_older_build_keep_each_other_out() {
    const TURNS: u32 = 30;
    let scene = Scene::at(&[Flavor::Redis70]);
    let mut plan = scene.plan();
    (plan.tasks, plan.think) = (1, Duration::from_millis(300));
    let (ttl, history) = (plan.ttl, plan.history.clone());
    let mut crowd = Crowd::new(plan);
    crowd.add(&older_one(), PROCESSES);
    crowd.wait_until_all_were_served_since(0, SOON);
    let pen = Pen::at(&history).expect("the history can be written");
    let note = |what| pen.note(now(), process::id(), 1, what);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let locks = Locks::connect(&scene.servers[0].url()).await.expect("it is there");
        for _ in 0..TURNS {
            note(What::Asks);
            let guard = locks.rw_lock(Plan::KEY).read().within(SOON).await.expect("readers have their turn");
            let left = u64::try_from(guard.remaining().as_nanos()).expect("no long lease");
            note(What::Granted { fence: guard.fence().get(), until: now() + left });
            tokio::time::sleep(Duration::from_millis(5)).await;
            note(What::LetsGo { held: guard.is_held() });
            guard.release().await.expect("held to the end");
            note(What::Released);
        }
        locks.close(Duration::from_secs(3)).await.expect("all is given back");
    });
    // A marker goes without a word to those who take it for another program's lock.
    crowd.wait_until_all_were_served_since(now(), SOON);
    crowd.dismiss();
    let account = scene.is_clean("readers beside an older build", &crowd, ttl);
    let read = account.stays.iter().filter(|stay| stay.process == process::id() && stay.granted.is_some());
    assert_eq!(read.count(), TURNS as usize);
}
