//! Processes in one queue: the order and the delay of grants, and the cost of a dead or stopped
//! process.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_core::{
    Attempt, Fault, GrantAnswer, HoldAnswer, InspectStore as _, MemberStore as _, ProcessStore as _, Request,
    Runtime, Store, Ttl, Wait, WaitMode, Wake,
};
use leasehold_file::{FileStore, Ledger};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::child;
use crate::clocks::{ByHand, OfTheMachine};
use crate::seeds::{Dice, a_file, attempt, key};

/// Runs a process's task; called in the child.
pub(crate) fn do_task(task: &str, file: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let store = FileStore::at(file, Arc::new(OfTheMachine));
        let me = u128::from(std::process::id()) << 64;
        match task {
            "waiter" => return wait_once(&store, file, me).await,
            "round and round" => return round_and_round(&store, file, me).await,
            "holder" | "holder with a supervisor" => drop(take(&store, &attempt(me, &["a"], 60_000)).await),
            "holder of many" => {
                for (n, key) in (0..).zip(&many()) {
                    take(&store, &attempt(me + n, &[key], 60_000)).await;
                }
            }
            other => panic!("no such task: {other}"),
        }
        if task == "holder with a supervisor" {
            let lifeline = store.lifelines().remove(0);
            // It lives until our parent closes the pipe, even after we are gone.
            let mut supervisor = Command::new("cat");
            #[expect(
                clippy::zombie_processes,
                reason = "it outlives its parent, which never gets to wait for it"
            )]
            let _supervisor = supervisor.stdin(Stdio::inherit()).stdout(lifeline).spawn().unwrap();
        }
        println!("at work");
        std::future::pending::<()>().await;
    });
}

/// More keys than a store checks at once.
fn many() -> Vec<String> {
    (0..600).map(|n| format!("k{n}")).collect()
}

async fn take(store: &FileStore, attempt: &Attempt) -> u32 {
    let mut asks = 0;
    loop {
        asks += 1;
        match unless_busy(store.grant(attempt, WaitMode::Wait { queue_limit: None }).await) {
            Some(GrantAnswer::Granted { .. }) => return asks,
            Some(GrantAnswer::Busy { .. }) => {
                if asks == 1 {
                    println!("queued");
                }
                let wake = store.woken(attempt).await;
                if let Wake::Granted { since, lasts, .. } = wake
                    && OfTheMachine.now() < since + lasts.duration()
                {
                    // The first renewal claims it.
                    let claimed = store.renew(std::slice::from_ref(attempt)).await.remove(0);
                    if unless_busy(claimed) == Some(HoldAnswer::Done) {
                        return asks;
                    }
                }
            }
            None | Some(GrantAnswer::Unfinished) => {}
            Some(other) => panic!("{other:?}"),
        }
    }
}

async fn release(store: &FileStore, attempt: &Attempt) {
    while unless_busy(store.release(attempt).await).is_none() {}
}

/// The answer; `None` if a busy machine kept the file for too long, and the request is to be repeated.
fn unless_busy<T>(answer: Result<T, Fault>) -> Option<T> {
    answer.map_err(|fault| assert!(!fault.is_lasting(), "{fault}")).ok()
}

async fn wait_once(store: &FileStore, file: &Path, me: u128) {
    let attempt = attempt(me, &["a"], 60_000);
    println!("at work");
    let asks = take(store, &attempt).await;
    note(file, &format!("{} {asks}", std::process::id()));
    release(store, &attempt).await;
}

/// Each holder creates a file that must not exist.
async fn round_and_round(store: &FileStore, file: &Path, me: u128) {
    println!("at work");
    let inside = file.with_extension("inside");
    for round in 0.. {
        let attempt = attempt(me + round, &["a"], 60_000);
        take(store, &attempt).await;
        // A killed holder leaves its file; that process must be dead by now.
        if let Ok(name) = fs::read_to_string(&inside)
            && !name.is_empty()
        {
            let alive =
                fs::read_to_string(format!("/proc/{name}/stat")).is_ok_and(|stat| !stat.contains(") Z"));
            if alive {
                note(file, &format!("{name} and {} at once", std::process::id()));
            }
        }
        fs::write(&inside, std::process::id().to_string()).unwrap();
        tokio::time::sleep(Duration::from_micros(500)).await;
        note(file, &std::process::id().to_string());
        fs::write(&inside, "").unwrap();
        release(store, &attempt).await;
    }
}

fn note(file: &Path, what: &str) {
    let mut notes = OpenOptions::new().append(true).create(true).open(notes_of(file)).unwrap();
    notes.write_all(format!("{what}\n").as_bytes()).unwrap();
}

fn notes_of(file: &Path) -> PathBuf {
    file.with_extension("notes")
}

pub(crate) fn notes(file: &Path) -> Vec<String> {
    fs::read_to_string(notes_of(file)).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// A child that is killed with its test.
pub(crate) struct Process(Child, BufReader<ChildStdout>);

impl Process {
    fn start(task: &str, file: &Path) -> Self {
        Self::start_by(&[], task, file)
    }

    /// The words of a wrapper go before it.
    pub(crate) fn start_by(wrapper: &[&str], task: &str, file: &Path) -> Self {
        let mut child = child::command(wrapper, task, file).stdin(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut process = Self(child, said);
        process.says("at work");
        process
    }

    pub(crate) fn says(&mut self, words: &str) {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            assert_ne!(self.1.read_line(&mut line).unwrap(), 0, "the child ended too early");
        }
    }

    fn in_line(file: &Path) -> Self {
        let mut process = Self::start("waiter", file);
        process.says("queued");
        process
    }

    pub(crate) fn id(&self) -> String {
        self.0.id().to_string()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Until all of its threads have stopped; one that has not yet may still be served.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let stopped = waitpid(Some(Pid::from_child(&self.0)), WaitOptions::UNTRACED).unwrap();
        assert!(stopped.is_some_and(|(_, status)| status.stopped()), "{stopped:?}");
    }

    /// Waits for a successful exit.
    pub(crate) fn ends(&mut self) {
        assert!(self.0.wait().unwrap().success());
    }

    pub(crate) fn kill(&mut self) -> ExitStatus {
        self.0.kill().unwrap();
        self.0.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the attempt gets what another one's dead holder had.
async fn is_free_for(store: &FileStore, attempt: &Attempt) {
    let begun = Instant::now();
    while !matches!(store.grant(attempt, WaitMode::Try).await, Ok(GrantAnswer::Granted { .. })) {
        assert!(begun.elapsed() < Duration::from_secs(10), "the lock outlives its holder");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until this many have been served.
fn served(file: &Path, count: usize, within: Duration) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let notes = notes(file);
        if notes.len() >= count {
            return notes;
        }
        assert!(begun.elapsed() < within, "{} of {count} served within {within:?}: {notes:?}", notes.len());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn nothing_is_left(file: &Path) {
    let written = Ledger::at(file, Arc::new(OfTheMachine)).dump().unwrap();
    let now = OfTheMachine.now().as_nanos() / 1000;
    assert!(
        written.locks.values().all(|lock| lock.ends.is_some_and(|ends| ends.as_micros() <= now)),
        "{written:?}"
    );
    assert!(written.queues.is_empty(), "{written:?}");
}

#[tokio::test]
async fn a_waiter_that_was_killed_costs_the_next_no_window() {
    let (_directory, file) = a_file();
    let store = FileStore::at(&file, Arc::new(OfTheMachine));
    let held = attempt(1, &["a"], 60_000);
    take(&store, &held).await;
    let mut waiters: Vec<_> = (0..4).map(|_| Process::in_line(&file)).collect();
    waiters[0].kill();
    waiters[2].kill();
    let begun = Instant::now();
    store.release(&held).await.unwrap();
    let order = served(&file, 2, Duration::from_secs(10));
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(order, [format!("{} 1", waiters[1].id()), format!("{} 1", waiters[3].id())]);
}

#[tokio::test]
async fn a_stopped_waiter_costs_one_window_and_finds_its_place_again() {
    let (_directory, file) = a_file();
    let store = FileStore::at(&file, Arc::new(OfTheMachine));
    let held = attempt(1, &["a"], 60_000);
    take(&store, &held).await;
    let waiters = [Process::in_line(&file), Process::in_line(&file)];
    waiters[0].stop();
    let begun = Instant::now();
    store.release(&held).await.unwrap();
    let order = served(&file, 1, Duration::from_secs(10));
    let took = begun.elapsed();
    assert!((Duration::from_millis(1900)..Duration::from_millis(3500)).contains(&took), "{took:?}");
    assert!(order[0].starts_with(&waiters[1].id()), "{order:?}");
    // Held again, so that there is a holder to queue behind.
    let again = attempt(2, &["a"], 60_000);
    take(&store, &again).await;
    let last = Process::in_line(&file);
    waiters[0].signal(Signal::CONT);
    // Once it has asked, it is before those that joined meanwhile.
    let begun = Instant::now();
    loop {
        let queue = store.inspect(&key("a")).await.unwrap().waiters;
        if queue.len() == 2 {
            assert!(queue[0].waited > queue[1].waited);
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "it does not come back");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    store.release(&again).await.unwrap();
    let order = served(&file, 3, Duration::from_secs(10));
    assert!(order[1].starts_with(&waiters[0].id()) && order[2].starts_with(&last.id()), "{order:?}");
}

#[test]
fn a_holder_that_was_killed_is_followed_at_once_although_its_lease_is_long() {
    let (_directory, file) = a_file();
    for _ in 0..5 {
        let mut holder = Process::start("holder", &file);
        let waiter = Process::in_line(&file);
        let before = notes(&file).len();
        let begun = Instant::now();
        holder.kill();
        let order = served(&file, before + 1, Duration::from_secs(10));
        let took = begun.elapsed();
        assert!(took < Duration::from_millis(250 + 250), "{took:?}");
        assert!(order[before].starts_with(&waiter.id()));
    }
    nothing_is_left(&file);
}

/// A killed holder notifies nobody, so waiting processes check their keys, some at a time. As many
/// as are checked at once have a holder that lives. A waiter that finds it out by itself asks more
/// than once.
#[tokio::test]
async fn every_key_of_a_killed_holder_is_found_though_there_are_many() {
    let (_directory, file) = a_file();
    let mut holder = Process::start("holder of many", &file);
    let [store, living] = [(); 2].map(|()| Arc::new(FileStore::at(&file, Arc::new(OfTheMachine))));
    let held: Vec<_> = (0..256).map(|n| format!("held{n}")).collect();
    for (n, key) in (10_000..).zip(&held) {
        take(&living, &attempt(n, &[key], 60_000)).await;
    }
    let wait = |(n, key): (u128, String)| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { take(&store, &attempt(n, &[&key], 60_000)).await })
    };
    let in_vain: Vec<_> = (20_000..).zip(held).map(wait).collect();
    let waiting: Vec<_> = (0..).zip(many()).map(wait).collect();
    let (mut ledger, begun) = (Ledger::at(&file, Arc::new(OfTheMachine)), Instant::now());
    while ledger.dump().unwrap().queues.len() < in_vain.len() + waiting.len() {
        assert!(begun.elapsed() < Duration::from_secs(20), "not all of them are queued");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    holder.kill();
    let served = async {
        let mut told = 0;
        for waiter in waiting {
            told += u32::from(waiter.await.unwrap() == 1);
        }
        told
    };
    let told = tokio::time::timeout(Duration::from_secs(10), served).await.expect("all keys are found");
    assert!(told > 0, "nobody was told of the later keys");
    in_vain.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Nobody has the log open any more that its session names.
#[test]
fn a_session_that_outlives_its_process_keeps_nobody_from_the_file() {
    let (_directory, file) = a_file();
    let mut holder = Process::start("holder with a supervisor", &file);
    let supervisor = holder.0.stdin.take().unwrap();
    holder.kill();
    for _ in 0..3 {
        assert_eq!(child::tries(&[], &file), "busy");
    }
    drop(supervisor);
    let begun = Instant::now();
    let said = loop {
        let said = child::tries_patiently(&[], &file);
        if said != "busy" || begun.elapsed() > Duration::from_secs(10) {
            break said;
        }
    };
    assert_eq!(said, "granted");
    assert!(!file.with_extension("db-wal").exists(), "the last one removes the log");
}

/// Its waiters are notified, and the death of its holders is noticed.
#[tokio::test]
async fn a_store_whose_directory_was_replaced_goes_on_in_the_new_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("below/leases.db");
    let (store, other) =
        (FileStore::at(&file, Arc::new(OfTheMachine)), FileStore::at(&file, Arc::new(OfTheMachine)));
    let wait = WaitMode::Wait { queue_limit: None };
    for who in 1..3 {
        store.grant(&attempt(who, &["a"], 60_000), wait).await.unwrap();
    }
    fs::rename(directory.path().join("below"), directory.path().join("away")).unwrap();
    let (held, waiter) = (attempt(3, &["b"], 60_000), attempt(4, &["b"], 60_000));
    assert!(matches!(store.grant(&held, WaitMode::Try).await, Ok(GrantAnswer::Granted { .. })));
    assert!(matches!(store.grant(&waiter, wait).await, Ok(GrantAnswer::Busy { .. })));
    other.release(&held).await.unwrap();
    let woken = tokio::time::timeout(Duration::from_secs(10), store.woken(&waiter)).await;
    assert!(matches!(woken, Ok(Wake::Granted { .. })), "{woken:?}");
    drop(store);
    let next = attempt(5, &["b"], 60_000);
    is_free_for(&other, &next).await;
}

/// The store has another session by then, but relies on the lease as long as it lasts.
#[tokio::test]
async fn a_lease_in_a_directory_that_was_replaced_and_comes_back_is_still_its_holders() {
    let directory = tempfile::tempdir().unwrap();
    let [here, away, new] = ["here", "away", "new"].map(|name| directory.path().join(name));
    let file = here.join("leases.db");
    let [store, other] = [(); 2].map(|()| FileStore::at(&file, Arc::new(OfTheMachine)));
    for (who, name) in [(1, "a"), (2, "b")] {
        let granted = store.grant(&attempt(who, &[name], 60_000), WaitMode::Try).await;
        assert!(matches!(granted, Ok(GrantAnswer::Granted { .. })), "{granted:?}");
        if who == 1 {
            fs::rename(&here, &away).unwrap();
        }
    }
    fs::rename(&here, &new).unwrap();
    fs::rename(&away, &here).unwrap();
    let tried = other.grant(&attempt(3, &["a"], 60_000), WaitMode::Try).await;
    assert!(matches!(tried, Ok(GrantAnswer::Busy { .. })), "{tried:?}");
}

/// A person, or a program that removes old files, took them for rubbish.
#[tokio::test]
async fn a_store_whose_session_was_removed_starts_another_and_its_waiters_keep_their_turns() {
    let (_directory, file) = a_file();
    // With these clocks, no waiter asks again by itself, and no lease ends.
    let clocks = ByHand::new();
    let [holder, waiter] = [(); 2].map(|()| FileStore::at(&file, Arc::<ByHand>::clone(&clocks)));
    let [held, other, waits] =
        [(1, "a"), (2, "b"), (3, "a")].map(|(who, name)| attempt(who, &[name], 60_000));
    let wait = WaitMode::Wait { queue_limit: None };
    for (store, attempt) in [(&holder, &held), (&waiter, &other)] {
        assert!(matches!(store.grant(attempt, WaitMode::Try).await, Ok(GrantAnswer::Granted { .. })));
    }
    assert!(matches!(waiter.grant(&waits, wait).await, Ok(GrantAnswer::Busy { .. })));
    fs::remove_dir_all(format!("{}-peers", file.display())).unwrap();
    let woken = tokio::time::timeout(Duration::from_secs(10), waiter.woken(&waits)).await;
    assert_eq!(woken, Ok(Wake::AskAgain));
    assert!(matches!(waiter.grant(&waits, wait).await, Ok(GrantAnswer::Busy { .. })));
    holder.release(&held).await.unwrap();
    assert_eq!(holder.inspect(&key("a")).await.unwrap().holders.len(), 1, "the waiter counts as dead");
    let renewed = waiter.renew(std::slice::from_ref(&other)).await.remove(0);
    assert_eq!(renewed.unwrap(), HoldAnswer::Done);
    drop(waiter);
    let next = attempt(4, &["b"], 60_000);
    is_free_for(&holder, &next).await;
}

/// Regression: the next renewal put the lease under a new session. When `leasehold run` was killed
/// after that, the next holder had the lock while the supervisor was still ending the command.
#[tokio::test]
async fn a_lease_lasts_as_long_as_its_lifeline_though_its_session_was_removed() {
    let (_directory, file) = a_file();
    let clocks = ByHand::new();
    let [holder, other] = [(); 2].map(|()| FileStore::at(&file, Arc::<ByHand>::clone(&clocks)));
    let [held, next] = [1, 2].map(|who| attempt(who, &["a"], 60_000));
    assert!(matches!(holder.grant(&held, WaitMode::Try).await, Ok(GrantAnswer::Granted { .. })));
    let _lifeline = holder.lifelines().remove(0);
    fs::remove_dir_all(format!("{}-peers", file.display())).unwrap();
    let renewed = holder.renew(std::slice::from_ref(&held)).await.remove(0);
    assert_eq!(renewed.unwrap(), HoldAnswer::Done);
    drop(holder);
    // Its thread closes the store a moment later.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(300) {
        let tried = other.grant(&next, WaitMode::Try).await;
        assert!(matches!(tried, Ok(GrantAnswer::Busy { .. })), "{tried:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn a_stopped_holder_keeps_its_lease() {
    let (_directory, file) = a_file();
    let holder = Process::start("holder", &file);
    holder.stop();
    let _waiter = Process::in_line(&file);
    std::thread::sleep(Duration::from_millis(500));
    assert!(notes(&file).is_empty());
}

/// Fifty processes; every few hundredths of a second one is killed and another starts.
#[test]
fn a_kill_at_any_time_keeps_nobody_out_and_lets_nobody_in_too_early() {
    let (_directory, file) = a_file();
    let mut dice = Dice(11);
    let mut processes: Vec<_> = (0..50).map(|_| Process::start("round and round", &file)).collect();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(6) {
        std::thread::sleep(Duration::from_millis(20 + dice.below(60)));
        let which = usize::try_from(dice.below(50)).unwrap();
        processes[which].kill();
        processes[which] = Process::start("round and round", &file);
    }
    // Every surviving process is served again: none was skipped for good.
    let before = notes(&file).len();
    let alive: Vec<_> = processes.iter().map(Process::id).collect();
    let begun = Instant::now();
    loop {
        let notes = notes(&file);
        assert!(!notes.iter().any(|note| note.contains("at once")), "{notes:?}");
        if alive.iter().all(|id| notes[before..].contains(id)) {
            println!("{} holds", notes.len());
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "somebody starves");
        std::thread::sleep(Duration::from_millis(5));
    }
    processes.iter_mut().for_each(|process| _ = process.kill());
    // The next process after all of them finds the lock free, and leaves nothing behind.
    let mut last = Process::start("waiter", &file);
    last.ends();
    let sessions = fs::read_dir(file.with_extension("db-peers")).unwrap().count();
    assert_eq!(sessions, 0, "something is left of the dead");
    nothing_is_left(&file);
}

/// Two thousand in one process: what a release costs does not grow with the queue.
#[test]
fn a_long_queue_does_not_slow_a_release() {
    let (_directory, file) = a_file();
    let mut ledger = Ledger::at(&file, Arc::new(OfTheMachine));
    let ask = |who: u128| Request::Grant {
        attempt: attempt(who, &["a"], Ttl::DEFAULT.as_millis()),
        wait: Some(Wait::default()),
        not_after: None,
    };
    for who in 0..2000 {
        ledger.serve(ask(who)).unwrap();
    }
    let mut took = Vec::new();
    for who in 0..1999 {
        let begun = Instant::now();
        let served = ledger.serve(Request::Release(attempt(who, &["a"], 1000))).unwrap();
        took.push(begun.elapsed());
        assert_eq!(served.pushes[0].holder.bits(), who + 1);
    }
    let median = |part: &[Duration]| {
        let mut part = part.to_vec();
        part.sort();
        part[part.len() / 2]
    };
    let (long, short) = (median(&took[..200]), median(&took[1799..]));
    println!("a release takes {long:?} of 2,000, {short:?} of 200");
    assert!(long < short * 3, "{long:?} against {short:?}");
}

/// Regression: a disk that hung stopped the requests to the other members.
#[tokio::test]
async fn a_member_of_a_quorum_never_works_on_the_thread_of_the_program() {
    for is_member in [false, true] {
        let (_directory, file) = a_file();
        let clocks = ByHand::new();
        let store = FileStore::at(&file, Arc::<ByHand>::clone(&clocks));
        if is_member {
            store.as_member().unwrap();
        }
        let begun = Instant::now();
        let mut here = false;
        // After a slow request, those of no member are left to the store's thread for a while, too.
        let goes_on = |who| if is_member { who <= 50 } else { begun.elapsed() < Duration::from_secs(20) };
        for who in (1..).take_while(|who| goes_on(*who)) {
            let attempt = attempt(who, &["a"], 60_000);
            clocks.readers.lock().unwrap().clear();
            store.grant(&attempt, WaitMode::Try).await.unwrap();
            here = clocks.readers.lock().unwrap().contains(&std::thread::current().id());
            store.release(&attempt).await.unwrap();
            if here {
                break;
            }
        }
        assert_eq!(here, !is_member);
    }
}
