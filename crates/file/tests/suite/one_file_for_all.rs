//! Several connections and several processes on one file; some of them are killed.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use leasehold_core::Request;
use leasehold_file::Ledger;

use crate::clocks::OfTheMachine;
use crate::queue::Process;
use crate::seeds::{Dice, a_file, attempt, take};

/// The child writes continuously. However it ends, the file is intact, fences keep rising, and the
/// next holder gets the lock when the lease of 150 ms is over.
#[test]
fn a_process_killed_at_any_moment_leaves_a_sound_file_and_costs_one_ttl() {
    let (_directory, file) = a_file();
    let mut dice = Dice(7);
    let mut last = None;
    let mut left_a_lease = 0;
    for round in 0..30 {
        let mut child = Process::start_by(&[], "take and release until killed", &file);
        thread::sleep(Duration::from_micros(dice.below(20_000)));
        assert_eq!(child.kill().signal(), Some(9), "the child ended by itself");
        let killed = Instant::now();
        let mut ledger = Ledger::at(&file, Arc::new(OfTheMachine));
        let attempt = attempt(round, &["a"], 150);
        let mut asks = 0;
        let fence = loop {
            match take(&mut ledger, &attempt) {
                Some(fence) => break fence,
                None => asks += 1,
            }
            thread::sleep(Duration::from_millis(1));
        };
        // A quarter of a second for a busy machine.
        assert!(killed.elapsed() < Duration::from_millis(150 + 250), "let in after {:?}", killed.elapsed());
        left_a_lease += u32::from(asks > 0);
        assert!(last.is_none_or(|last| fence > last), "{fence} after {last:?}");
        last = Some(fence);
        ledger.serve(Request::Release(attempt)).unwrap();
        drop(ledger);
        assert_is_sound(&file);
    }
    assert!(left_a_lease > 0, "no child was killed while it held");
}

fn assert_is_sound(file: &Path) {
    let connection = rusqlite::Connection::open(file).unwrap();
    let found: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(found, "ok");
}
