//! Runs the command with a store and a directory of the test's own, in an environment with nothing
//! but `PATH`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use servers::{Flavor, Postgres, Proxy, Server};
use tempfile::TempDir;

use crate::database;

/// The program that is tested.
pub(crate) const OURS: &str = env!("CARGO_BIN_EXE_leasehold");

/// Longer than anything here takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A directory, which is also where commands run, and the URL of a store.
#[derive(Debug)]
pub(crate) struct Site {
    directory: TempDir,
    store: String,
    /// What ends with the site.
    servers: (Option<Server>, Option<Postgres>),
    outputs: AtomicU32,
}

impl Site {
    /// With its own file store.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let store = format!("file:{}/leases.db", directory.path().display());
        Self { directory, store, servers: (None, None), outputs: AtomicU32::new(0) }
    }

    /// With its own file store, which somebody has used before.
    #[track_caller]
    pub(crate) fn used() -> Self {
        let site = Self::new();
        site.outcome(&["run", "before", "--", "true"]).exits_with(0);
        site
    }

    /// With a store elsewhere.
    pub(crate) fn on(store: &str) -> Self {
        Self { store: store.into(), ..Self::new() }
    }

    /// With a server of its own.
    pub(crate) fn on_server(flavor: Flavor) -> (Server, Self) {
        let server = Server::start(flavor);
        let site = Self::on(&server.url());
        (server, site)
    }

    /// With a proxy before a server of its own.
    pub(crate) fn on_proxy(flavor: Flavor) -> (Server, Proxy, Self) {
        let server = Server::start(flavor);
        let proxy = Proxy::before(&server);
        let site = Self::on(&proxy.url());
        (server, proxy, site)
    }

    /// With a server that asks for this password, which is in the URL.
    pub(crate) fn with_password(flavor: Flavor, password: &str) -> (Server, Self) {
        let server = Server::setup(flavor).password(password).start();
        let site = Self::on(&server.url().replace("//", &format!("//:{password}@")));
        (server, site)
    }

    /// One with its own file store, and one with its own server.
    pub(crate) fn on_file_and(flavor: Flavor) -> [Self; 2] {
        let (server, mut on_server) = Self::on_server(flavor);
        on_server.servers.0 = Some(server);
        [Self::new(), on_server]
    }

    /// The same, and one with a database of its own.
    pub(crate) fn on_each_store(flavor: Flavor) -> [Self; 3] {
        let [on_file, on_server] = Self::on_file_and(flavor);
        let (database, mut in_database) = database::ready();
        in_database.servers.1 = Some(database);
        [on_file, on_server, in_database]
    }

    pub(crate) fn store(&self) -> &str {
        &self.store
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default().trim().to_owned()
    }

    /// `leasehold` with these words, and no store but the default one.
    pub(crate) fn leasehold(&self, words: &[&str]) -> Command {
        self.process(OURS, words)
    }

    /// `leasehold` with a task and its words, at the site's store.
    pub(crate) fn task(&self, task: &str, words: &[&str]) -> Command {
        self.leasehold(&[&[task, "--store", &self.store], words].concat())
    }

    /// What comes of a task and its words, at the site's store.
    #[track_caller]
    pub(crate) fn outcome(&self, words: &[&str]) -> Done {
        self.finish(self.task(words[0], &words[1..]))
    }

    /// `leasehold run` with these words.
    pub(crate) fn run(&self, words: &[&str]) -> Command {
        self.task("run", words)
    }

    /// `leasehold` with a task and its words as in a shell, which writes its events into `events`.
    pub(crate) fn telling(&self, task: &str, words: &str) -> Command {
        let line = format!("exec {OURS} {task} --store {} --status-fd 7 {words} 7>events", self.store);
        self.process("sh", &["-c", &line])
    }

    /// `leasehold` with these words, and the store in its environment.
    pub(crate) fn by_environment(&self, words: &[&str]) -> Command {
        let mut command = self.leasehold(words);
        command.env("LEASEHOLD_STORE", &self.store);
        command
    }

    /// The same with the words of a line, to its end.
    #[track_caller]
    pub(crate) fn line(&self, line: &str) -> Done {
        self.finish(self.by_environment(&line.split(' ').collect::<Vec<_>>()))
    }

    /// `leasehold run` with these words, and then a shell's script as the command.
    pub(crate) fn run_script(&self, words: &[&str], script: &str) -> Command {
        let mut command = self.run(words);
        command.args(["--", "sh", "-c", script]);
        command
    }

    /// Another program in the same environment.
    pub(crate) fn process(&self, program: impl AsRef<OsStr>, words: &[&str]) -> Command {
        // In a separate session, without the terminal of the test run. It stays the same process.
        let mut command = Command::new("setsid");
        command.arg(program).args(words).env_clear().current_dir(self.directory.path()).stdin(Stdio::null());
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command
    }

    #[track_caller]
    pub(crate) fn start(&self, mut command: Command) -> Running {
        let number = self.outputs.fetch_add(1, Ordering::Relaxed);
        let [out, err] = ["out", "err"].map(|kind| self.path(&format!("{number}.{kind}")));
        // Output goes to files, so that a process that was left behind does not keep a pipe open.
        let create = |path| File::create(path).expect("a file for the output");
        command.stdout(create(&out)).stderr(create(&err));
        let child = command.spawn().expect("the program starts");
        Running { child, out, err }
    }

    #[track_caller]
    pub(crate) fn finish(&self, command: Command) -> Done {
        self.start(command).finish()
    }

    /// Starts a run that holds the lock until a file `go` exists. It writes its fence into `fence`, and
    /// the process id of its command into `running`.
    #[track_caller]
    pub(crate) fn holder(&self, words: &[&str]) -> Running {
        let script = "echo $LEASEHOLD_FENCE > fence; echo $$ > running; until [ -e go ]; do sleep 0.02; done";
        self.running(self.run_script(words, script)).0
    }

    /// Starts a command that writes its process id into `running`, and waits for that.
    #[track_caller]
    pub(crate) fn running(&self, command: Command) -> (Running, String) {
        let _ = fs::remove_file(self.path("running"));
        let run = self.start(command);
        (run, self.wait_for("running"))
    }

    /// Lets holders end.
    pub(crate) fn go(&self) {
        fs::write(self.path("go"), "").expect("a file in the test's directory");
    }

    /// Waits until so many requests wait for `k`.
    #[track_caller]
    pub(crate) fn wait_for_waiters(&self, count: usize) {
        until("so many wait", || {
            let shown = self.finish(self.task("show", &["--json", "k"])).json();
            shown["waiters"].as_array().is_some_and(|waiters| waiters.len() == count)
        });
    }

    /// The events of [`telling`](Self::telling).
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        json_lines(&self.read("events"))
    }

    /// Waits until a file is not empty, and returns its content.
    #[track_caller]
    pub(crate) fn wait_for(&self, name: &str) -> String {
        found(name, || Some(self.read(name)).filter(|text| !text.is_empty()))
    }
}

/// A process that is ended with the test.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(pid(self.child.id()), signal).expect("it runs");
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn out(&self) -> String {
        fs::read_to_string(&self.out).unwrap_or_default()
    }

    pub(crate) fn err(&self) -> String {
        fs::read_to_string(&self.err).unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn finish(mut self) -> Done {
        let status = end_of(&mut self.child);
        let read = |path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        Done { status, out: read(&self.out), err: read(&self.err) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SIGTERM first, so that it ends its command; a second one, so that a stubborn command is
        // killed.
        for signal in [Signal::TERM, Signal::TERM, Signal::KILL] {
            let end = Instant::now() + Duration::from_secs(2);
            if matches!(self.child.try_wait(), Ok(None)) {
                let _ = kill_process(pid(self.child.id()), signal);
            }
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// How a process ended, and what it wrote.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    /// Its error output, without leading lines about a store or a lock that took longer than a
    /// second, which happens on a busy machine.
    fn said(&self) -> &str {
        let mut said = &*self.err;
        while let Some((first, rest)) = said.split_once('\n') {
            let of_a_store = first.starts_with("leasehold: cannot reach ") && first.ends_with(" in all");
            if !of_a_store && !first.starts_with("leasehold: waiting for ") {
                break;
            }
            said = rest;
        }
        said
    }

    #[track_caller]
    pub(crate) fn exits_with(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self:?}");
        self
    }

    /// Exited with this code and no error output.
    #[track_caller]
    pub(crate) fn silent(self, code: i32) -> Self {
        assert_eq!((self.status.code(), self.said()), (Some(code), ""), "{self:?}");
        self
    }

    /// Exited with this code and this output, and no error output.
    #[track_caller]
    pub(crate) fn prints(self, code: i32, out: &str) -> Self {
        self.silent(code).out_is(out)
    }

    /// Exited with this code and one line of error output, which contains these words.
    #[track_caller]
    pub(crate) fn says(self, code: i32, words: &[&str]) -> Self {
        self.has_said(self.said(), code, words);
        self
    }

    /// The same, after a line that says how long a silent store is tried.
    #[track_caller]
    pub(crate) fn says_after_trying(self, code: i32, words: &[&str]) -> Self {
        let (first, last) = self.err.split_once('\n').unwrap_or_default();
        assert!(first.starts_with("leasehold: cannot reach ") && first.ends_with(" in all"), "{self:?}");
        self.has_said(last, code, words);
        self
    }

    /// The same, with a second line that is a hint.
    #[track_caller]
    pub(crate) fn says_and_hints(self, code: i32, words: &[&str], hint: &str) -> Self {
        let (first, second) = self.err.split_at(self.err.find('\n').map_or(0, |end| end + 1));
        self.has_said(first, code, words);
        assert_eq!(second, format!("hint: {hint}\n"), "{self:?}");
        self
    }

    #[track_caller]
    fn has_said(&self, said: &str, code: i32, words: &[&str]) {
        assert_eq!(self.status.code(), Some(code), "{self:?}");
        assert!(said.starts_with("leasehold: ") && said.ends_with('\n'), "{self:?}");
        assert_eq!(said.lines().count(), 1, "{self:?}");
        for word in words {
            assert!(said.contains(word), "no {word:?}: {self:?}");
        }
    }

    #[track_caller]
    pub(crate) fn out_is(self, out: &str) -> Self {
        assert_eq!(self.out, out, "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn out_has(self, words: &[&str]) -> Self {
        words.iter().for_each(|word| assert!(self.out.contains(word), "no {word:?}: {self:?}"));
        self
    }

    #[track_caller]
    pub(crate) fn err_has(self, words: &[&str]) -> Self {
        words.iter().for_each(|word| assert!(self.err.contains(word), "no {word:?}: {self:?}"));
        self
    }

    /// The object that it printed.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let [object] = &json_lines(&self.out)[..] else { panic!("not one object: {self:?}") };
        object.clone()
    }

    #[track_caller]
    pub(crate) fn died_of(self, signal: Signal) -> Self {
        assert_eq!(self.status.signal(), Some(signal.as_raw()), "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn keeps_the_secret(self) -> Self {
        assert!(!self.out.contains(SECRET) && !self.err.contains(SECRET), "{self:?}");
        self
    }
}

pub(crate) fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().expect("a name")).collect()
}

/// An object a line.
#[track_caller]
pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

/// Checks that an object has these fields, whatever others it has.
#[track_caller]
pub(crate) fn has(object: &Value, fields: &Value) {
    for (name, value) in fields.as_object().expect("fields") {
        assert_eq!(&object[name], value, "{name}: {object}");
    }
}

/// The only child of a process.
pub(crate) fn child_of(parent: u32) -> String {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    children.expect("the kernel lists children").trim().to_owned()
}

/// A password that must be in no output.
pub(crate) const SECRET: &str = "s3cret-pw";

#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    found(what, || condition().then_some(()));
}

/// Waits until there is something to find.
#[track_caller]
pub(crate) fn found<T>(what: &str, find: impl FnMut() -> Option<T>) -> T {
    found_or(|| what.into(), find)
}

#[track_caller]
pub(crate) fn found_or<T>(missing: impl Fn() -> String, mut find: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < end, "not within {LIMIT:?}: {}", missing());
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[track_caller]
pub(crate) fn end_of(child: &mut Child) -> ExitStatus {
    found("the end of the process", || child.try_wait().expect("a child can be waited for"))
}

pub(crate) fn pid(number: u32) -> Pid {
    Pid::from_raw(number.cast_signed()).expect("process ids are positive")
}

/// True if the process with this number runs. A process that has ended and was not reaped does not.
pub(crate) fn is_alive(number: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{number}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// Kills a process that was left behind on purpose.
pub(crate) fn kill(number: &str) {
    kill_with(number, Signal::KILL);
}

/// Sends a signal to a process that may have ended.
pub(crate) fn kill_with(number: &str, signal: Signal) {
    let _ = kill_process(pid(number.parse().expect("a process id")), signal);
}
