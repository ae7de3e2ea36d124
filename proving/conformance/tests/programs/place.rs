//! The stores of the tests.

use std::time::Duration;

use leasehold::{Locks, blocking};
use servers::{Flavor, Server};
use tempfile::TempDir;

/// A store on which any number of processes have locks.
pub(crate) struct Place {
    pub(crate) url: String,
    memory: Option<Locks>,
    pub(crate) server: Option<Server>,
    _directory: Option<TempDir>,
}

impl Place {
    fn memory() -> Self {
        let memory = Locks::builder().label("somebody").in_memory().unwrap();
        Self { url: String::new(), memory: Some(memory), server: None, _directory: None }
    }

    fn file() -> Self {
        let (directory, url) = new_file();
        Self { url, memory: None, server: None, _directory: Some(directory) }
    }

    pub(crate) fn redis(flavor: Flavor) -> Self {
        let server = Server::start(flavor);
        Self { url: server.url(), memory: None, server: Some(server), _directory: None }
    }

    /// In memory, on a file, and on this server.
    pub(crate) fn each(flavor: Flavor) -> [Self; 3] {
        [Self::memory(), Self::file(), Self::redis(flavor)]
    }

    pub(crate) async fn locks(&self) -> Locks {
        match &self.memory {
            Some(memory) => memory.clone(),
            None => {
                let builder = Locks::builder().label("somebody").outage_limit(Duration::from_secs(3));
                builder.connect(&self.url).await.unwrap()
            }
        }
    }

    pub(crate) async fn ten(&self) -> Vec<Locks> {
        let mut all = Vec::new();
        for _ in 0..10 {
            all.push(self.locks().await);
        }
        all
    }
}

/// Runs a test of a program that blocks on each kind of store.
pub(crate) fn on_every_store(test: impl Fn(&(dyn Fn() -> blocking::Locks + Sync))) {
    let memory = blocking::Locks::in_memory().unwrap();
    test(&|| memory.clone());
    let (_directory, file) = new_file();
    test(&|| blocking::Locks::connect(&file).unwrap());
    let server = Server::start(Flavor::Valkey91);
    test(&|| blocking::Locks::connect(&server.url()).unwrap());
}

pub(crate) fn new_file() -> (TempDir, String) {
    let directory = TempDir::with_prefix("leasehold-").unwrap();
    let url = format!("file:{}", directory.path().join("leases.db").display());
    (directory, url)
}
