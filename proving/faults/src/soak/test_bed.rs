//! The environment of one part of a soak test: a store of some topology, and its faults.

use std::{path::Path, time::Duration};

use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _};
use servers::{Cluster, Flavor, Postgres, Proxy, Server, Watched};

use tokio::runtime::Builder;

use super::fault::Kind;

mod leftovers;
mod strike;

/// The topologies, by the names that `--only` takes.
pub(crate) const NAMES: [&str; 12] = [
    "memory",
    "file",
    "redis-5.0",
    "redis-6.2",
    "redis-7.0",
    "redis-7.0-resp2",
    "redis-8.2",
    "valkey-9.1",
    "sentinel",
    "cluster",
    "quorum",
    "postgres",
];

/// A store, and the faults that it can suffer.
pub(crate) struct TestBed {
    pub(crate) place: StoreUnderTest,
    /// The URLs of the workers, which use them in turn.
    pub(crate) urls: Vec<String>,
    pub(crate) workers: usize,
}

pub(crate) enum StoreUnderTest {
    Memory,
    File,
    Single(Box<Member>),
    Sentinel(Box<Watched>),
    Cluster(Cluster),
    Quorum(Vec<Member>),
    Postgres(Box<Database>),
}

/// A server, and a connection to it that can fail.
pub(crate) struct Member {
    server: Server,
    way: Proxy,
    /// True if it has its data again after it was killed.
    keeps: bool,
}

/// A PostgreSQL server, and a connection to it that can fail.
pub(crate) struct Database {
    server: Postgres,
    way: Proxy,
}

impl Database {
    fn start() -> Self {
        let server = Postgres::start();
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(leasehold::postgres::init(&server.url())).expect("a new database");
        Self { way: Proxy::to_port(server.port()), server }
    }
}

impl Member {
    fn start(flavor: Flavor, keeps: bool) -> Self {
        let setup = Server::setup(flavor);
        let server = if keeps { setup.append_only() } else { setup }.start();
        Self { way: Proxy::before(&server), server, keeps }
    }
}

impl TestBed {
    /// The topology with this name, in a directory for files.
    pub(crate) fn prepare(name: &str, directory: &Path, dice: &mut StdRng) -> Self {
        let (place, urls) = match name {
            "memory" => {
                return Self { place: StoreUnderTest::Memory, urls: vec!["memory:".into()], workers: 1 };
            }
            "file" => (StoreUnderTest::File, vec![format!("file:{}", directory.join("leases.db").display())]),
            "sentinel" => {
                let watched = Watched::start(*[Flavor::Redis70, Flavor::Valkey91].choose(dice).expect("two"));
                let url = watched.url();
                (StoreUnderTest::Sentinel(Box::new(watched)), vec![url])
            }
            "cluster" => {
                let flavor = *[Flavor::Redis70, Flavor::Valkey91].choose(dice).expect("two");
                let cluster = Cluster::start_with(flavor, 3, 0, servers::Setup::append_only);
                let url = cluster.url();
                (StoreUnderTest::Cluster(cluster), vec![url])
            }
            "quorum" => {
                let count = if dice.random() { 3 } else { 5 };
                let flavor = |dice: &mut StdRng| *Flavor::DOWNLOADED.choose(dice).expect("some");
                let members: Vec<_> = (0..count).map(|_| Member::start(flavor(dice), false)).collect();
                let urls: Vec<_> = members.iter().map(|member| member.way.url()).collect();
                (StoreUnderTest::Quorum(members), vec![urls.join(" ")])
            }
            "postgres" => {
                let database = Database::start();
                // The network fails for half of the workers only.
                let [port, way] = [database.server.port(), database.way.port()].map(|port| port.to_string());
                let urls = vec![database.server.url(), database.server.url().replace(&port, &way)];
                (StoreUnderTest::Postgres(Box::new(database)), urls)
            }
            single => {
                let older_protocol = single.strip_suffix("-resp2");
                let parameters = if older_protocol.is_some() { "?protocol=resp2" } else { "" };
                let named = |flavor: &Flavor| flavor.name() == older_protocol.unwrap_or(single);
                let flavor = Flavor::DOWNLOADED.into_iter().find(named).expect("a topology has a name");
                let member = Member::start(flavor, dice.random());
                // The network fails for half of the workers only.
                let urls = [member.server.url(), member.way.url()].map(|url| url + parameters);
                (StoreUnderTest::Single(Box::new(member)), urls.into())
            }
        };
        Self { place, urls, workers: 4 }
    }

    /// A description of the topology, as far as its name does not give it.
    pub(crate) fn details(&self) -> String {
        match &self.place {
            StoreUnderTest::Memory | StoreUnderTest::File | StoreUnderTest::Postgres(_) => String::new(),
            StoreUnderTest::Single(member) if member.keeps => "append-only file".to_owned(),
            StoreUnderTest::Single(_) => "nothing on disk".to_owned(),
            StoreUnderTest::Sentinel(watched) => format!("{}, three sentinels", watched.servers[0].flavor()),
            StoreUnderTest::Cluster(cluster) => format!("{}, three masters", cluster.nodes()[0].flavor()),
            StoreUnderTest::Quorum(members) => {
                let flavors: Vec<_> = members.iter().map(|member| member.server.flavor().name()).collect();
                flavors.join(", ")
            }
        }
    }

    /// The faults that it can suffer; rare or long ones are listed less often.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        use Kind::{
            ClientsKilled, Cut, CutAfter, CutBefore, Delayed, FailoverHung, FailoverKilled, FailoverOrdered,
            Flushed, HalfOpen, Paused, RestartedEmpty, RestartedWhole, ScriptsFlushed, SlotMoved, Stopped,
            Truncated,
        };
        let network = [Cut, CutBefore, CutAfter, HalfOpen, Delayed, Truncated];
        match &self.place {
            StoreUnderTest::Memory | StoreUnderTest::File => Vec::new(),
            StoreUnderTest::Single(member) => {
                let restarted = if member.keeps { RestartedWhole } else { RestartedEmpty };
                let server = [ClientsKilled, ScriptsFlushed, Paused, Stopped, Flushed, restarted];
                [&network[..], &network, &server].concat()
            }
            StoreUnderTest::Sentinel(_) => {
                vec![ClientsKilled, ScriptsFlushed, Flushed, FailoverKilled, FailoverHung, FailoverOrdered]
            }
            StoreUnderTest::Cluster(_) => {
                let moved = [SlotMoved; 4];
                [&moved[..], &[ClientsKilled, ScriptsFlushed, Paused, Stopped, Flushed, RestartedWhole]]
                    .concat()
            }
            StoreUnderTest::Postgres(_) => {
                [&network[..], &network, &[ClientsKilled, ClientsKilled, Stopped, RestartedWhole]].concat()
            }
            StoreUnderTest::Quorum(_) => {
                let server = [ClientsKilled, ScriptsFlushed, Paused, Stopped];
                [&network[..], &server, &server, &[Flushed, RestartedEmpty]].concat()
            }
        }
    }

    pub(crate) const fn is_quorum(&self) -> bool {
        matches!(self.place, StoreUnderTest::Quorum(_))
    }

    /// How long a process may take to find its store again, once there is one.
    pub(crate) const fn found_within(&self) -> Duration {
        match self.place {
            StoreUnderTest::Sentinel(_) | StoreUnderTest::Cluster(_) => Duration::from_secs(5),
            _ => Duration::ZERO,
        }
    }
}
