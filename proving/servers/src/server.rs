//! A server process for one test.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{
    Connection, Flavor, Reply, Setup,
    launch::{NotReady, READY_WITHIN, connect, log_tail, run, socket_path},
    postgres::unused_port,
    process::Process,
};

/// The cluster bus listens on a port that is 10 000 higher.
const HIGHEST_PORT: u16 = u16::MAX - 10_000;

/// A running server. Dropping it kills it and removes its directory.
#[derive(Debug)]
pub struct Server {
    setup: Setup,
    program: PathBuf,
    port: u16,
    // Declared before the directory, so that the process is gone when its files are removed.
    process: Mutex<Process>,
    directory: TempDir,
}

impl Server {
    /// Starts a server that keeps nothing on disk, and returns when it answers.
    ///
    /// # Panics
    ///
    /// If the program cannot be found, with the remedy; or if the server does not answer within
    /// half a minute, with the end of its log.
    #[track_caller]
    pub fn start(flavor: Flavor) -> Self {
        Self::setup(flavor).start()
    }

    /// The same with further settings; [`Setup::start`] starts it.
    pub fn setup(flavor: Flavor) -> Setup {
        Setup::new(flavor)
    }

    #[track_caller]
    pub(crate) fn launch(setup: Setup) -> Self {
        // No closures around these panics: they would show this file instead of the test's line.
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
                // Another process took the port between our check and the server's start.
                Err(NotReady::PortTaken) if Instant::now() < deadline => {}
                Err(why) => panic!("{}: {why}\n{}", setup.flavor, log_tail(directory.path())),
            }
        }
    }

    /// The server program and its version.
    pub fn flavor(&self) -> Flavor {
        self.setup.flavor
    }

    /// The TCP port on 127.0.0.1; with TLS, the port that uses TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:PORT`, or `rediss:` with TLS. Contains no password.
    pub fn url(&self) -> String {
        let scheme = if self.setup.tls.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// The path of the Unix socket.
    #[track_caller]
    pub fn unix_path(&self) -> PathBuf {
        assert!(self.setup.unix_socket, "{} was set up without a Unix socket", self.setup.flavor);
        socket_path(self.directory.path())
    }

    /// The directory of the server's files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The process id. It changes with [`restart`](Self::restart).
    pub fn pid(&self) -> u32 {
        self.process().id()
    }

    /// Sends SIGKILL, and returns when the process is gone.
    pub fn kill_9(&self) {
        self.process().kill();
    }

    /// Shuts the server down if it runs, and starts it again on the same port, in the same
    /// directory, with the same settings. Without [`Setup::append_only`] it comes back empty.
    /// Panics if it does not answer within half a minute.
    #[track_caller]
    pub fn restart(&self) {
        let mut process = self.process();
        process.end();
        let deadline = Instant::now() + READY_WITHIN;
        *process = loop {
            match run(&self.setup, &self.program, self.directory.path(), self.port, deadline) {
                Ok(process) => break process,
                // Another outgoing connection may have been given this port for a while.
                Err(NotReady::PortTaken) if Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(20));
                }
                Err(why) => panic!("{}: {why}\n{}", self.setup.flavor, log_tail(self.directory.path())),
            }
        };
    }

    /// Sends SIGSTOP, and returns when the process has stopped: connections stay open and silent.
    #[track_caller]
    pub fn stop(&self) {
        if let Err(error) = self.process().stop() {
            panic!("{}: cannot be stopped: {error}", self.setup.flavor);
        }
    }

    /// Sends SIGCONT: commands that arrived meanwhile are answered now.
    #[track_caller]
    pub fn cont(&self) {
        if let Err(error) = self.process().cont() {
            panic!("{}: cannot go on: {error}", self.setup.flavor);
        }
    }

    /// A direct connection past any proxy, authenticated if there is a password.
    pub fn connect(&self) -> io::Result<Connection> {
        connect(&self.setup, self.directory.path(), self.port)
    }

    /// Sends one command on a new connection.
    /// An error that the server answers is a [`Reply`].
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
    #[track_caller]
    pub fn text(&self, words: &[&str]) -> Reply {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
        self.command(&words)
    }

    /// The id that the server gave itself when it started.
    #[track_caller]
    pub fn run_id(&self) -> String {
        let info = self.text(&["INFO", "server"]);
        let id = info.as_text().and_then(|text| text.lines().find_map(|line| line.strip_prefix("run_id:")));
        id.expect("INFO has a run_id").to_owned()
    }

    /// The keys that match a pattern, in order.
    #[track_caller]
    pub fn keys(&self, pattern: &str) -> Vec<String> {
        let reply = self.text(&["KEYS", pattern]);
        let Reply::Array(Some(keys)) = &reply else { panic!("{}: KEYS: {reply:?}", self.setup.flavor) };
        let mut keys: Vec<_> =
            keys.iter().map(|key| key.as_text().unwrap_or_else(|| panic!("{key:?}")).to_owned()).collect();
        keys.sort();
        keys
    }

    /// How often a command was called, also by scripts.
    #[track_caller]
    pub fn calls(&self, command: &str) -> u64 {
        let stats = self.text(&["INFO", "commandstats"]);
        let begins = format!("cmdstat_{command}:calls=");
        let calls =
            stats.as_text().expect("INFO is text").lines().find_map(|line| line.strip_prefix(&*begins));
        calls.map_or(0, |calls| {
            calls.split(',').next().and_then(|calls| calls.parse().ok()).expect("a number")
        })
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        // A restart that panicked leaves the old, ended process, which is a valid state.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A port that nobody listens on at the moment, with room for the cluster bus.
fn free_port() -> u16 {
    loop {
        let port = unused_port().expect("127.0.0.1 has a free port");
        if port <= HIGHEST_PORT {
            return port;
        }
    }
}
