//! The scene of the tests.

use std::{
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use faults::sharing::{Judge, Plan};
use leasehold::Locks;
use servers::{Process, Reply, Server};
use tempfile::TempDir;

/// The delay that a busy machine may add to any bound.
pub(crate) const BUSY: Duration = Duration::from_secs(2);

pub(crate) struct Place {
    pub(crate) url: String,
    server: Option<Server>,
    directory: TempDir,
}

impl Place {
    pub(crate) fn on(server: Server) -> Self {
        Self { url: server.url(), server: Some(server), directory: TempDir::new().unwrap() }
    }

    pub(crate) fn on_a_file() -> Self {
        let directory = TempDir::new().unwrap();
        let url = format!("file:{}", directory.path().join("leases.db").display());
        Self { url, server: None, directory }
    }

    pub(crate) fn in_memory() -> Self {
        Self { url: "memory:".into(), server: None, directory: TempDir::new().unwrap() }
    }

    pub(crate) fn history(&self) -> PathBuf {
        self.directory.path().join("history")
    }

    pub(crate) fn plan(&self, wishes: &[&str]) -> Plan {
        Plan {
            url: self.url.clone(),
            history: self.history(),
            ttl: Duration::from_secs(2),
            hold: Duration::from_millis(1),
            wishes: wishes.iter().map(|&wish| wish.to_owned()).collect(),
        }
    }

    pub(crate) fn start(plan: &Plan) -> Process {
        Process::start(Path::new(env!("CARGO_BIN_EXE_sharer")), plan.words())
            .expect("a sharer can be started")
    }

    /// Checks the rules of every run.
    pub(crate) fn is_sound(&self) -> Judge {
        let judge = Judge::of(&self.history());
        if let Some(together) = judge.too_many() {
            panic!("too many at once:\n{together}");
        }
        if let Some(fences) = judge.fence_out_of_order() {
            panic!("fences out of order:\n{fences}");
        }
        judge
    }

    /// Waits until nobody holds or waits any more, and only fences that expire are left.
    pub(crate) fn is_forgotten(&self, locks: &Locks, keys: &[&str]) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for key in keys {
            until("nobody holds or waits", Duration::from_secs(4) + BUSY, || {
                let state = runtime.block_on(locks.inspect(key)).unwrap();
                state.holders.is_empty() && state.waiters.is_empty()
            });
        }
        let Some(server) = &self.server else { return };
        let Reply::Array(Some(left)) = server.text(&["KEYS", "*"]) else { panic!("no keys") };
        for key in left {
            let Reply::Bulk(Some(key)) = key else { panic!("{key:?} is not a key") };
            let name = String::from_utf8_lossy(&key);
            assert!(name.starts_with("leasehold:c"), "{name} is left behind");
            let left = server.command(&[b"PTTL", &key]).as_integer();
            assert!(left.is_some_and(|left| left > 0), "{name} has no end");
        }
    }

    pub(crate) fn locks(&self) -> Locks {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Locks::builder().own_thread().connect(&self.url)).unwrap()
    }
}

pub(crate) fn until(what: &str, within: Duration, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < within, "not within {within:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The duration of the test: in the everyday form, or in the long one.
pub(crate) fn lasts(every_day: Duration, long: Duration) -> Duration {
    if std::env::var_os("LEASEHOLD_FAULTS_LONG").is_some() { long } else { every_day }
}
