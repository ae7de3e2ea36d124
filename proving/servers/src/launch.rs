//! Starts a process from a setup, and waits until it serves.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use crate::{
    Connection, Reply, Setup,
    process::{Process, dying_with_us},
};

/// A start takes tens of milliseconds; the rest is for a machine that is busy compiling.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(30);

/// Starts the process and waits until it serves.
pub(crate) fn run(
    setup: &Setup,
    program: &Path,
    directory: &Path,
    port: u16,
    deadline: Instant,
) -> Result<Process, NotReady> {
    let configuration = setup.configuration(port, &socket_path(directory));
    fs::write(directory.join("server.conf"), configuration).map_err(NotReady::DoesNotRun)?;
    let open_log = || File::options().create(true).append(true).open(log_path(directory));
    let log = open_log().map_err(NotReady::DoesNotRun)?;
    let log_start = log.metadata().map_err(NotReady::DoesNotRun)?.len();

    let mut command = dying_with_us(program);
    command
        .arg("server.conf")
        .args(setup.sentinel.then_some("--sentinel"))
        .current_dir(directory)
        .envs(setup.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(open_log().map_err(NotReady::DoesNotRun)?);
    let mut process = Process::spawn(command).map_err(NotReady::DoesNotRun)?;

    loop {
        let ended = process.ended().map_err(NotReady::DoesNotRun)?;
        let log = log_since(directory, log_start);
        if let Some(status) = ended {
            let taken = log.contains("Address already in use");
            return Err(if taken { NotReady::PortTaken } else { NotReady::Ended(status.to_string()) });
        }
        // An answer may be another process's that won a race for the port. The log is this server's.
        let sign = if setup.sentinel { "Sentinel ID is" } else { "eady to accept connections" };
        if log.contains(sign) && answers(setup, directory, port) {
            return Ok(process);
        }
        if Instant::now() >= deadline {
            return Err(NotReady::Silent);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// True if a PING is answered, also by an error, unless the server is still loading.
fn answers(setup: &Setup, directory: &Path, port: u16) -> bool {
    let pong = connect(setup, directory, port).and_then(|mut connection| connection.text(&["PING"]));
    match pong {
        Ok(Reply::Error(message)) => !message.starts_with("LOADING"),
        Ok(_) => true,
        Err(_) => false,
    }
}

/// A connection, authenticated as the setup says.
pub(crate) fn connect(setup: &Setup, directory: &Path, port: u16) -> io::Result<Connection> {
    let mut connection = if setup.tls.is_some() {
        Connection::open_unix(&socket_path(directory))?
    } else {
        Connection::open(port)?
    };
    if let Some(password) = &setup.password {
        // If the server refuses it, the following command fails.
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

/// The reason why a server is not ready.
#[derive(Debug)]
pub(crate) enum NotReady {
    PortTaken,
    DoesNotRun(io::Error),
    Ended(String),
    Silent,
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PortTaken => f.write_str("its port is taken, and stays so"),
            Self::DoesNotRun(error) => write!(f, "cannot be run: {error}"),
            Self::Ended(status) => write!(f, "ended instead of getting ready: {status}"),
            Self::Silent => write!(f, "not ready within {} s", READY_WITHIN.as_secs()),
        }
    }
}

fn log_path(directory: &Path) -> PathBuf {
    directory.join("server.log")
}

/// The log of this run of the server.
fn log_since(directory: &Path, start: u64) -> String {
    let read = || {
        let mut log = File::open(log_path(directory))?;
        log.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes)?;
        io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_default()
}

pub(crate) fn log_tail(directory: &Path) -> String {
    let log = log_since(directory, 0);
    let lines: Vec<_> = log.lines().collect();
    let tail = &lines[lines.len().saturating_sub(20)..];
    format!("the end of its log:\n{}", tail.join("\n"))
}
