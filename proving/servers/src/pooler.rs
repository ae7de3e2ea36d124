//! PgBouncer in front of a PostgreSQL server.

use std::env;
use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::launch::READY_WITHIN;
use crate::postgres::{as_nobody, give_to_nobody, unused_port};
use crate::{Flavor, Postgres, Process};

/// A PgBouncer, which gives each transaction or statement any session; it ends when dropped.
#[derive(Debug)]
pub struct Pooler {
    port: u16,
    _process: Process,
    _directory: TempDir,
}

impl Pooler {
    /// Starts PgBouncer in front of this server, in transaction mode.
    #[track_caller]
    pub fn before(server: &Postgres) -> Self {
        Self::in_mode("transaction", server)
    }

    /// The same, in this mode.
    #[track_caller]
    pub fn in_mode(mode: &str, server: &Postgres) -> Self {
        Self::try_before(server, mode).unwrap_or_else(|why| panic!("PgBouncer: {why}"))
    }

    /// The URL of the store through PgBouncer.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// The URL of its own console.
    pub fn console(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/pgbouncer", self.port)
    }

    /// The downloaded program, or the one installed on this machine.
    pub fn program() -> Option<PathBuf> {
        let path = env::var_os("PATH").unwrap_or_default();
        let installed = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
        let all = [Self::fetched()].into_iter().chain(installed).map(|place| place.join("pgbouncer"));
        all.into_iter().find(|program| program.is_file())
    }

    /// Where `cargo xtask servers` puts it. It need not exist.
    pub fn fetched() -> PathBuf {
        Flavor::fetched_into().join("pgbouncer")
    }

    fn try_before(server: &Postgres, mode: &str) -> io::Result<Self> {
        let program =
            Self::program().ok_or_else(|| io::Error::other("there is none; run `cargo xtask servers`"))?;
        let directory = TempDir::with_prefix("pgbouncer-")?;
        let port = unused_port()?;
        let [settings, users] = ["pgbouncer.ini", "users"].map(|name| directory.path().join(name));
        fs::write(&users, "\"postgres\" \"\"\n")?;
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = {mode}\ndefault_pool_size = 4\n\
             admin_users = postgres\nserver_login_retry = 1\n",
            server.port(),
            users.display()
        );
        fs::write(&settings, text)?;
        [directory.path(), &settings, &users].into_iter().try_for_each(give_to_nobody)?;
        let mut command = as_nobody(&program);
        command.arg("-q").arg(&settings).stdin(Stdio::null());
        let mut process = Process::spawn(command)?;
        let deadline = Instant::now() + READY_WITHIN;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() >= deadline || process.ended()?.is_some() {
                return Err(io::Error::other("it did not start"));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(Self { port, _process: process, _directory: directory })
    }
}
