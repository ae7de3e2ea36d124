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

/// A store for the time of a test.
pub struct Target {
    name: String,
    open: Box<Open>,
    /// The server, which must live as long as the target.
    server: Option<Arc<Server>>,
    hands_over: bool,
    tells: bool,
    forget: Option<Box<dyn Fn() + Send + Sync>>,
    served: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Target {
    /// One store in memory, since another process could not see it.
    pub fn memory() -> Self {
        let store = Arc::new(MemoryStore::new(runtime()));
        let forgetful = store.clone();
        let forget: Box<dyn Fn() + Send + Sync> = Box::new(move || forgetful.forget());
        Self { forget: Some(forget), ..Self::of_your_own("memory", move |_| store.clone()) }
    }

    /// A quorum of three stores in memory, which each process opens itself.
    pub fn quorum_of_memory() -> Self {
        let member = |name| -> Arc<dyn Store> { Arc::new(MemoryStore::new(runtime()).named(name)) };
        let members = ["a", "b", "c"].map(member);
        let open = move |runtime| -> Arc<dyn Store> {
            let store = QuorumStore::new(members.clone(), Duration::from_secs(60), runtime);
            Arc::new(store.expect("three stores"))
        };
        Self { hands_over: false, ..Self::of_your_own("quorum of memory", open) }
    }

    /// An application's own store, opened by each process: the checks for authors of stores.
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

    pub fn file() -> Self {
        let directory = TempDir::with_prefix("leasehold-").expect("a directory for the file store");
        let file = directory.path().join("leases.db");
        let there = file.clone();
        let open = move |runtime| -> Arc<dyn Store> {
            let _ = &directory;
            Arc::new(FileStore::at(&there, runtime))
        };
        let forget = move || std::fs::remove_file(&file).expect("the file was made");
        Self { forget: Some(Box::new(forget)), ..Self::of_your_own("file", open) }
    }

    pub fn postgres() -> Self {
        Self::on_postgres(Postgres::start())
    }

    /// The same with the newest version installed.
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
            forget: Some(Box::new(forget)),
            served: Some(Box::new(served)),
            ..Self::of_your_own("postgres", open)
        }
    }

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
            server: Some(server),
            forget: Some(Box::new(forget)),
            ..Self::of_your_own(&format!("{flavor} {protocol}"), open)
        }
    }

    /// A new server; each process has a client of the fred crate that retries failed commands.
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
        Self { server: Some(server), hands_over: false, tells: false, ..Self::of_your_own(&name, open) }
    }

    /// A new cluster of three masters; each process is given a different node.
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
        Self::of_your_own(&name, open)
    }

    /// A quorum of three new servers, without the quarantine of a first start.
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
        Self { hands_over: false, ..Self::of_your_own(&name, open) }
    }

    /// The store, as another process would open it.
    pub fn store(&self) -> Arc<dyn Store> {
        (self.open)(runtime())
    }

    /// Ends the quarantine of a server's first start. Other stores have to wait for it.
    pub fn has_served(&self) {
        if let Some(served) = &self.served {
            return served();
        }
        let Some(server) = self.server() else { return };
        server.text(&["SET", MEMBER_KEY, &server.run_id(), "PX", "86400000"]);
    }

    /// Makes the store lose everything, as in a restart without its data.
    pub fn forget(&self) {
        let forget = self.forget.as_ref();
        forget.unwrap_or_else(|| panic!("{} as a whole is never restarted", self.name))();
    }

    pub fn server(&self) -> Option<&Server> {
        self.server.as_deref()
    }

    /// True if a waiter is handed the lock itself for a claim window, not only told to ask.
    pub const fn hands_over(&self) -> bool {
        self.hands_over
    }

    /// True if a waiter is notified when it may ask, and need not poll.
    pub const fn tells(&self) -> bool {
        self.tells
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Target").field(&self.name).finish()
    }
}

/// Executes a statement in a PostgreSQL database.
fn sql(config: &str, statement: &str) {
    let done = async {
        let (client, connection) = tokio_postgres::connect(config, tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute(statement).await
    };
    block_in_place(|| Handle::current().block_on(done)).expect("a server that answers");
}

pub(crate) fn runtime() -> Arc<dyn Runtime> {
    Arc::new(TokioRuntime::current().expect("a test in a tokio runtime"))
}
