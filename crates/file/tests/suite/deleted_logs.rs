//! SQLite's files next to the database, deleted or replaced while processes have it open: nobody
//! else is granted their locks.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use leasehold_core::{Answer, HoldAnswer, Request};
use leasehold_file::Ledger;

use crate::child;
use crate::clocks::OfTheMachine;
use crate::queue::Process;
use crate::seeds::{a_file, attempt, take};

fn delete(file: &Path, suffixes: &[&str]) {
    suffixes.iter().for_each(|suffix| fs::remove_file(format!("{}{suffix}", file.display())).unwrap());
}

#[test]
fn a_process_whose_log_was_deleted_keeps_its_locks_and_nobody_else_gets_them() {
    for suffixes in [&["-wal", "-shm"][..], &["-shm"], &["-wal"]] {
        let (_directory, file) = a_file();
        let mut holder = Ledger::at(&file, Arc::new(OfTheMachine)).mortal();
        let held = attempt(1, &["a"], 60_000);
        take(&mut holder, &held).unwrap();
        assert_eq!(child::tries(&[], &file), "busy");
        delete(&file, suffixes);
        let said = child::tries(&[], &file);
        let me = format!("process {} writes to a log of this file that was deleted", std::process::id());
        assert!(said.contains(&me), "{suffixes:?}: {said}");
        // A holder notices it at its next request, and loses nothing.
        let renewed = holder.serve(Request::Renew(held.clone())).unwrap().answer;
        assert_eq!(renewed, Answer::Renew(HoldAnswer::Done), "{suffixes:?}");
        assert_eq!(child::tries(&[], &file), "busy", "{suffixes:?}");
        holder.serve(Request::Release(held)).unwrap();
        assert_eq!(child::tries(&[], &file), "granted", "{suffixes:?}");
    }
}

/// A program may hold a lock and make no request for a long time: it is asked to check.
#[test]
fn a_process_that_asks_for_nothing_notices_as_soon_as_another_one_needs_the_file() {
    let (_directory, file) = a_file();
    let mut holder = Process::start_by(&[], "holder", &file);
    delete(&file, &["-wal", "-shm"]);
    assert_eq!(child::tries_patiently(&[], &file), "busy");
    holder.kill();
    assert_eq!(child::tries_patiently(&[], &file), "granted");
}

#[test]
fn data_that_only_the_log_contains_survives_its_deletion() {
    let (_directory, file) = a_file();
    let mut ledgers = [1, 2].map(|_| Ledger::at(&file, Arc::new(OfTheMachine)).mortal());
    for (who, ledger) in (0_u128..).zip(&mut ledgers) {
        take(ledger, &attempt(who, &[&format!("k{who}")], 60_000)).unwrap();
    }
    delete(&file, &["-wal", "-shm"]);
    for (who, ledger) in (0_u128..).zip(&mut ledgers) {
        let renew = || Request::Renew(attempt(who, &[&format!("k{who}")], 60_000));
        // The first waits for the second, which still uses the old log.
        let renewed = (0..2).find_map(|_| ledger.serve(renew()).ok());
        if who == 1 {
            assert_eq!(renewed.unwrap().answer, Answer::Renew(HoldAnswer::Done));
        }
    }
    let renewed = ledgers[0].serve(Request::Renew(attempt(0, &["k0"], 60_000))).unwrap().answer;
    assert_eq!(renewed, Answer::Renew(HoldAnswer::Done));
}

/// Regression: without the session of the process that has the file open, the next was granted its
/// locks.
#[test]
fn a_process_whose_log_and_session_were_deleted_together_excludes_others_until_it_notices() {
    for notices in [true, false] {
        let (_directory, file) = a_file();
        let mut holder = Ledger::at(&file, Arc::new(OfTheMachine)).mortal();
        let held = attempt(1, &["a"], 60_000);
        take(&mut holder, &held).unwrap();
        delete(&file, &["-wal", "-shm"]);
        fs::remove_dir_all(format!("{}-peers", file.display())).unwrap();
        let said = child::tries(&[], &file);
        assert!(said.contains("another process writes to a log of this file that was deleted"), "{said}");
        if notices {
            let renewed = holder.serve(Request::Renew(held)).unwrap().answer;
            assert!(matches!(renewed, Answer::Renew(HoldAnswer::NotHeld { .. })), "{renewed:?}");
        } else {
            drop(holder);
        }
        assert_eq!(child::tries(&[], &file), "granted");
    }
}
