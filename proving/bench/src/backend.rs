//! The stores that are measured.

use std::{fmt, path::Path, time::Duration};

use leasehold::postgres;
use servers::{Flavor, Postgres, Server};
use tempfile::TempDir;

use crate::AnyError;
use crate::tap::Tap;

/// Every backend that all workloads know.
pub const ALL: [Backend; 6] = [
    Backend::Memory,
    Backend::File,
    Backend::Redis(Flavor::Redis62),
    Backend::Redis(Flavor::Redis70),
    Backend::Redis(Flavor::Redis82),
    Backend::Redis(Flavor::Valkey91),
];

/// A kind of store, and for a server its make and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Memory,
    File,
    Redis(Flavor),
    /// The newest PostgreSQL, which has a workload of its own.
    Postgres,
}

impl Backend {
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().chain([Self::Postgres]).find(|backend| backend.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
            Self::Redis(flavor) => flavor.name(),
            Self::Postgres => "postgres",
        }
    }

    /// True if several processes can share it.
    pub const fn is_shared(self) -> bool {
        !matches!(self, Self::Memory)
    }

    /// The server that it runs on.
    pub const fn flavor(self) -> Option<Flavor> {
        if let Self::Redis(flavor) = self { Some(flavor) } else { None }
    }

    pub const fn is_file(self) -> bool {
        matches!(self, Self::File)
    }

    pub fn open(self) -> OpenStore {
        let (mut server, mut database, mut directory) = (None, None, None);
        let url = match self {
            Self::Memory => "memory:".to_owned(),
            Self::File => {
                let made = TempDir::with_prefix("leasehold-bench-").expect("a directory for the file");
                let url = format!("file:{}", made.path().join("leases.db").display());
                directory = Some(made);
                url
            }
            Self::Redis(flavor) => {
                let started = Server::start(flavor);
                let url = started.url();
                server = Some(started);
                url
            }
            Self::Postgres => {
                let newest = Postgres::all_programs().into_values().next_back();
                let started = Postgres::of(&newest.expect("run `cargo xtask servers`"), &[]);
                let url = started.url();
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let made = runtime.expect("a runtime").block_on(postgres::init(&url));
                made.expect("tables in an empty database");
                database = Some(started);
                url
            }
        };
        let tap = server.as_ref().map(|server| Tap::before(server.port()));
        OpenStore { backend: self, url, server, tap, _database: database, directory }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The URL of a quorum of the stores at these URLs. None of them is restarted, so none has to abstain.
pub(crate) fn quorum_url<'a>(members: impl Iterator<Item = &'a str>, max_ttl: Duration) -> String {
    let members: Vec<_> = members.map(|url| format!("{url}?quarantine=no")).collect();
    format!("quorum:max-ttl={}s,{}", max_ttl.as_secs(), members.join(","))
}

/// An open backend. The server or file that it started is removed when this is dropped.
#[derive(Debug)]
pub struct OpenStore {
    pub backend: Backend,
    pub url: String,
    tap: Option<Tap>,
    server: Option<Server>,
    _database: Option<Postgres>,
    directory: Option<TempDir>,
}

impl OpenStore {
    /// The URL of the store through a proxy that counts commands, if there is a wire.
    pub fn counted_url(&self) -> String {
        self.tap.as_ref().map_or_else(|| self.url.clone(), |tap| format!("redis://127.0.0.1:{}", tap.port()))
    }

    /// The number of commands through that proxy so far; `None` where there is no wire.
    pub fn commands(&self) -> Option<u64> {
        self.tap.as_ref().map(Tap::commands)
    }

    pub const fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// The directory of the file store.
    pub fn directory(&self) -> Result<&Path, AnyError> {
        Ok(self.directory.as_ref().ok_or("only the file store has a directory")?.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_is_found_by_its_name_and_no_other_is() {
        for backend in ALL {
            assert_eq!(Backend::named(backend.name()), Some(backend));
        }
        assert_eq!(Backend::named("redis"), None);
    }
}
