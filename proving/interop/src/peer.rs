//! The libraries with which Leasehold is tested.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::Language;

/// A lock library of another language. Its version stands in the manifests of its [`Language`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
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
    /// All of them.
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

    /// What it is written in.
    pub fn language(self) -> Language {
        match self {
            Self::RedisPy | Self::PythonRedisLock | Self::Pottery => Language::Python,
            _ => Language::Node,
        }
    }

    /// The key on the server of a lock that is called `name` in this library: what a mixed fleet
    /// gives to ours.
    pub fn key(self, name: &str) -> String {
        format!("{}{name}", self.prefix())
    }

    /// What its driver must be given as a name to lock this very key: the rest after the library's
    /// own prefix, or, with `=` before it, the key, which the driver puts where the library keeps
    /// its own.
    pub fn name_of(self, key: &str) -> String {
        key.strip_prefix(self.prefix()).map_or_else(|| format!("={key}"), str::to_owned)
    }

    /// What it puts before the names of its locks.
    fn prefix(self) -> &'static str {
        match self {
            Self::RedisSemaphore => "mutex:",
            Self::PythonRedisLock => "lock:",
            Self::Pottery => "redlock:",
            _ => "",
        }
    }

    /// A ttl as short as the library can, and that is not over before anybody looked.
    pub fn short_ttl(self) -> Duration {
        match self {
            // It counts in whole seconds.
            Self::PythonRedisLock => Duration::from_secs(1),
            _ => Duration::from_millis(500),
        }
    }

    /// Whether its release says that the lock was not held any more.
    pub fn tells_a_late_release(self) -> bool {
        self != Self::RedisSemaphore
    }

    /// Whether a holder can prolong its lock by a call.
    pub fn extends(self) -> bool {
        self != Self::RedisSemaphore
    }

    /// Its driver's program.
    pub(crate) fn program(self) -> PathBuf {
        program(self.language(), self.name())
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
