//! A master and its replica, watched by sentinels.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{Flavor, Reply, Server, Setup, launch::READY_WITHIN};

/// The name of the master.
const MASTER: &str = "locks";

/// Two servers and three sentinels. A master that is silent for half a second is soon replaced.
#[derive(Debug)]
pub struct Watched {
    /// The first server is the master at the start.
    pub servers: [Server; 2],
    /// Two of the three have to agree.
    pub sentinels: Vec<Server>,
}

impl Watched {
    /// Starts them, and returns when a failover would succeed.
    /// Panics if they are not ready within half a minute.
    #[track_caller]
    pub fn start(flavor: Flavor) -> Self {
        Self::with(Server::setup(flavor), Server::setup(flavor))
    }

    /// The same, with settings for each server and sentinel, all with TLS or none.
    #[track_caller]
    pub fn with(server: Setup, sentinel: Setup) -> Self {
        let login = server.password.clone();
        let mut server = server
            .arg("repl-diskless-sync-delay", "0")
            .arg("repl-timeout", "2")
            .arg("repl-ping-replica-period", "1");
        if let Some(password) = &login {
            server = server.arg("masterauth", password);
        }
        if server.tls.is_some() {
            server = server.arg("tls-replication", "yes");
        }
        let first = server.clone().start();
        let second = server.arg("replicaof", &format!("127.0.0.1 {}", first.port())).start();
        let mut sentinel = sentinel
            .sentinel()
            .arg("sentinel", &format!("monitor {MASTER} 127.0.0.1 {} 2", first.port()))
            .arg("sentinel", &format!("down-after-milliseconds {MASTER} 500"))
            .arg("sentinel", &format!("failover-timeout {MASTER} 2000"));
        if let Some(password) = &login {
            sentinel = sentinel.arg("sentinel", &format!("auth-pass {MASTER} {password}"));
        }
        if sentinel.tls.is_some() {
            sentinel = sentinel.arg("tls-replication", "yes");
        }
        let sentinels = (0..3).map(|_| sentinel.clone().start()).collect();
        let watched = Self { servers: [first, second], sentinels };
        watched.until_ready();
        watched
    }

    /// `redis+sentinel://127.0.0.1:PORT,…/locks`, or `rediss+sentinel:` with TLS; no password.
    pub fn url(&self) -> String {
        let scheme = if self.servers[0].url().starts_with("rediss") { "rediss" } else { "redis" };
        let hosts: Vec<_> = self.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port())).collect();
        format!("{scheme}+sentinel://{}/{MASTER}", hosts.join(","))
    }

    /// The index of the server that this sentinel names as the master.
    #[track_caller]
    pub fn master_by(&self, sentinel: usize) -> usize {
        let named = self.sentinels[sentinel].text(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]);
        let Reply::Array(Some(fields)) = named else { panic!("{named:?} names no master") };
        let port = fields[1].as_text().expect("a port").to_owned();
        let at = self.servers.iter().position(|server| server.port().to_string() == port);
        at.expect("the master is one of the servers")
    }

    /// Makes the sentinels replace a healthy master, as an operator can.
    /// Panics if they refuse for half a minute.
    #[track_caller]
    pub fn fail_over(&self) {
        let deadline = Instant::now() + READY_WITHIN;
        while let Err(why) = self.try_fail_over() {
            assert!(Instant::now() < deadline, "they refuse: {why}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Requests a failover once; the sentinels may refuse or abandon it.
    pub fn try_fail_over(&self) -> Result<(), String> {
        match self.sentinels[0].text(&["SENTINEL", "FAILOVER", MASTER]) {
            Reply::Error(why) => Err(why),
            _ => Ok(()),
        }
    }

    /// Waits until all sentinels agree on a master whose replica is in sync.
    /// Panics if that takes half a minute.
    #[track_caller]
    pub fn until_ready(&self) {
        let deadline = Instant::now() + READY_WITHIN;
        while !self.is_ready() {
            assert!(Instant::now() < deadline, "no failover would succeed yet");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_ready(&self) -> bool {
        let master = self.master_by(0);
        let agreed = (0..self.sentinels.len()).all(|sentinel| {
            self.master_by(sentinel) == master
                && self.says(sentinel, "num-other-sentinels") == "2"
                && self.says(sentinel, "num-slaves") == "1"
                && self.says(sentinel, "flags") == "master"
        });
        // A sentinel that makes a server a replica closes all its connections, possibly ours, too.
        let info = self.servers[1 - master].connect().and_then(|mut one| one.text(&["INFO", "replication"]));
        let follows = info.is_ok_and(|info| {
            let info = info.as_text().unwrap_or_default();
            info.contains("role:slave") && info.contains("master_link_status:up")
        });
        agreed && follows
    }

    /// A field of a sentinel's description of the master.
    fn says(&self, sentinel: usize, field: &str) -> String {
        let Reply::Array(Some(fields)) = self.sentinels[sentinel].text(&["SENTINEL", "MASTER", MASTER])
        else {
            return String::new();
        };
        let texts: Vec<_> = fields.iter().map(|field| field.as_text().unwrap_or_default()).collect();
        let at = texts.iter().position(|text| *text == field);
        at.and_then(|at| texts.get(at + 1)).map(|text| (*text).to_owned()).unwrap_or_default()
    }
}
