//! A server process for one test.

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{
    Connection, Flavor, Reply, Setup,
    launch::{NotReady, READY_WITHIN, log_tail, run},
    process::Process,
};

/// The cluster bus listens 10 000 above the port, so the port must leave room for it.
const HIGHEST_PORT: u16 = u16::MAX - 10_000;

/// A running server. Dropping it kills it and removes its directory.
#[derive(Debug)]
pub struct Server {
    setup: Setup,
    program: PathBuf,
    port: u16,
    // Before the directory, so that the process is gone when its files go.
    process: Mutex<Process>,
    directory: TempDir,
}

impl Server {
    /// Starts a server that keeps nothing on disk, and returns when it answers.
    ///
    /// # Panics
    ///
    /// If the program cannot be found, with the remedy; if the server does not answer within half a
    /// minute, with the end of its log.
    #[track_caller]
    pub fn start(flavor: Flavor) -> Self {
        Self::setup(flavor).start()
    }

    /// The same with more to say about it, up to [`Setup::start`].
    pub fn setup(flavor: Flavor) -> Setup {
        Setup::new(flavor)
    }

    #[track_caller]
    pub(crate) fn launch(setup: Setup) -> Self {
        // No closures around the panics here and below: they would show this file instead of the
        // test's line.
        let program = match setup.flavor.find() {
            Ok(program) => program,
            Err(not_found) => panic!("{not_found}"),
        };
        let directory = match tempfile::Builder::new().prefix(&format!("{}-", setup.flavor)).tempdir() {
            Ok(directory) => directory,
            Err(error) => panic!("{}: no directory for it: {error}", setup.flavor),
        };
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            let port = free_port();
            match run(&setup, &program, directory.path(), port, deadline) {
                Ok(process) => return Self { setup, program, port, process: Mutex::new(process), directory },
                // Somebody else took the port between our look and the server's.
                Err(NotReady::PortTaken) if Instant::now() < deadline => {}
                Err(why) => panic!("{}: {why}\n{}", setup.flavor, log_tail(directory.path())),
            }
        }
    }

    /// What runs here.
    pub fn flavor(&self) -> Flavor {
        self.setup.flavor
    }

    /// The TCP port on 127.0.0.1; the one that speaks TLS if the server does.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:PORT`, or `rediss:` if the server speaks TLS. A password is not in it.
    pub fn url(&self) -> String {
        let scheme = if self.setup.tls.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// The path of the Unix socket.
    ///
    /// # Panics
    ///
    /// If the server was set up without one.
    #[track_caller]
    pub fn unix_path(&self) -> PathBuf {
        assert!(self.setup.unix_socket, "{} was set up without a Unix socket", self.setup.flavor);
        socket_path(self.directory.path())
    }

    /// The directory that the server keeps its files in.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The process id. Another one after [`restart`](Self::restart).
    pub fn pid(&self) -> u32 {
        self.process().id()
    }

    /// SIGKILL; returns when the process is gone.
    pub fn kill_9(&self) {
        self.process().kill();
    }

    /// Ends the server in good order if it runs, and starts it again on the same port, in the same
    /// directory, with the same setup. Without [`Setup::append_only`] it comes back empty.
    ///
    /// # Panics
    ///
    /// If it does not answer within half a minute.
    #[track_caller]
    pub fn restart(&self) {
        let mut process = self.process();
        process.end();
        let deadline = Instant::now() + READY_WITHIN;
        *process = loop {
            match run(&self.setup, &self.program, self.directory.path(), self.port, deadline) {
                Ok(process) => break process,
                // A connection of somebody's may have been given this port to come from; it will
                // not last.
                Err(NotReady::PortTaken) if Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(20));
                }
                Err(why) => panic!("{}: {why}\n{}", self.setup.flavor, log_tail(self.directory.path())),
            }
        };
    }

    /// SIGSTOP: connections stay open, nothing is answered. Returns when the process has stopped.
    ///
    /// # Panics
    ///
    /// If the process has ended.
    #[track_caller]
    pub fn stop(&self) {
        if let Err(error) = self.process().stop() {
            panic!("{}: cannot be stopped: {error}", self.setup.flavor);
        }
    }

    /// SIGCONT: what came in meanwhile is answered now.
    ///
    /// # Panics
    ///
    /// If the process has ended.
    #[track_caller]
    pub fn cont(&self) {
        if let Err(error) = self.process().cont() {
            panic!("{}: cannot go on: {error}", self.setup.flavor);
        }
    }

    /// A connection for a test's own commands, past any proxy, with the password given if there is
    /// one.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, or answers nothing within 5 s.
    pub fn connect(&self) -> io::Result<Connection> {
        connect(&self.setup, self.directory.path(), self.port)
    }

    /// One command on a connection of its own.
    ///
    /// # Panics
    ///
    /// If the server does not answer. An error that it answers is a [`Reply`].
    #[track_caller]
    pub fn command(&self, words: &[&[u8]]) -> Reply {
        match self.connect().and_then(|mut connection| connection.command(words)) {
            Ok(reply) => reply,
            Err(error) => {
                let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
                panic!("{}: no answer to {words:?}: {error}", self.setup.flavor)
            }
        }
    }

    /// [`command`](Self::command) in text: `server.text(&["GET", "k"])`.
    ///
    /// # Panics
    ///
    /// As [`command`](Self::command).
    #[track_caller]
    pub fn text(&self, words: &[&str]) -> Reply {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
        self.command(&words)
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        // A restart that panicked leaves the old process, ended: no state that others must not see.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A port that nobody listens on at this moment.
fn free_port() -> u16 {
    loop {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .expect("127.0.0.1 has a free port")
            .port();
        if port <= HIGHEST_PORT {
            return port;
        }
    }
}

pub(crate) fn connect(setup: &Setup, directory: &Path, port: u16) -> io::Result<Connection> {
    let mut connection = if setup.tls.is_some() {
        Connection::open_unix(&socket_path(directory))?
    } else {
        Connection::open(port)?
    };
    if let Some(password) = &setup.password {
        // A refusal shows in the answer to the command that follows.
        connection.text(&["AUTH", password])?;
    }
    if let Some((user, password)) = &setup.login {
        connection.text(&["AUTH", user, password])?;
    }
    Ok(connection)
}

pub(crate) fn socket_path(directory: &Path) -> PathBuf {
    directory.join("server.sock")
}
