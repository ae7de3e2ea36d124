//! The compared libraries, and the program that runs each.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fmt};

use bench::backend::Backend;
use competitor::AnyError;
use interop::{Language, Peer};

use crate::ours::PLAY;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Competitor {
    kind: Kind,
    name: &'static str,
    /// How it waits, which explains most differences.
    pub waits: Waits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ours,
    Rust,
    RustOnPostgres,
    Foreign(Peer),
}

/// How a library waits for a lock that somebody else holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// The server notifies it.
    Told,
    /// It polls.
    Asks,
    /// It does not wait: it fails at once.
    Never,
}

/// All libraries, Leasehold first.
pub const ALL: [Competitor; 13] = [
    Competitor { kind: Kind::Ours, name: "leasehold", waits: Waits::Told },
    Competitor { kind: Kind::Rust, name: "rslock", waits: Waits::Asks },
    Competitor { kind: Kind::Rust, name: "redis-lock", waits: Waits::Asks },
    Competitor { kind: Kind::Rust, name: "distributed-lock", waits: Waits::Never },
    Competitor { kind: Kind::RustOnPostgres, name: "sqlx", waits: Waits::Told },
    Competitor { kind: Kind::RustOnPostgres, name: "distributed-lock-postgres", waits: Waits::Told },
    foreign(Peer::Redlock4, "redlock-4", Waits::Asks),
    foreign(Peer::Redlock5, "redlock-5", Waits::Asks),
    foreign(Peer::RedisSemaphore, "redis-semaphore", Waits::Asks),
    foreign(Peer::RedlockUniversal, "redlock-universal", Waits::Asks),
    foreign(Peer::RedisPy, "redis-py", Waits::Asks),
    foreign(Peer::PythonRedisLock, "python-redis-lock", Waits::Told),
    foreign(Peer::Pottery, "pottery-redlock", Waits::Asks),
];

const fn foreign(peer: Peer, name: &'static str, waits: Waits) -> Competitor {
    Competitor { kind: Kind::Foreign(peer), name, waits }
}

/// Rust's libraries, and one per other language: enough to try every part.
pub const FEW: [&str; 8] = [
    "leasehold",
    "rslock",
    "redis-lock",
    "distributed-lock",
    "sqlx",
    "distributed-lock-postgres",
    "redis-semaphore",
    "redis-py",
];

impl Competitor {
    pub const fn name(self) -> &'static str {
        self.name
    }

    pub fn is_ours(self) -> bool {
        self.kind == Kind::Ours
    }

    /// True if it has locks on this backend.
    pub fn locks_on(self, backend: Backend) -> bool {
        match self.kind {
            Kind::Ours => true,
            Kind::RustOnPostgres => backend == Backend::Postgres,
            Kind::Rust | Kind::Foreign(_) => backend.flavor().is_some(),
        }
    }

    pub fn language(self) -> &'static str {
        match self.kind {
            Kind::Ours | Kind::Rust | Kind::RustOnPostgres => "Rust",
            Kind::Foreign(peer) => match peer.language() {
                Language::Node => "Node",
                _ => "Python",
            },
        }
    }

    /// Its version, from the manifest that it was installed from.
    pub fn version(self) -> String {
        let manifest = match self.kind {
            Kind::Ours => return env!("CARGO_PKG_VERSION").to_owned(),
            Kind::Rust | Kind::RustOnPostgres => include_str!("../peers/Cargo.toml"),
            Kind::Foreign(peer) => match peer.language() {
                Language::Node => include_str!("../../interop/peers/package.json"),
                _ => include_str!("../../interop/peers/requirements.txt"),
            },
        };
        let package = match self.name {
            "redis-py" => "redis",
            "pottery-redlock" => "pottery",
            "distributed-lock" => "distributed-lock-redis",
            name => name,
        };
        version_of(manifest, package).unwrap_or_default().to_owned()
    }

    /// The programs that this machine lacks to run it and cannot download.
    pub fn lacking(self) -> Vec<&'static str> {
        match self.kind {
            Kind::Foreign(peer) if !peer.language().has_libraries() => peer.language().lacking(),
            _ => Vec::new(),
        }
    }

    /// The command that runs it on the server at this URL.
    pub fn command(self, url: &str) -> Result<Command, AnyError> {
        let is_missing = |at: &Path| {
            format!("{self}: it is not in {}, or not as it is wanted; run `cargo xtask peers`", at.display())
        };
        let mut command = match self.kind {
            Kind::Ours => {
                let mut command = Command::new(env::current_exe()?);
                command.arg(PLAY);
                command
            }
            Kind::Rust | Kind::RustOnPostgres => {
                let program = rust_peers();
                if !program.is_file() {
                    return Err(is_missing(&program).into());
                }
                let mut command = Command::new(program);
                command.arg(self.name);
                command
            }
            Kind::Foreign(peer) => {
                let language = peer.language();
                if !language.has_libraries() {
                    return Err(is_missing(&language.home()).into());
                }
                language.command(&driver(language, self.name))
            }
        };
        command.arg(url);
        Ok(command)
    }
}

impl fmt::Display for Competitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

/// The program that runs Rust's other libraries. It need not exist.
fn rust_peers() -> PathBuf {
    Language::fetched_into().join("rust/release/rust-peers")
}

fn driver(language: Language, name: &str) -> PathBuf {
    let ending = if language == Language::Node { "js" } else { "py" };
    Path::new(env!("CARGO_MANIFEST_DIR")).join("drivers").join(format!("{name}.{ending}"))
}

/// A package's version in a manifest: `"ioredis": "5.11.1",`, `redis==8.1.0` or `version = "=0.10.0"`.
fn version_of<'a>(manifest: &'a str, package: &str) -> Option<&'a str> {
    manifest.lines().find_map(|line| {
        let rest = line.trim_start().trim_start_matches('"').strip_prefix(package)?;
        // Excludes packages whose name only starts with this one.
        let rest = rest.strip_prefix(['"', ' ', '='])?;
        let version = &rest[rest.find(|c: char| c.is_ascii_digit())?..];
        version.split(['"', ' ', ',', ';']).next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_found_in_its_manifest() {
        for competitor in ALL {
            let version = competitor.version();
            assert!(version.split('.').count() >= 3, "{competitor}: {version:?}");
        }
        let versions = "[\"redis-lock\": \"1.2.3\"]\n\"redis\": \"npm:redis@4.5.6-beta.1\",\n";
        assert_eq!(version_of(versions, "redis"), Some("4.5.6-beta.1"));
    }

    #[test]
    fn every_contender_of_another_language_has_its_driver() {
        for competitor in ALL {
            if let Kind::Foreign(peer) = competitor.kind {
                assert!(driver(peer.language(), competitor.name).is_file(), "{competitor}");
                assert_eq!(peer.name(), competitor.name);
            }
        }
    }

    #[test]
    fn the_few_are_among_all() {
        assert!(FEW.iter().all(|name| ALL.iter().any(|competitor| competitor.name == *name)));
    }
}
