//! Candidates in separate processes: the leader is killed, stopped past its lease, or resigns.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::blocking::Locks;
use rustix::process::{Pid, Signal, kill_process};
use servers::{Flavor, Server};
use tempfile::TempDir;

const TTL: Duration = Duration::from_secs(2);
const SECOND: Duration = Duration::from_secs(1);
/// The longest time from a resignation to the next leader.
const HANDED_ON: Duration = Duration::from_millis(100);
/// Longer than anything takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

const STORE: &str = "LEASEHOLD_ELECTION_STORE";
const JOURNAL: &str = "LEASEHOLD_ELECTION_JOURNAL";

/// A candidate's process: writes its fence while it believes it leads; a line on stdin makes it resign.
#[test]
fn a_candidate_of_another_test_leads() {
    let (Ok(store), Some(journal)) = (env::var(STORE), env::var_os(JOURNAL)) else { return };
    let locks = Locks::connect(&store).unwrap();
    let leading = locks.election("scheduler").ttl(TTL).candidate("candidate").stand().wait().unwrap();
    let mut journal = OpenOptions::new().append(true).open(journal).unwrap();
    println!("\nleads {}", leading.fence());
    let (wish, resign) = channel();
    thread::spawn(move || {
        let mut line = String::new();
        if std::io::stdin().read_line(&mut line).is_ok_and(|read| read > 0) {
            let _ = wish.send(());
        }
    });
    while leading.is_held() {
        journal.write_all(format!("{}\n", leading.fence()).as_bytes()).unwrap();
        if resign.recv_timeout(Duration::from_millis(1)).is_ok() {
            leading.release().unwrap();
            return;
        }
    }
    println!("\nlost {}", leading.fence());
}

/// A candidate's process, which ends with the test.
struct Candidate {
    child: Child,
    said: Receiver<(String, u64)>,
}

impl Candidate {
    fn stand(store: &str, journal: &Path) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["election_processes::a_candidate_of_another_test_leads", "--exact", "--nocapture"]);
        command.env(STORE, store).env(JOURNAL, journal);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (tell, said) = channel();
        thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some((word, fence)) =
                    line.split_once(' ').filter(|(word, _)| ["leads", "lost"].contains(word))
                {
                    let _ = tell.send((word.to_owned(), fence.parse().unwrap()));
                }
            }
        });
        Self { child, said }
    }

    /// Waits until it prints this word, and returns the fence of its term.
    fn says(&self, word: &str) -> u64 {
        let (said, fence) = self.said.recv_timeout(LIMIT).expect(word);
        assert_eq!(said, word);
        fence
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a test with a new store, an empty journal and two candidates, the first of which leads.
fn of_two(test: impl Fn(Candidate, Candidate, u64)) {
    let server = Server::start(Flavor::Valkey91);
    let directory = TempDir::with_prefix("leasehold-").unwrap();
    let file = format!("file:{}", directory.path().join("leases.db").display());
    for (n, store) in [server.url(), file].into_iter().enumerate() {
        let journal: PathBuf = directory.path().join(format!("journal-{n}"));
        File::create(&journal).unwrap();
        let leader = Candidate::stand(&store, &journal);
        let term = leader.says("leads");
        let next = Candidate::stand(&store, &journal);
        let election = Locks::connect(&store).unwrap().election("scheduler");
        let end = Instant::now() + LIMIT;
        while election.candidates().unwrap().is_empty() {
            assert!(Instant::now() < end, "it stands");
            thread::sleep(Duration::from_millis(5));
        }
        test(leader, next, term);
        // Terms follow each other: no smaller fence after a greater one, but for one write in flight.
        let written = fs::read_to_string(&journal).unwrap();
        let terms: Vec<u64> = written.lines().map(|line| line.parse().unwrap()).collect();
        let late = terms.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!(terms.last() > Some(&term) && late <= 1, "{late} late writes of {} on {store}", terms.len());
    }
}

#[test]
fn a_leader_that_is_killed_is_followed_within_its_ttl_and_a_second() {
    of_two(|leader, next, term| {
        let killed = Instant::now();
        leader.signal(Signal::KILL);
        assert!(next.says("leads") > term);
        assert!(killed.elapsed() < TTL + SECOND, "{:?}", killed.elapsed());
        thread::sleep(Duration::from_millis(50));
    });
}

#[test]
fn a_leader_that_is_stopped_past_its_ttl_is_followed_and_knows_it_when_it_goes_on() {
    of_two(|leader, next, term| {
        let stopped = Instant::now();
        leader.signal(Signal::STOP);
        assert!(next.says("leads") > term);
        assert!(stopped.elapsed() < TTL + SECOND, "{:?}", stopped.elapsed());
        thread::sleep(Duration::from_millis(50));
        leader.signal(Signal::CONT);
        assert_eq!(leader.says("lost"), term);
        thread::sleep(Duration::from_millis(50));
    });
}

#[test]
fn a_leader_that_resigns_is_followed_at_once() {
    of_two(|mut leader, next, term| {
        let resigned = Instant::now();
        leader.child.stdin.take().unwrap().write_all(b"resign\n").unwrap();
        assert!(next.says("leads") > term);
        assert!(resigned.elapsed() < HANDED_ON, "{:?}", resigned.elapsed());
        thread::sleep(Duration::from_millis(50));
    });
}
