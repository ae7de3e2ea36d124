//! Entries that are left in a store after all processes have ended.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use leasehold::Locks;
use tokio::runtime::Builder;

use super::{StoreUnderTest, TestBed};
use crate::{judge::left_behind, worker::CLOSES_WITHIN};

/// A dropped store ends on its own thread.
const GOES_WITHIN: Duration = Duration::from_secs(1);

impl TestBed {
    /// All that is left of holders and waiters. A store in memory is gone with its process.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        match &self.place {
            StoreUnderTest::Memory => Vec::new(),
            StoreUnderTest::File => at_file(&self.urls[0]),
            StoreUnderTest::Postgres(_) => in_use(&self.urls[0]),
            StoreUnderTest::Single(member) => left_behind(&member.server),
            StoreUnderTest::Sentinel(watched) => watched.servers.iter().flat_map(left_behind).collect(),
            StoreUnderTest::Cluster(cluster) => cluster.nodes().iter().flat_map(left_behind).collect(),
            StoreUnderTest::Quorum(members) => {
                members.iter().flat_map(|member| left_behind(&member.server)).collect()
            }
        }
    }
}

/// Rows that name a holder or a waiter.
fn in_use(url: &str) -> Vec<String> {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let states = runtime.block_on(async {
        let locks = Locks::connect(url).await?;
        // Looking at a lock does not register this process at the file; acquiring one does.
        if let Some(guard) = locks.mutex("the last").try_lock().await? {
            guard.release().await?;
        }
        let states = locks.list("").await?;
        locks.close(CLOSES_WITHIN).await?;
        Ok::<_, Box<dyn std::error::Error>>(states)
    });
    // Ends the tasks that keep the store alive.
    drop(runtime);
    let states = match states {
        Ok(states) => states,
        Err(error) => return vec![error.to_string()],
    };
    let in_use = states.iter().filter(|state| !state.holders.is_empty() || !state.waiters.is_empty());
    in_use.map(|state| format!("{state:?}")).collect()
}

/// The same, and files of dead processes next to the database, which the next process removes.
fn at_file(url: &str) -> Vec<String> {
    let rows = in_use(url);
    let directory = format!("{}-peers", url.trim_start_matches("file:"));
    let entries = || fs::read_dir(&directory).into_iter().flatten().flatten();
    let begun = Instant::now();
    while entries().next().is_some() && begun.elapsed() < GOES_WITHIN {
        thread::sleep(Duration::from_millis(5));
    }
    rows.into_iter().chain(entries().map(|entry| entry.path().display().to_string())).collect()
}
