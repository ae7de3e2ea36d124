//! A process that runs a library and follows orders.

use std::{
    fmt,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use crate::{Answer, Language, Peer, peer::program};

/// Longer than any library is told to wait, even on a machine that is busy compiling.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// A driver process. It has no children, is killed when this is dropped, and exits when its
/// standard input closes, which also happens when this process is killed.
#[derive(Debug)]
pub struct Driver {
    name: String,
    child: Child,
    /// `None` after the input was closed.
    requests: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Driver {
    /// Starts a peer's driver on these servers. Panics with the remedy if its library is not installed.
    #[track_caller]
    pub fn start(peer: Peer, urls: &[&str]) -> Self {
        Self::run(peer.language(), peer.name(), urls)
    }

    /// Starts redis-semaphore's `Semaphore` with one permit and the key `semaphore:NAME`.
    #[track_caller]
    pub fn start_permits(url: &str) -> Self {
        Self::run(Language::Node, "redis-semaphore-permits", &[url])
    }

    #[track_caller]
    fn run(language: Language, name: &str, urls: &[&str]) -> Self {
        assert!(
            language.has_libraries(),
            "{name}: its library is not in {} in the version that is wanted; run `cargo xtask peers`",
            language.home().display()
        );
        let mut command: Command = language.command(&program(language, name));
        let spawned = command.args(urls).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) => panic!("{name}: {command:?} does not run: {error}"),
        };
        let requests = child.stdin.take();
        let said = BufReader::new(child.stdout.take().expect("it is piped"));
        let (line, answers) = channel();
        thread::spawn(move || {
            for answer in said.lines().map_while(Result::ok) {
                if line.send(answer).is_err() {
                    break;
                }
            }
        });
        Self { name: name.to_owned(), child, requests, answers }
    }

    /// Acquires the lock with this name; zero patience means one try.
    #[track_caller]
    pub fn take(&mut self, name: &str, ttl: Duration, patience: Duration) -> Answer {
        self.begin_to_take(name, ttl, patience);
        self.answer()
    }

    /// Sends the order to acquire the lock, without waiting for the [`answer`](Self::answer).
    #[track_caller]
    pub fn begin_to_take(&mut self, name: &str, ttl: Duration, patience: Duration) {
        self.tell(format_args!("take {name} {} {}", ttl.as_millis(), patience.as_millis()));
    }

    /// The same without an expiry and without a time limit. Only python-redis-lock supports that.
    #[track_caller]
    pub fn begin_to_take_for_ever(&mut self, name: &str) {
        self.tell(format_args!("take {name} 0 -1"));
    }

    /// Releases the lock that it acquired last.
    #[track_caller]
    pub fn release(&mut self) -> Answer {
        self.tell(format_args!("release"));
        self.answer()
    }

    /// Extends the lock that it acquired last.
    #[track_caller]
    pub fn extend(&mut self, ttl: Duration) -> Answer {
        self.tell(format_args!("extend {}", ttl.as_millis()));
        self.answer()
    }

    /// Acquires and releases the lock; the witness file shows that nobody else holds it meanwhile.
    #[track_caller]
    pub fn visit(
        &mut self,
        name: &str,
        ttl: Duration,
        patience: Duration,
        hold: Duration,
        witness: &Path,
    ) -> Answer {
        let [ttl, patience, hold] = [ttl, patience, hold].map(|time| time.as_millis());
        self.tell(format_args!("visit {name} {ttl} {patience} {hold} {}", witness.display()));
        self.answer()
    }

    /// The answer to the last order.
    /// Panics if there is none within a minute, or the process has ended.
    #[track_caller]
    pub fn answer(&mut self) -> Answer {
        match self.answer_within(ANSWERS_WITHIN) {
            Some(answer) => answer,
            None => panic!("{}: no answer within {ANSWERS_WITHIN:?}", self.name),
        }
    }

    #[track_caller]
    pub fn answer_within(&mut self, limit: Duration) -> Option<Answer> {
        match self.answers.recv_timeout(limit) {
            Ok(line) => Some(Answer::parse(&line)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("{}: ended: {:?}", self.name, self.child.wait()),
        }
    }

    /// Closes its standard input, as our end would; returns whether it exited within the limit.
    pub fn hang_up(&mut self, limit: Duration) -> bool {
        self.requests = None;
        // Its standard output closes when it exits.
        let ended = loop {
            match self.answers.recv_timeout(limit) {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => break false,
                Err(RecvTimeoutError::Disconnected) => break true,
            }
        };
        ended && self.child.wait().is_ok_and(|status| status.success())
    }

    #[track_caller]
    fn tell(&mut self, request: fmt::Arguments<'_>) {
        let requests = self.requests.as_mut().expect("it was not hung up on");
        // In one piece, so that a driver never sees half a line.
        if let Err(error) = requests.write_all(format!("{request}\n").as_bytes()) {
            panic!("{}: cannot be told to {request}: {error}", self.name);
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Fails only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
