//! The stores to check, each opened once for every process.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fred::prelude::{Builder, ClientLike as _, Config, ReconnectPolicy};
use fred::types::RespVersion;
use leasehold::{MemoryStore, QuorumStore, TokioRuntime};
use leasehold_core::{Runtime, Store};
use leasehold_file::FileStore;
use leasehold_postgres::PostgresStore;
use leasehold_redis::slot::MEMBER_KEY;
use leasehold_redis::{ClusterStore, RedisStore};
use servers::{Cluster, Flavor, Postgres, Server};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

type Open = dyn Fn(Arc<dyn Runtime>) -> Arc<dyn Store> + Send + Sync;

/// A place where leases live, for the time of a test.
pub struct Venue {
    name: String,
    open: Box<Open>,
    /// What must live as long as the venue.
    server: Option<Arc<Server>>,
    hands_over: bool,
    tells: bool,
    forget: Option<Box<dyn Fn() + Send + Sync>>,
    served: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Venue {
    /// Memory: one store, since no other process could see it.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn memory() -> Self {
        let store = Arc::new(MemoryStore::new(runtime()));
        let forgetful = store.clone();
        Self {
            name: "memory".into(),
            open: Box::new(move |_| store.clone()),
            server: None,
            hands_over: true,
            tells: true,
            forget: Some(Box::new(move || forgetful.forget())),
            served: None,
        }
    }

    /// A majority of three stores in memory, which each process opens for itself.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn quorum_of_memory() -> Self {
        let member = |name| -> Arc<dyn Store> { Arc::new(MemoryStore::new(runtime()).named(name)) };
        let members = ["a", "b", "c"].map(member);
        let open = move |runtime| -> Arc<dyn Store> {
            let store = QuorumStore::new(members.clone(), Duration::from_secs(60), runtime);
            Arc::new(store.expect("three stores"))
        };
        Self::of_a_quorum("quorum of memory", open)
    }

    /// A store of an application's own, which each process opens for itself: the list of checks,
    /// for those who write one.
    #[must_use]
    pub fn of_your_own(
        name: &str,
        open: impl Fn(Arc<dyn Runtime>) -> Arc<dyn Store> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            open: Box::new(open),
            server: None,
            hands_over: true,
            tells: true,
            forget: None,
            served: None,
        }
    }

    /// A file of its own, in a directory of its own.
    ///
    /// # Panics
    ///
    /// When there is no room for the directory.
    #[must_use]
    pub fn file() -> Self {
        let directory = TempDir::with_prefix("leasehold-").expect("a directory for the file store");
        let file = directory.path().join("leases.db");
        let there = file.clone();
        let open = move |runtime| -> Arc<dyn Store> {
            let _ = &directory;
            Arc::new(FileStore::at(&there, runtime))
        };
        let forget = move || std::fs::remove_file(&file).expect("the file was made");
        Self {
            name: "file".into(),
            open: Box::new(open),
            server: None,
            hands_over: true,
            tells: true,
            forget: Some(Box::new(forget)),
            served: None,
        }
    }

    /// A PostgreSQL server of its own.
    ///
    /// # Panics
    ///
    /// When the server cannot be had, and outside of a tokio runtime of several threads.
    #[must_use]
    pub fn postgres() -> Self {
        Self::on_postgres(Postgres::start())
    }

    /// The same of the newest version that the tests have.
    ///
    /// # Panics
    ///
    /// As [`postgres`](Self::postgres).
    #[must_use]
    pub fn newest_postgres() -> Self {
        let newest = Postgres::all_programs().into_values().next_back();
        Self::on_postgres(Postgres::of(&newest.expect("run `cargo xtask servers`"), &[]))
    }

    fn on_postgres(server: Postgres) -> Self {
        let server = Arc::new(server);
        let url = server.url();
        let make = {
            let url = url.clone();
            move || {
                let runtime = runtime();
                let made = leasehold_postgres::init(&url, &runtime);
                block_in_place(|| Handle::current().block_on(made)).expect("tables in an empty database");
            }
        };
        make();
        let open = move |runtime| -> Arc<dyn Store> {
            Arc::new(PostgresStore::from_url(&url, runtime).expect("a server's own URL"))
        };
        let config = server.config();
        let told = config.clone();
        let forget = move || {
            sql(&config, "DROP SCHEMA leasehold CASCADE");
            make();
        };
        let served = move || {
            let _ = &server;
            sql(&told, "UPDATE leasehold.meta SET value = '0' WHERE name = 'voided'");
        };
        Self {
            name: "postgres".into(),
            open: Box::new(open),
            server: None,
            hands_over: true,
            tells: true,
            forget: Some(Box::new(forget)),
            served: Some(Box::new(served)),
        }
    }

    /// A server of its own.
    ///
    /// # Panics
    ///
    /// When the server cannot be had.
    #[must_use]
    pub fn redis(flavor: Flavor, protocol: &str) -> Self {
        let server = Arc::new(Server::start(flavor));
        let url = format!("{}?protocol={protocol}", server.url());
        let open = move |runtime| -> Arc<dyn Store> {
            Arc::new(RedisStore::from_url(&url, runtime).expect("a server's own URL"))
        };
        let forgetful = server.clone();
        let forget = move || {
            forgetful.kill_9();
            forgetful.restart();
        };
        Self {
            name: format!("{flavor} {protocol}"),
            open: Box::new(open),
            server: Some(server),
            hands_over: true,
            tells: true,
            forget: Some(Box::new(forget)),
            served: None,
        }
    }

    /// A server of its own, to which each process has a client of the fred crate already,
    /// configured to try again what fails.
    ///
    /// # Panics
    ///
    /// When the server cannot be had, and outside of a tokio runtime of several threads.
    #[must_use]
    pub fn lent_by_fred(flavor: Flavor, version: RespVersion) -> Self {
        let server = Arc::new(Server::start(flavor));
        let mut config = Config::from_url(&server.url()).expect("a server's own URL");
        config.version = version;
        let mut builder = Builder::from_config(config);
        builder.set_policy(ReconnectPolicy::default());
        let name = format!("{flavor} by fred");
        let store_name = name.clone();
        let open = move |runtime| -> Arc<dyn Store> {
            let client = builder.build().expect("a configuration that says where");
            let started = block_in_place(|| Handle::current().block_on(client.init()));
            started.expect("a server that answers");
            Arc::new(RedisStore::from_fred(client, &store_name, runtime).expect("a client of one server"))
        };
        Self {
            name,
            open: Box::new(open),
            server: Some(server),
            hands_over: false,
            tells: false,
            forget: None,
            served: None,
        }
    }

    /// A cluster of three masters of its own, of which each process is told another node.
    ///
    /// # Panics
    ///
    /// When the servers cannot be had.
    #[must_use]
    pub fn cluster(flavor: Flavor, protocol: &str) -> Self {
        let cluster = Cluster::start(flavor, 3, 0);
        let protocol = protocol.to_owned();
        let name = format!("cluster of {flavor} {protocol}");
        let opened = AtomicUsize::new(0);
        let open = move |runtime| -> Arc<dyn Store> {
            let nth = opened.fetch_add(1, Ordering::Relaxed);
            let port = cluster.nodes()[nth % cluster.nodes().len()].port();
            let url = format!("redis+cluster://127.0.0.1:{port}?protocol={protocol}");
            Arc::new(ClusterStore::from_url(&url, runtime).expect("a cluster's own URL"))
        };
        Self {
            name,
            open: Box::new(open),
            server: None,
            hands_over: true,
            tells: true,
            forget: None,
            served: None,
        }
    }

    /// A majority of three servers of their own, which need not sit out the quarantine of a first
    /// start.
    ///
    /// # Panics
    ///
    /// When a server cannot be had.
    #[must_use]
    pub fn quorum_of_redis(flavors: [Flavor; 3]) -> Self {
        let servers = flavors.map(Server::start);
        let name = format!("quorum of {}, {} and {}", flavors[0], flavors[1], flavors[2]);
        let open = move |runtime: Arc<dyn Runtime>| -> Arc<dyn Store> {
            let member = |server: &Server| -> Arc<dyn Store> {
                let url = format!("{}?quarantine=no", server.url());
                Arc::new(RedisStore::from_url(&url, runtime.clone()).expect("a server's own URL"))
            };
            let members = servers.iter().map(member);
            let store = QuorumStore::new(members, Duration::from_secs(60), runtime.clone());
            Arc::new(store.expect("three stores"))
        };
        Self::of_a_quorum(&name, open)
    }

    fn of_a_quorum(
        name: &str,
        open: impl Fn(Arc<dyn Runtime>) -> Arc<dyn Store> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            open: Box::new(open),
            server: None,
            hands_over: false,
            tells: true,
            forget: None,
            served: None,
        }
    }

    /// The place, as one more process would open it.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        (self.open)(runtime())
    }

    /// A server is as if it had sat out the quarantine of its first start. Other places have to.
    ///
    /// # Panics
    ///
    /// When the server does not say which run it is.
    pub fn has_served(&self) {
        if let Some(served) = &self.served {
            return served();
        }
        let Some(server) = self.server() else { return };
        let info = server.text(&["INFO", "server"]);
        let run = info.as_text().and_then(|text| text.lines().find_map(|line| line.strip_prefix("run_id:")));
        let run = run.expect("a run_id").trim();
        server.text(&["SET", MEMBER_KEY, run, "PX", "86400000"]);
    }

    /// The place loses everything, as in a restart without its state.
    ///
    /// # Panics
    ///
    /// Where that cannot be.
    pub fn forget(&self) {
        let forget = self.forget.as_ref();
        forget.unwrap_or_else(|| panic!("{} as a whole is never started anew", self.name))();
    }

    /// The server, where there is one.
    #[must_use]
    pub fn server(&self) -> Option<&Server> {
        self.server.as_deref()
    }

    /// Whether the lock itself is handed to who waited longest, for a window, and not only the word
    /// that it may ask.
    #[must_use]
    pub const fn hands_over(&self) -> bool {
        self.hands_over
    }

    /// Whether who waits is told that it may ask, and need not ask whether it may.
    #[must_use]
    pub const fn tells(&self) -> bool {
        self.tells
    }

    /// What a message calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Venue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Venue").field(&self.name).finish()
    }
}

/// Does something in a PostgreSQL database.
fn sql(config: &str, statement: &str) {
    let done = async {
        let (client, connection) = tokio_postgres::connect(config, tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute(statement).await
    };
    block_in_place(|| Handle::current().block_on(done)).expect("a server that answers");
}

/// The runtime of a test.
pub(crate) fn runtime() -> Arc<dyn Runtime> {
    Arc::new(TokioRuntime::current().expect("a test in a tokio runtime"))
}
