//! Where it takes place, and what must hold however it went.

use std::{
    env,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use faults::{Account, Crowd, Handover, Plan, until};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use servers::{Flavor, Reply, Server};
use tempfile::TempDir;

/// What a machine that is busy with other things may add to any bound, also one that leaves nobody without a turn for long.
const BUSY: Duration = Duration::from_millis(750);

/// A dead waiter costs the line this much at most.
pub(crate) const DEAD_WAITER: Duration = Duration::from_millis(250);

/// A dead holder costs it this much more than the lease.
pub(crate) const DEAD_HOLDER: Duration = Duration::from_secs(1);

/// How long a lock that was handed over may remain unclaimed.
pub(crate) const WINDOW: Duration = Duration::from_secs(2);

/// How long a process goes without asking at most, when it hears nothing.
pub(crate) const RE_ASK: Duration = Duration::from_secs(5);

/// What the machine may have added to any bound in this run.
pub(crate) fn slack(crowd: &Crowd) -> Duration {
    // Of an exchange each of the two may have been left without a turn.
    BUSY + 2 * crowd.longest_stall()
}

/// A store, and a directory for the history.
pub(crate) struct Scene {
    pub(crate) server: Option<Server>,
    pub(crate) url: String,
    pub(crate) directory: TempDir,
}

impl Scene {
    pub(crate) fn on(flavor: Flavor) -> Self {
        let server = Server::start(flavor);
        let url = server.url();
        Self { server: Some(server), url, directory: TempDir::new().unwrap() }
    }

    /// Where the servers belong to somebody else.
    pub(crate) fn under(url: String) -> Self {
        Self { server: None, url, directory: TempDir::new().unwrap() }
    }

    pub(crate) fn on_a_file() -> Self {
        let directory = TempDir::new().unwrap();
        let url = format!("file:{}", directory.path().join("leases.db").display());
        Self { server: None, url, directory }
    }

    pub(crate) fn plan(&self) -> Plan {
        Plan::new(&self.url, &self.history())
    }

    fn history(&self) -> PathBuf {
        self.directory.path().join("history")
    }

    /// What must hold of every run, when all are gone and have let go.
    pub(crate) fn is_clean(&self, crowd: &Crowd, account: &Account, ttl: Duration) {
        self.is_forgotten(crowd, ttl);
        sound(account);
    }

    /// Nothing is left of holders and waiters.
    pub(crate) fn is_forgotten(&self, crowd: &Crowd, ttl: Duration) {
        until("nobody holds or waits", ttl + slack(crowd), || crowd.is_forgotten());
        if let Some(server) = &self.server {
            only_fences_are_left(server);
        }
    }
}

/// The history of a run that went wrong is kept.
impl Drop for Scene {
    fn drop(&mut self) {
        if thread::panicking() {
            self.directory.disable_cleanup(true);
            println!("the history is kept: {}", self.history().display());
        }
    }
}

pub(crate) fn worker() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_worker"))
}

/// The long form of a test, or the one of every day.
pub(crate) fn lasts(every_day: Duration, long: Duration) -> Duration {
    if is_long() { long } else { every_day }
}

pub(crate) fn is_long() -> bool {
    env::var_os("LEASEHOLD_FAULTS_LONG").is_some()
}

/// No two believed at once, and the fences rose.
pub(crate) fn sound(account: &Account) {
    if let Some((one, other)) = account.two_at_once().first() {
        panic!("two at once:\n{one}\n{other}");
    }
    if let Some((one, other)) = account.fences_that_do_not_rise().first() {
        panic!("a fence that does not rise:\n{one}\n{other}");
    }
}

/// First come, first served.
pub(crate) fn in_order(account: &Account) {
    if let Some((one, other)) = account.overtaken().first() {
        panic!("overtaken:\n{one}\n{other}");
    }
}

/// The longest first.
pub(crate) fn longer_than(account: &Account, bound: Duration) -> Vec<Handover> {
    let mut long: Vec<_> = account.handovers().into_iter().filter(|handover| handover.gap > bound).collect();
    long.sort_by_key(|handover| std::cmp::Reverse(handover.gap));
    long
}

pub(crate) fn report(name: &str, crowd: &Crowd, account: &Account) {
    let mut gaps: Vec<_> = account.handovers().iter().map(|handover| handover.gap).collect();
    gaps.sort();
    let part = |of: usize| gaps.get(gaps.len() * of / 100).or(gaps.last()).copied().unwrap_or_default();
    println!(
        "{name}: {} holds, gaps: half {:?}, 99 of 100 {:?}, longest {:?}; the machine stalled for {:?}",
        gaps.len() + 1,
        part(50),
        part(99),
        part(100),
        crowd.longest_stall()
    );
}

pub(crate) fn dice(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// Something between nothing and `most`.
pub(crate) fn some_of(dice: &mut StdRng, most: Duration) -> Duration {
    most.mul_f64(dice.random())
}

pub(crate) fn one_of(dice: &mut StdRng, processes: &[u32]) -> u32 {
    processes[dice.random_range(0..processes.len())]
}

/// What is remembered of a key when nobody uses it is its last fence, and not for ever.
fn only_fences_are_left(server: &Server) {
    let Reply::Array(Some(keys)) = server.text(&["KEYS", "*"]) else { panic!("no keys") };
    for key in keys {
        let Reply::Bulk(Some(key)) = key else { panic!("{key:?} is no key") };
        let name = String::from_utf8_lossy(&key);
        assert!(name.starts_with("leasehold:f"), "{name} is left behind");
        let left = server.command(&[b"PTTL", &key]).as_integer();
        assert!(left.is_some_and(|left| left > 0), "{name} has no end");
    }
}
