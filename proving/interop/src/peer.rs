//! The libraries that Leasehold is tested with.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::Language;

/// A lock library of another language. Its version is in the manifests of its [`Language`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// npm `redlock`, version 4.
    Redlock4,
    /// npm `redlock`, version 5.
    Redlock5,
    /// npm `redislock`.
    Redislock,
    /// npm `redis-semaphore`, its `Mutex`.
    RedisSemaphore,
    /// npm `redlock-universal`, its simple lock.
    RedlockUniversal,
    /// PyPI `redis`, its `Lock`.
    RedisPy,
    /// PyPI `python-redis-lock`.
    PythonRedisLock,
    /// PyPI `pottery`, its `Redlock`.
    Pottery,
}

impl Peer {
    pub const ALL: [Self; 8] = [
        Self::Redlock4,
        Self::Redlock5,
        Self::Redislock,
        Self::RedisSemaphore,
        Self::RedlockUniversal,
        Self::RedisPy,
        Self::PythonRedisLock,
        Self::Pottery,
    ];

    /// The name in messages, and of its driver.
    pub fn name(self) -> &'static str {
        match self {
            Self::Redlock4 => "redlock-4",
            Self::Redlock5 => "redlock-5",
            Self::Redislock => "redislock",
            Self::RedisSemaphore => "redis-semaphore",
            Self::RedlockUniversal => "redlock-universal",
            Self::RedisPy => "redis-py",
            Self::PythonRedisLock => "python-redis-lock",
            Self::Pottery => "pottery-redlock",
        }
    }

    pub fn language(self) -> Language {
        match self {
            Self::RedisPy | Self::PythonRedisLock | Self::Pottery => Language::Python,
            _ => Language::Node,
        }
    }

    /// The key of a lock called `name` in this library, which a mixed fleet passes to Leasehold.
    pub fn key(self, name: &str) -> String {
        format!("{}{name}", self.prefix())
    }

    /// The name that makes its driver lock exactly this key: the rest after the library's own
    /// prefix, or `=` and the key, which the driver sets in place of the library's own.
    pub fn name_of(self, key: &str) -> String {
        key.strip_prefix(self.prefix()).map_or_else(|| format!("={key}"), str::to_owned)
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::RedisSemaphore => "mutex:",
            Self::PythonRedisLock => "lock:",
            Self::Pottery => "redlock:",
            _ => "",
        }
    }

    /// A TTL as short as the library supports, but long enough to be observed.
    pub fn short_ttl(self) -> Duration {
        match self {
            // It counts in whole seconds.
            Self::PythonRedisLock => Duration::from_secs(1),
            _ => Duration::from_millis(500),
        }
    }

    /// True if its release reports that the lock was no longer held.
    pub fn tells_a_late_release(self) -> bool {
        self != Self::RedisSemaphore
    }

    /// True if a holder can extend its lock by a call.
    pub fn extends(self) -> bool {
        self != Self::RedisSemaphore
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

pub(crate) fn program(language: Language, name: &str) -> PathBuf {
    let ending = match language {
        Language::Node => "js",
        Language::Python => "py",
    };
    Path::new(env!("CARGO_MANIFEST_DIR")).join("drivers").join(format!("{name}.{ending}"))
}
