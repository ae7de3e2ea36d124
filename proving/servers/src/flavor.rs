//! The servers that the project is tested with, and where their programs are.

use std::{
    env,
    error::Error,
    fmt,
    path::{Path, PathBuf},
    process::Command,
};

/// A server program and its release line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flavor {
    /// Redis 5.0, the oldest line that works.
    Redis50,
    /// Redis 6.2, the oldest line that is still widely run.
    Redis62,
    /// Redis 7.0 as built by Debian: the only one here that supports TLS.
    Redis70,
    /// Redis 8.2.
    Redis82,
    /// Valkey 9.1.
    Valkey91,
}

impl Flavor {
    /// Every flavor with users and RESP3, oldest first.
    pub const ALL: [Self; 4] = [Self::Redis62, Self::Redis70, Self::Redis82, Self::Valkey91];

    /// Every flavor that `cargo xtask servers` downloads.
    pub const DOWNLOADED: [Self; 5] =
        [Self::Redis50, Self::Redis62, Self::Redis70, Self::Redis82, Self::Valkey91];

    /// The name in messages, and of its directory in `target/servers`: `redis-6.2`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Redis50 => "redis-5.0",
            Self::Redis62 => "redis-6.2",
            Self::Redis70 => "redis-7.0",
            Self::Redis82 => "redis-8.2",
            Self::Valkey91 => "valkey-9.1",
        }
    }

    /// Major and minor version: `6.2`.
    pub fn version(self) -> &'static str {
        self.name().split_once('-').map_or("", |(_, version)| version)
    }

    /// The file name of the program: `redis-server` or `valkey-server`.
    pub fn program(self) -> &'static str {
        if self == Self::Valkey91 { "valkey-server" } else { "redis-server" }
    }

    /// Where `cargo xtask servers` puts the program. It need not exist.
    pub fn fetched(self) -> PathBuf {
        Self::fetched_into().join(self.name()).join(self.program())
    }

    /// The directory of downloaded servers: this workspace's `target/servers` in any case.
    pub fn fetched_into() -> PathBuf {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        workspace.expect("this crate lies two levels down").join("target/servers")
    }

    /// The program to run: the downloaded one, or one of exactly this version on the `PATH`.
    pub fn find(self) -> Result<PathBuf, NotFound> {
        let fetched = self.fetched();
        if fetched.is_file() {
            return Ok(fetched);
        }
        self.on_path().ok_or(NotFound(self))
    }

    /// The program of exactly this version on the `PATH`, if there is one.
    pub fn on_path(self) -> Option<PathBuf> {
        let directories = env::var_os("PATH")?;
        env::split_paths(&directories)
            .map(|directory| directory.join(self.program()))
            .find(|program| self.check(program).is_ok())
    }

    /// Runs the program with `--version` and checks its output.
    pub fn check(self, program: &Path) -> Result<(), String> {
        let output = Command::new(program)
            .arg("--version")
            .output()
            .map_err(|error| format!("{} does not run: {error}", program.display()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let kind = if self == Self::Valkey91 { "Valkey" } else { "Redis" };
        if said.starts_with(&format!("{kind} server v={}.", self.version())) {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(format!(
            "{} is no {self}: its --version says {:?}",
            program.display(),
            format!("{}{}", said.trim(), stderr.trim())
        ))
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The program of a flavor is neither downloaded nor on the `PATH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotFound(Flavor);

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(flavor) = self;
        write!(
            f,
            "{flavor}: no server: neither target/servers/{flavor}/{program} nor a {program} {version} on the PATH; \
             run `cargo xtask servers`",
            program = flavor.program(),
            version = flavor.version(),
        )
    }
}

impl Error for NotFound {}
