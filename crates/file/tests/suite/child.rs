//! Other processes: this very test binary, run again with a task in its environment.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{env, process, thread};

use leasehold_core::{Answer, FaultKind, GrantAnswer, Request};
use leasehold_file::Ledger;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::clocks::OfTheMachine;
use crate::seeds::{a_try, attempt, key, take};

const TASK: &str = "LEASEHOLD_FILE_TEST_TASK";
const FILE: &str = "LEASEHOLD_FILE_TEST_FILE";

/// The command by which another process does a task on a file; a wrapper's words go before it.
pub(crate) fn command(wrapper: &[&str], task: &str, file: &Path) -> Command {
    let me = env::current_exe().unwrap();
    let mut command = match wrapper {
        [] => Command::new(me),
        [program, words @ ..] => {
            let mut command = Command::new(program);
            command.args(words).arg(me);
            command
        }
    };
    command.args(["child::a_task_of_another_test_is_done", "--exact", "--nocapture"]);
    command.env(TASK, task).env(FILE, file).stdout(Stdio::piped());
    command
}

/// The result of another process's try to lock `a`: "granted", "busy" or the error.
pub(crate) fn tries(wrapper: &[&str], file: &Path) -> String {
    said_of(command(wrapper, "try", file))
}

/// The same for a process that retries after passing faults for ten seconds.
pub(crate) fn tries_patiently(wrapper: &[&str], file: &Path) -> String {
    said_of(command(wrapper, "try patiently", file))
}

fn said_of(mut command: Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let tried = said.lines().find_map(|line| line.split_once("tried: "));
    tried.unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&output.stderr))).1.to_owned()
}

/// True if a wrapper's command can be run here. Otherwise, prints that the test is skipped.
pub(crate) fn can(wrapper: &[&str]) -> bool {
    let status = Command::new(wrapper[0]).args(&wrapper[1..]).arg("true").stderr(Stdio::null()).status();
    let can = status.is_ok_and(|status| status.success());
    if !can {
        eprintln!("left out: {} is not permitted here", wrapper.join(" "));
    }
    can
}

fn try_to_lock(mut ledger: Ledger, patience: Duration) {
    let attempt = attempt(process::id().into(), &["a"], 60_000);
    let begun = std::time::Instant::now();
    let said = loop {
        match ledger.serve(a_try(&attempt)) {
            Err(fault) if fault.kind == FaultKind::Passing && begun.elapsed() < patience => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(fault) => break fault.to_string(),
            Ok(served) => match served.answer {
                Answer::Grant(GrantAnswer::Granted { .. }) => break "granted".into(),
                Answer::Grant(GrantAnswer::Busy { .. }) => break "busy".into(),
                other => break format!("{other:?}"),
            },
        }
    };
    println!("tried: {said}");
}

#[test]
fn a_task_of_another_test_is_done() {
    let (Ok(task), Some(file)) = (env::var(TASK), env::var_os(FILE).map(PathBuf::from)) else { return };
    let mut ledger = Ledger::at(&file, Arc::new(OfTheMachine));
    match &*task {
        "open" => ledger.open().unwrap(),
        "hold" => drop(take(&mut ledger, &attempt(process::id().into(), &["a"], 60_000)).unwrap()),
        "take and release until killed" => take_and_release(ledger),
        "write until killed" => write_until_killed(&file),
        "set up the index until killed" => set_up_the_index_until_killed(&file),
        "try" => try_to_lock(ledger.mortal(), Duration::ZERO),
        "try patiently" => try_to_lock(ledger.mortal(), Duration::from_secs(10)),
        "fill the disk" => fill_the_disk(ledger, &file),
        task => crate::queue::do_task(task, &file),
    }
}

fn take_and_release(mut ledger: Ledger) {
    let first = u128::from(process::id()) << 64;
    let mut who = first;
    loop {
        who += 1;
        let attempt = attempt(who, &["a", &format!("b{}", who % 7)], 150);
        if take(&mut ledger, &attempt).is_some() {
            ledger.serve(Request::Release(attempt)).unwrap();
        }
        // Only once: nobody reads any more, and a write to a full pipe would block.
        if who == first + 16 {
            println!("at work");
        }
    }
}

/// Begins a transaction and never ends it. It ends with the test, even if it is stopped by then.
fn write_until_killed(file: &Path) {
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let connection = rusqlite::Connection::open(file).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    println!("at work");
    loop {
        thread::park();
    }
}

/// Begins to set up the index of the log, as SQLite does, and never ends that.
fn set_up_the_index_until_killed(file: &Path) {
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let index = fs::File::options().write(true).open(format!("{}-shm", file.display())).unwrap();
    fcntl_lock(&index, FlockOperation::NonBlockingLockExclusive).unwrap();
    index.set_len(3).unwrap();
    println!("at work");
    loop {
        thread::park();
    }
}

/// A lock is held, the small disk fills up, and the lock can still be released.
fn fill_the_disk(mut ledger: Ledger, file: &Path) {
    ledger.open().unwrap();
    let held = attempt(1, &["held"], 60_000);
    take(&mut ledger, &held).unwrap();
    let rubbish = file.with_extension("rubbish");
    let mut filler = fs::File::create(&rubbish).unwrap();
    while filler.write_all(&[7; 4096]).is_ok() {}
    drop(filler);
    let mut taken = 0;
    let fault = loop {
        let attempt = attempt(100 + taken, &[&format!("{taken:0>900}")], 60_000);
        match ledger.serve(a_try(&attempt)) {
            Ok(_) => taken += 1,
            Err(fault) => break fault,
        }
        assert!(taken < 10_000, "the disk is never full");
    };
    assert_eq!(fault.kind, FaultKind::Lasting, "{fault}");
    assert!(fault.reason.contains("the disk is full"), "{fault}");
    ledger.serve(Request::Inspect(key("held"))).unwrap();
    // A session for which there is no room leaves nothing.
    let attempt = attempt(2, &["held"], 1000);
    let _ = Ledger::at(file, Arc::new(OfTheMachine)).mortal().serve(a_try(&attempt));
    assert_eq!(fs::read_dir(file.with_extension("db-peers")).unwrap().count(), 0);
    fs::remove_file(rubbish).unwrap();
    let written = ledger.dump().unwrap();
    assert_eq!(
        written.locks.len(),
        usize::try_from(taken).unwrap() + 1,
        "what was refused was taken all the same"
    );
    ledger.serve(Request::Release(held)).unwrap();
    println!("the disk was full after {taken} more locks");
}
