//! Measures the time of a hand-over between processes: `cargo run --release -p leasehold-file
//! --example hand_off`.
//!
//! Processes take one lock in turn, hold it for a millisecond and pause for another. A hand-over
//! lasts from the call of the release until the next holder knows. For comparison, in the same run:
//! a datagram to another process and back, and one immediate transaction. A hand-over cannot be
//! faster than these.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::Read as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leasehold_core::{
    Attempt, BoxFuture, Claim, GrantAnswer, Holder, Instant, Key, Request, Runtime, Store, Ttl, WaitMode,
    Wake,
};
use leasehold_file::{FileStore, Ledger};
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: u32 = 300;

fn main() {
    let words: Vec<_> = std::env::args().skip(1).collect();
    match &words[..] {
        [] => measure(),
        [task, directory] if task == "echo" => echo(Path::new(directory)),
        [task, directory] if task == "turns" => turns(Path::new(directory)),
        _ => eprintln!("hand_off takes no arguments"),
    }
}

fn measure() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let there_and_back = median(datagrams(directory.path()));
    let transaction = median(transactions(directory.path()));
    println!("datagram there and back   {there_and_back:>8.1?}");
    println!("one transaction           {transaction:>8.1?}");
    for processes in [2, 8] {
        let gaps = hand_overs(directory.path(), processes);
        let worst = gaps[gaps.len() * 99 / 100];
        let (gap, floor) = (median(gaps), there_and_back + transaction);
        let ratio = gap.as_secs_f64() / floor.as_secs_f64();
        println!(
            "hand-over, {processes} processes    {gap:>8.1?}   p99 {worst:.1?}   {ratio:.2} times the sum"
        );
    }
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort();
    all[all.len() / 2]
}

fn run(task: &str, directory: &Path) -> std::process::Child {
    let me = std::env::current_exe().expect("this program");
    let mut command = Command::new(me);
    command.args([task.as_ref(), directory.as_os_str()]);
    command.stdout(Stdio::piped()).spawn().expect("another process")
}

fn sockets(directory: &Path) -> [PathBuf; 2] {
    ["here", "there"].map(|name| directory.join(name))
}

fn datagrams(directory: &Path) -> Vec<Duration> {
    let [here, there] = sockets(directory);
    let socket = UnixDatagram::bind(&here).expect("a socket");
    let mut other = run("echo", directory);
    let mut bytes = [0; 64];
    socket.recv(&mut bytes).expect("a greeting");
    let took = (0..ROUNDS).map(|_| {
        std::thread::sleep(Duration::from_millis(1));
        let begun = std::time::Instant::now();
        socket.send_to(&bytes, &there).expect("a datagram there");
        socket.recv(&mut bytes).expect("a datagram back");
        begun.elapsed()
    });
    let took = took.collect();
    socket.send_to(&[], &there).expect("a farewell");
    other.wait().expect("the other's end");
    took
}

fn echo(directory: &Path) {
    let [here, there] = sockets(directory);
    let socket = UnixDatagram::bind(there).expect("a socket");
    let mut bytes = [0; 64];
    socket.send_to(&bytes, &here).expect("a greeting");
    while socket.recv(&mut bytes).expect("a datagram") > 0 {
        socket.send_to(&bytes, &here).expect("a datagram back");
    }
}

fn transactions(directory: &Path) -> Vec<Duration> {
    let mut ledger = Ledger::at(directory.join("leases.db"), Arc::new(OfTheMachine));
    let attempt = attempt("alone", 1);
    let took = (0..ROUNDS).map(|_| {
        std::thread::sleep(Duration::from_millis(1));
        let begun = std::time::Instant::now();
        let request = Request::Grant { attempt: attempt.clone(), wait: None, not_after: None };
        ledger.serve(request).expect("a grant");
        begun.elapsed()
    });
    took.collect()
}

/// From each release to the next grant, in no particular order but sorted.
fn hand_overs(directory: &Path, processes: usize) -> Vec<Duration> {
    let others: Vec<_> = (0..processes).map(|_| run("turns", directory)).collect();
    let mut turns = Vec::new();
    for mut other in others {
        let mut said = String::new();
        other.stdout.take().expect("its output").read_to_string(&mut said).expect("its turns");
        other.wait().expect("the other's end");
        turns.extend(said.lines().map(|line| {
            let mut numbers = line.split(' ').map(|number| number.parse::<u64>().expect("a number"));
            [(); 3].map(|()| numbers.next().expect("three numbers"))
        }));
    }
    turns.sort_unstable();
    // Nobody waits at the very beginning and end.
    let contended = &turns[turns.len() / 10..turns.len() * 9 / 10];
    let gaps = contended.windows(2).map(|pair| Duration::from_nanos(pair[1][1].saturating_sub(pair[0][2])));
    let mut gaps: Vec<_> = gaps.collect();
    gaps.sort();
    gaps
}

/// Says of each turn its fence, when it was known, and when it was given back.
fn turns(directory: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let store = FileStore::at(directory.join("leases.db"), Arc::new(OfTheMachine));
    let mut said = String::new();
    runtime.block_on(async {
        for turn in 0..ROUNDS {
            let who = (u128::from(std::process::id()) << 32) + u128::from(turn);
            let attempt = attempt("turns", who);
            let fence = loop {
                let answer =
                    store.grant(&attempt, WaitMode::Wait { queue_limit: None }).await.expect("an answer");
                if let GrantAnswer::Granted { fence } = answer {
                    break fence;
                }
                if let Wake::Granted { fence, .. } = store.woken(&attempt).await {
                    break fence;
                }
            };
            let known = OfTheMachine.now().as_nanos();
            tokio::time::sleep(Duration::from_millis(1)).await;
            let let_go = OfTheMachine.now().as_nanos();
            store.release(&attempt).await.expect("a release");
            said += &format!("{fence} {known} {let_go}\n");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    print!("{said}");
}

fn attempt(name: &str, who: u128) -> Attempt {
    let claim = Claim::exclusive(Key::new(name).expect("a key"));
    Attempt::new(claim, Holder::from_bits(who), None, Ttl::DEFAULT)
}

/// The clocks of this machine.
#[derive(Debug)]
struct OfTheMachine;

impl Runtime for OfTheMachine {
    fn now(&self) -> Instant {
        let time = clock_gettime(ClockId::Boottime);
        Instant::from_nanos(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
    }

    fn since_epoch(&self) -> Duration {
        SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        let rest = at.saturating_since(self.now());
        Box::pin(async move { tokio::time::sleep(rest).await })
    }

    fn spawn(&self, _: BoxFuture<'static, ()>) {}

    fn random(&self) -> u128 {
        RandomState::new().build_hasher().finish().into()
    }
}
