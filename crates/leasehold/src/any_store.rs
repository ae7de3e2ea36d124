//! Makes the store that a URL names.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{BoxFuture, Instant, Misuse, Runtime, Store};

use crate::memory::MemoryStore;
use crate::quorum::QuorumStore;

/// A store of any kind, as a member of [`Locks::quorum`](crate::Locks::quorum).
#[derive(Clone)]
pub struct AnyStore(Kind);

#[derive(Clone)]
enum Kind {
    /// A URL that has been checked. Its store is made once a runtime is available.
    Url(Arc<str>),
    Made(Arc<dyn Store>),
}

impl AnyStore {
    /// The store at a URL, as [`Locks::connect`](crate::Locks::connect) takes it. Opens nothing.
    ///
    /// # Errors
    ///
    /// [`Misuse::Url`] if the URL names no store.
    pub fn from_url(url: &str) -> Result<Self, Misuse> {
        let nowhere: Arc<dyn Runtime> = Arc::new(Nowhere);
        from_url(url, &nowhere)?;
        Ok(Self(Kind::Url(url.into())))
    }

    pub(crate) fn make(self, runtime: &Arc<dyn Runtime>) -> Result<Arc<dyn Store>, Misuse> {
        match self.0 {
            Kind::Url(url) => from_url(&url, runtime),
            Kind::Made(store) => Ok(store),
        }
    }
}

impl From<Arc<dyn Store>> for AnyStore {
    fn from(store: Arc<dyn Store>) -> Self {
        Self(Kind::Made(store))
    }
}

/// Never shows a URL, because it may contain a password.
impl fmt::Debug for AnyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Url(_) => f.debug_tuple("AnyStore").finish_non_exhaustive(),
            Kind::Made(store) => f.debug_tuple("AnyStore").field(&store.name()).finish(),
        }
    }
}

/// A runtime for a store that is made only to check its URL, and that never runs.
#[derive(Debug)]
struct Nowhere;

impl Runtime for Nowhere {
    fn now(&self) -> Instant {
        Instant::from_nanos(0)
    }

    fn since_epoch(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, _: Instant) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _: BoxFuture<'static, ()>) {}

    fn random(&self) -> u128 {
        0
    }
}

/// The store that a URL names. This opens nothing.
pub(crate) fn from_url(url: &str, runtime: &Arc<dyn Runtime>) -> Result<Arc<dyn Store>, Misuse> {
    let runtime = runtime.clone();
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(refused(&format!("a store URL begins with its kind; {KNOWN}")));
    };
    match scheme {
        "memory" if rest.is_empty() => Ok(Arc::new(MemoryStore::new(runtime))),
        "memory" => Err(refused("memory: takes nothing behind the colon")),
        "file" => file(rest, runtime),
        "redis" | "rediss" | "redis+unix" | "redis+sentinel" | "rediss+sentinel" => redis(url, runtime),
        "valkey" | "valkeys" | "valkey+unix" | "valkey+sentinel" | "valkeys+sentinel" => redis(url, runtime),
        "unix" => redis(url, runtime),
        "redis+cluster" | "rediss+cluster" | "valkey+cluster" | "valkeys+cluster" => cluster(url, runtime),
        "postgres" | "postgresql" => postgres(url, runtime),
        "quorum" => quorum(url, &runtime),
        _ => Err(refused(&format!("the kind of this store URL is not known; {KNOWN}"))),
    }
}

fn quorum(url: &str, runtime: &Arc<dyn Runtime>) -> Result<Arc<dyn Store>, Misuse> {
    let (urls, max_ttl) = QuorumStore::members_in(url)?.unwrap_or_default();
    let members: Result<Vec<_>, _> = urls.into_iter().map(|url| from_url(url, runtime)).collect();
    let max_ttl = max_ttl.unwrap_or(QuorumStore::MAX_TTL_OF_URL);
    Ok(Arc::new(QuorumStore::new(members?, max_ttl, runtime.clone())?))
}

#[cfg(all(feature = "file", unix))]
fn file(path: &str, runtime: Arc<dyn Runtime>) -> Result<Arc<dyn Store>, Misuse> {
    Ok(Arc::new(leasehold_file::FileStore::at(leasehold_file::path_in_url(path)?, runtime)))
}

#[cfg(not(unix))]
fn file(_: &str, _: Arc<dyn Runtime>) -> Result<Arc<dyn Store>, Misuse> {
    Err(refused("this system has no file store: use redis://HOST or postgres://HOST/DATABASE"))
}

#[cfg(all(not(feature = "file"), unix))]
fn file(_: &str, _: Arc<dyn Runtime>) -> Result<Arc<dyn Store>, Misuse> {
    Err(refused("this build has no file store: enable the feature `file`"))
}

#[cfg(feature = "redis")]
fn redis(url: &str, runtime: Arc<dyn Runtime>) -> Result<Arc<dyn Store>, Misuse> {
    Ok(Arc::new(leasehold_redis::RedisStore::from_url(url, runtime)?))
}

#[cfg(not(feature = "redis"))]
fn redis(_: &str, _: Arc<dyn Runtime>) -> Result<Arc<dyn Store>, Misuse> {
    Err(refused("this build has no Redis store: enable the feature `redis`"))
}

#[cfg(feature = "redis")]
fn cluster(url: &str, runtime: Arc<dyn Runtime>) -> Result<Arc<dyn Store>, Misuse> {
    Ok(Arc::new(leasehold_redis::ClusterStore::from_url(url, runtime)?))
}

#[cfg(not(feature = "redis"))]
fn cluster(url: &str, runtime: Arc<dyn Runtime>) -> Result<Arc<dyn Store>, Misuse> {
    redis(url, runtime)
}

#[cfg(feature = "postgres")]
fn postgres(url: &str, runtime: Arc<dyn Runtime>) -> Result<Arc<dyn Store>, Misuse> {
    Ok(Arc::new(leasehold_postgres::PostgresStore::from_url(url, runtime)?))
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: &str, _: Arc<dyn Runtime>) -> Result<Arc<dyn Store>, Misuse> {
    Err(refused("this build has no PostgreSQL store: enable the feature `postgres`"))
}

const KNOWN: &str = "known are memory:, file:PATH, redis://HOST, rediss://HOST, redis+unix:///SOCKET, \
    redis+sentinel://HOST,HOST/MASTER, redis+cluster://HOST,HOST, postgres://HOST/DATABASE and quorum:URL,URL,URL";

/// Never quotes the URL: it may contain a password anywhere.
fn refused(fact: &str) -> Misuse {
    Misuse::Url { reason: fact.into() }
}
