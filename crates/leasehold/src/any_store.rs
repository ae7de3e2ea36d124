//! From a URL to the store that it names.

use std::sync::Arc;

use leasehold_core::{Misuse, Runtime, Store};

use crate::memory::MemoryStore;

/// The store that a URL names. Opens nothing.
pub(crate) fn from_url(url: &str, runtime: &Arc<dyn Runtime>) -> Result<Arc<dyn Store>, Misuse> {
    let runtime = runtime.clone();
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(refused(&format!("a store URL begins with its kind; {KNOWN}")));
    };
    match scheme {
        "memory" if rest.is_empty() => Ok(Arc::new(MemoryStore::new(runtime))),
        "memory" => Err(refused("memory: takes nothing behind the colon")),
        "file" => file(rest, runtime),
        "redis" | "rediss" | "redis+unix" => redis(url, runtime),
        _ => Err(refused(&format!("the kind of this store URL is not known; {KNOWN}"))),
    }
}

#[cfg(feature = "file")]
fn file(path: &str, runtime: Arc<dyn Runtime>) -> Result<Arc<dyn Store>, Misuse> {
    // `file:///path` is how file URLs are usually written; `file:path` is shorter.
    let path = match path.strip_prefix("//") {
        Some(path) if path.starts_with('/') => path,
        Some(_) => {
            return Err(refused("file:// takes an absolute path, as in file:///var/lib/app/leases.db"));
        }
        None => path,
    };
    if path.is_empty() {
        return Err(refused("file: lacks a path, as in file:/var/lib/app/leases.db"));
    }
    Ok(Arc::new(leasehold_file::FileStore::at(path, runtime)))
}

#[cfg(not(feature = "file"))]
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

const KNOWN: &str = "known are memory:, file:PATH, redis://HOST, rediss://HOST and redis+unix:///SOCKET";

/// Never quotes the URL: there may be a password in it, wherever it stands.
fn refused(fact: &str) -> Misuse {
    Misuse::Url { reason: fact.into() }
}
