//! A PostgreSQL server: no store of leases, but a resource that compares fences.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Flavor;
use crate::launch::READY_WITHIN;
use crate::process::{Process, dying_with_us};

/// PostgreSQL refuses to run as root; there it runs as whoever owns nothing.
const NOBODY: u32 = 65_534;

/// A running server with an empty database, gone when it is dropped.
#[derive(Debug)]
pub struct Postgres {
    port: u16,
    // Ended before its directory goes.
    _process: Process,
    _directory: TempDir,
}

impl Postgres {
    /// Makes a database and starts a server on it.
    ///
    /// # Panics
    ///
    /// If there is no program, or it does not start.
    #[track_caller]
    pub fn start() -> Self {
        Self::try_start().unwrap_or_else(|why| panic!("PostgreSQL: {why}"))
    }

    /// How to reach it, for a client: `host=… port=… user=…`.
    pub fn config(&self) -> String {
        format!("host=127.0.0.1 port={} user=postgres dbname=postgres", self.port)
    }

    /// The directory of the programs: of those that were fetched, or of a version of this machine's.
    pub fn programs() -> Option<PathBuf> {
        let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let installed = debian.map(|version| version.path().join("bin"));
        let all = [Self::fetched().join("bin")].into_iter().chain(installed);
        all.into_iter().find(|bin| bin.join("initdb").is_file() && bin.join("postgres").is_file())
    }

    /// Where `cargo xtask servers` puts it, whether or not it is there.
    pub fn fetched() -> PathBuf {
        Flavor::fetched_into().join("postgres-16")
    }

    fn try_start() -> Result<Self, String> {
        let programs = Self::programs().ok_or("there is none; run `cargo xtask servers`")?;
        let said = |error: io::Error| error.to_string();
        let directory = TempDir::new().map_err(said)?;
        let data = directory.path().join("data");
        fs::create_dir(&data).map_err(said)?;
        if is_root() {
            chown(directory.path(), Some(NOBODY), Some(NOBODY)).map_err(said)?;
            chown(&data, Some(NOBODY), Some(NOBODY)).map_err(said)?;
        }
        let made = as_nobody(&programs.join("initdb"))
            .args([
                "--auth=trust",
                "--username=postgres",
                "--no-sync",
                "--no-locale",
                "--encoding=UTF8",
                "-D",
            ])
            .arg(&data)
            .current_dir(directory.path())
            .output()
            .map_err(said)?;
        if !made.status.success() {
            return Err(format!("initdb: {}", String::from_utf8_lossy(&made.stderr)));
        }
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).map_err(said)?.port();
        let log_path = directory.path().join("log");
        let log = || File::options().create(true).append(true).open(&log_path).map_err(said);
        let mut command = as_nobody(&programs.join("postgres"));
        command
            .arg("-D")
            .arg(&data)
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off"])
            .args(["-p", &port.to_string()])
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(log()?)
            .stderr(log()?);
        let mut process = Process::spawn(command).map_err(said)?;
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            let log = fs::read_to_string(&log_path).map_err(said)?;
            if log.contains("ready to accept connections") {
                return Ok(Self { port, _process: process, _directory: directory });
            }
            if Instant::now() >= deadline || process.ended().map_err(said)?.is_some() {
                return Err(format!("it did not start: {log}"));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn as_nobody(program: &Path) -> Command {
    if !is_root() {
        return dying_with_us(program);
    }
    let mut command = Command::new("setpriv");
    let nobody = NOBODY.to_string();
    command
        .args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups", "--pdeathsig", "KILL", "--"])
        .arg(program);
    command
}
