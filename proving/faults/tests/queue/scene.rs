//! The setup of the tests, and the checks that apply to all of them.

use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

pub(crate) use faults::judge::{is_long, lasts, longer_than, report, slack};
use faults::{
    Crowd, ParsedHistory, Plan,
    judge::{left_behind, sound},
    until,
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use servers::{Flavor, Server};
use tempfile::TempDir;

/// The most time that a dead waiter costs the queue.
pub(crate) const DEAD_WAITER: Duration = Duration::from_millis(250);

/// The most time that a dead holder costs the queue beyond its lease.
pub(crate) const DEAD_HOLDER: Duration = Duration::from_secs(1);

/// How long a lock that was handed over may remain unclaimed.
pub(crate) const WINDOW: Duration = Duration::from_secs(2);

/// The longest time for which a process does not ask if it hears nothing.
pub(crate) const RE_ASK: Duration = Duration::from_secs(5);

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

    /// A scene whose servers belong to the caller.
    pub(crate) fn under(url: String) -> Self {
        Self { server: None, url, directory: TempDir::new().unwrap() }
    }

    pub(crate) fn in_memory() -> Self {
        Self::under("memory:".to_owned())
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

    /// Checks the rules of every run, after all processes have released and ended.
    pub(crate) fn is_clean(&self, crowd: &Crowd, parsed_history: &ParsedHistory, ttl: Duration) {
        self.is_forgotten(crowd, ttl);
        sound(parsed_history);
    }

    /// Waits until nothing is left of holders and waiters.
    pub(crate) fn is_forgotten(&self, crowd: &Crowd, ttl: Duration) {
        until("nobody holds or waits", ttl + slack(crowd), || crowd.is_forgotten(Plan::KEY));
        if let Some(server) = &self.server {
            assert_eq!(left_behind(server), [""; 0]);
        }
    }
}

/// Keeps the history of a failed run.
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

/// First come, first served.
pub(crate) fn in_order(parsed_history: &ParsedHistory) {
    if let Some((one, other)) = parsed_history.overtaken().first() {
        panic!("overtaken:\n{one}\n{other}");
    }
}

pub(crate) fn dice(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// A random duration between zero and `most`.
pub(crate) fn some_of(dice: &mut StdRng, most: Duration) -> Duration {
    most.mul_f64(dice.random())
}

pub(crate) fn one_of(dice: &mut StdRng, processes: &[u32]) -> u32 {
    processes[dice.random_range(0..processes.len())]
}
