//! The setup of the tests, and the checks that apply to all of them.

use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

pub(crate) use faults::judge::{
    in_order, is_long, lasts, longer_than, no_gap_is_longer_than, nobody_was_deceived, report, slack,
};
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

    /// Ends all processes, prints how the run went, and checks the rules of every run.
    pub(crate) fn ends(&self, name: &str, crowd: &mut Crowd) -> ParsedHistory {
        let parsed_history = self.ends_unjudged(name, crowd);
        sound(&parsed_history);
        parsed_history
    }

    /// The same, where guards need not have been alone.
    pub(crate) fn ends_unjudged(&self, name: &str, crowd: &mut Crowd) -> ParsedHistory {
        crowd.dismiss();
        let parsed_history = crowd.parsed_history();
        report(name, crowd, &parsed_history);
        until("nobody holds or waits", crowd.ttl() + slack(crowd), || crowd.is_forgotten(Plan::KEY));
        if let Some(server) = &self.server {
            assert_eq!(left_behind(server), [""; 0]);
        }
        parsed_history
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

pub(crate) fn dice(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// A random duration between zero and `most`.
pub(crate) fn some_of(dice: &mut StdRng, most: Duration) -> Duration {
    most.mul_f64(dice.random())
}
