//! The scene of the tests: five servers, and a connection to each of them that can fail.

use std::{
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

pub(crate) use faults::judge::until_nothing_is_left;
use faults::{
    Crowd, Plan,
    judge::{slack, vouches},
    until,
};
use servers::{Flavor, Proxy, Server};
use tempfile::TempDir;

const FLAVORS: [Flavor; 5] =
    [Flavor::Redis70, Flavor::Valkey91, Flavor::Redis82, Flavor::Valkey91, Flavor::Redis62];

/// The number of processes that want the lock.
const PROCESSES: usize = 8;

/// A call is in flight most of the time, but on a busy machine there may be none for this long.
const CALLS_WITHIN: Duration = Duration::from_secs(2);

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A server, and the only connection to it that workers know.
pub(crate) struct Member {
    pub(crate) server: Server,
    pub(crate) way: Proxy,
}

pub(crate) struct Scene {
    pub(crate) members: Vec<Member>,
    directory: TempDir,
    /// The parameters at the end of each URL.
    parameters: &'static str,
}

impl Scene {
    /// Members that vote from the start: none of them forgets anything here.
    pub(crate) fn that_forgets_nothing() -> Self {
        Self::with("?quarantine=no")
    }

    /// Members that abstain at first, as after each restart.
    pub(crate) fn that_may_forget() -> Self {
        Self::with("")
    }

    fn with(parameters: &'static str) -> Self {
        let member = |flavor| {
            let server = Server::start(flavor);
            Member { way: Proxy::before(&server), server }
        };
        Self { members: FLAVORS.map(member).into(), directory: TempDir::new().unwrap(), parameters }
    }

    /// Eight processes of two tasks that ask again at once, and sometimes hold until renewed.
    pub(crate) fn crowd(&self, outage_limit: Duration) -> Crowd {
        let mut crowd = Crowd::new(self.plan(|member| member.server.url(), outage_limit));
        crowd.add_with(worker(), PROCESSES, &self.plan(|member| member.way.url(), outage_limit));
        crowd
    }

    pub(crate) fn adds_one_to(&self, crowd: &mut Crowd, outage_limit: Duration) {
        crowd.add_with(worker(), 1, &self.plan(|member| member.way.url(), outage_limit));
    }

    fn plan(&self, url: fn(&Member) -> String, outage_limit: Duration) -> Plan {
        let urls: Vec<_> = self.members.iter().map(|member| url(member) + self.parameters).collect();
        let mut plan = Plan::new(&urls.join(" "), &self.history());
        (plan.tasks, plan.think, plan.dropped_percent) = (2, Duration::from_millis(5), 5);
        (plan.long_hold, plan.long_percent) = (Duration::from_millis(800), 1);
        plan.outage_limit = outage_limit;
        plan
    }

    /// Waits until a call to each member is in flight; returns how many are.
    pub(crate) fn in_flight(&self, members: &[usize]) -> usize {
        let begun = Instant::now();
        loop {
            let calls = members.iter().map(|member| self.members[*member].way.unanswered());
            let calls: Vec<_> = calls.collect();
            if !calls.contains(&0) || begun.elapsed() > CALLS_WITHIN {
                return calls.iter().sum();
            }
            thread::yield_now();
        }
    }

    /// True if its members abstain after a restart.
    pub(crate) fn forgets(&self) -> bool {
        self.parameters.is_empty()
    }

    /// Waits until these members vouch for their leases again.
    pub(crate) fn until_all_count(&self, members: &[usize]) {
        let counts = |member: &usize| vouches(&self.members[*member].server);
        until("it counts again", Plan::MAX_TTL + CALLS_WITHIN + SECOND, || members.iter().all(counts));
    }

    /// Waits until nothing is left at these members, at most one TTL.
    pub(crate) fn is_forgotten(
        &self,
        members: impl Iterator<Item = usize> + Clone,
        crowd: &Crowd,
        ttl: Duration,
    ) {
        until_nothing_is_left(members.map(|member| &self.members[member].server), ttl + slack(crowd));
    }

    fn history(&self) -> PathBuf {
        self.directory.path().join("history")
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

/// Servers without a proxy, for tests that make their own locks.
pub(crate) fn servers() -> [Server; 5] {
    FLAVORS.map(Server::start)
}

fn worker() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_worker"))
}
