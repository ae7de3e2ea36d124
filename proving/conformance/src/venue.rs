//! The stores to check, each opened as often as there are processes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{MemoryStore, QuorumStore, TokioRuntime};
use leasehold_core::{Runtime, Store};
use leasehold_file::FileStore;
use leasehold_redis::RedisStore;
use servers::{Flavor, Server};
use tempfile::TempDir;

type Open = dyn Fn(Arc<dyn Runtime>) -> Arc<dyn Store> + Send + Sync;

/// A place where leases live, for the time of a test.
pub struct Venue {
    name: String,
    open: Box<Open>,
    /// What must live as long as the venue.
    server: Option<Arc<Server>>,
    hands_over: bool,
}

impl Venue {
    /// Memory: one store, since no other process could see it.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn memory() -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(runtime()));
        Self { name: "memory".into(), open: Box::new(move |_| store.clone()), server: None, hands_over: true }
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
        Self { name: "quorum of memory".into(), open: Box::new(open), server: None, hands_over: false }
    }

    /// A file of its own, in a directory of its own.
    ///
    /// # Panics
    ///
    /// When there is no room for the directory.
    #[must_use]
    pub fn file() -> Self {
        let directory = TempDir::with_prefix("leasehold-").expect("a directory for the file store");
        let open = move |runtime| -> Arc<dyn Store> {
            Arc::new(FileStore::at(directory.path().join("leases.db"), runtime))
        };
        Self { name: "file".into(), open: Box::new(open), server: None, hands_over: true }
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
        Self {
            name: format!("{flavor} {protocol}"),
            open: Box::new(open),
            server: Some(server),
            hands_over: true,
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

    /// The server, where there is one.
    #[must_use]
    pub fn server(&self) -> Option<&Server> {
        self.server.as_deref()
    }

    /// Whether the lock itself is handed to who waited longest, for a window, and not only the word that it may ask.
    #[must_use]
    pub const fn hands_over(&self) -> bool {
        self.hands_over
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

fn runtime() -> Arc<dyn Runtime> {
    Arc::new(TokioRuntime::current().expect("a test in a tokio runtime"))
}
