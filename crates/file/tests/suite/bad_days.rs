//! Reboots, clocks that are set back, full disks, busy files, and obsolete rows.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Answer, BreakAnswer, BreakNote, FaultCause, FaultKind, Fence, GrantAnswer, LeaseBreak, Mark, Proposal,
    Request, Stamp, Ttl,
};
use leasehold_file::{BootId, Ledger};
use rustix::process::Signal;

use crate::child;
use crate::clocks::ByHand;
use crate::queue::Process;
use crate::seeds::{a_file, a_try, attempt, key, take};

#[test]
fn after_a_reboot_leases_are_void_and_fences_still_rise() {
    let (_directory, file) = a_file();
    let clock = ByHand::new();
    let booted_as = |id| Ledger::at(&file, Arc::clone(&clock) as _).in_boot(BootId::new(id));
    let before = take(&mut booted_as("one"), &attempt(1, &["a"], 60_000)).unwrap();
    assert_eq!(take(&mut booted_as("one"), &attempt(2, &["a"], 60_000)), None);
    clock.set_lease_clock(5_000_000);
    clock.set_wall_clock(clock.wall_clock() - 3_600_000_000);
    let mut ledger = booted_as("two");
    assert!(ledger.dump().unwrap().locks.is_empty());
    assert_eq!(ledger.dump().unwrap().fences[&key("a")].ends.as_micros(), 605_000_000);
    assert_eq!(take(&mut ledger, &attempt(2, &["a"], 60_000)).unwrap().get(), before.get() + 1);
}

#[test]
fn a_file_that_another_keeps_for_longer_than_a_second_is_busy_and_then_serves_again() {
    let (_directory, file) = a_file();
    let mut ledger = Ledger::at(&file, ByHand::new());
    ledger.open().unwrap();
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begun = std::time::Instant::now();
    let grant = a_try(&attempt(1, &["a"], 1000));
    let fault = ledger.serve(grant).unwrap_err();
    assert!(fault.kind == FaultKind::Passing && fault.reason.contains("the file is busy"), "{fault}");
    assert!((Duration::from_secs(1)..Duration::from_secs(3)).contains(&begun.elapsed()));
    ledger.serve(Request::Inspect(key("a"))).unwrap();
    other.execute_batch("ROLLBACK").unwrap();
    assert!(take(&mut ledger, &attempt(1, &["a"], 1000)).is_some());
}

/// Nobody can take the file away from a process that was stopped while it wrote.
#[test]
fn a_process_that_was_stopped_while_it_wrote_is_named_and_ending_it_frees_the_file() {
    let (_directory, file) = a_file();
    let mut ledger = Ledger::at(&file, ByHand::new());
    ledger.open().unwrap();
    let mut writer = Process::start_by(&[], "write until killed", &file);
    let grant = || a_try(&attempt(1, &["a"], 1000));
    let fault = ledger.serve(grant()).unwrap_err();
    let kept = format!("the file is busy: process {} (", writer.id());
    assert!(fault.reason.starts_with(&kept) && !fault.reason.contains("stopped"), "{fault}");
    writer.signal(Signal::STOP);
    let fault = ledger.serve(grant()).unwrap_err();
    let remedy = format!("let it go on (`kill -CONT {}`) or end it", writer.id());
    assert!(fault.reason.starts_with(&kept) && fault.reason.contains(&remedy), "{fault}");
    assert_eq!(fault.kind, FaultKind::Passing);
    // Opening it fails in the same way.
    let fault = Ledger::at(&file, ByHand::new()).serve(grant()).unwrap_err();
    assert!(fault.reason.contains(&remedy), "{fault}");
    writer.kill();
    assert!(take(&mut ledger, &attempt(1, &["a"], 1000)).is_some());
}

/// Regression: it was not named, and the others were told that it had a log that was deleted.
#[test]
fn a_process_that_was_stopped_while_it_created_the_file_is_named() {
    let (_directory, file) = a_file();
    let mut writer = Process::start_by(&[], "write until killed", &file);
    assert_names_the_stopped(&mut writer, &mut Ledger::at(&file, ByHand::new()));
}

/// Regression: each request of the others took ten seconds and ended with "locking protocol".
#[test]
fn a_process_that_was_stopped_while_it_opened_the_log_is_named() {
    let (_directory, file) = a_file();
    let mut ledger = Ledger::at(&file, ByHand::new());
    ledger.open().unwrap();
    let log = ["-wal", "-shm"].map(|suffix| format!("{}{suffix}", file.display()));
    // As after a kill: the last user that closes a file removes its log.
    let left = log.clone().map(|path| std::fs::read(path).unwrap());
    drop(ledger);
    for (path, bytes) in log.iter().zip(left) {
        std::fs::write(path, bytes).unwrap();
    }
    let mut writer = Process::start_by(&[], "set up the index until killed", &file);
    assert_names_the_stopped(&mut writer, &mut Ledger::at(&file, ByHand::new()));
}

/// After a second, and once it has ended, the file serves.
fn assert_names_the_stopped(writer: &mut Process, ledger: &mut Ledger) {
    writer.signal(Signal::STOP);
    let begun = std::time::Instant::now();
    let fault = ledger.open().unwrap_err();
    assert!((Duration::from_secs(1)..Duration::from_secs(3)).contains(&begun.elapsed()), "{fault}");
    let kept = format!("the file is busy: process {} (", writer.id());
    let remedy = format!("let it go on (`kill -CONT {}`) or end it", writer.id());
    assert!(fault.reason.starts_with(&kept) && fault.reason.contains(&remedy), "{fault}");
    // Regression: the command advised to see that the file can be reached, or to use another store.
    assert_eq!((fault.kind, fault.cause), (FaultKind::Passing, FaultCause::NotServing));
    writer.kill();
    ledger.open().unwrap();
}

/// On a tmpfs of 1 MiB in a mount namespace of its own.
#[test]
fn a_full_disk_takes_nothing_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let apart = ["unshare", "--user", "--map-root-user", "--mount"];
    let can = Command::new(apart[0])
        .args(&apart[1..])
        .args(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs"])
        .arg(directory.path())
        .status();
    if !can.is_ok_and(|status| status.success()) {
        eprintln!("left out: no file system can be mounted here");
        return;
    }
    let script = format!(
        "mount -t tmpfs -o size=1m,mode=0700 tmpfs {0} && exec \"$0\" \"$@\"",
        directory.path().display()
    );
    let wrapper = [&apart[..], &["sh", "-c", &script]].concat();
    let output =
        child::command(&wrapper, "fill the disk", &directory.path().join("leases.db")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("the disk was full after"), "{said}{complained}");
}

/// The error said that the log was deleted, if there was a file for it, and none to find that out.
#[test]
fn a_process_that_may_open_too_few_files_is_told_no_other_reason() {
    if !child::can(&["prlimit", "--nofile=64:64"]) {
        return;
    }
    let (_directory, file) = a_file();
    let tries = |limit: u32| child::tries(&["prlimit", &format!("--nofile={limit}:{limit}")], &file);
    let said: Vec<_> = (4..).map(tries).take_while(|said| said != "granted").collect();
    for said in &said {
        let is_true =
            ["Too many open files", "unable to open database file"].iter().any(|it| said.contains(it));
        assert!(is_true, "{said}");
    }
    assert!(said.len() > 1);
}

#[test]
fn rows_of_keys_that_nobody_uses_any_more_do_not_pile_up() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ByHand::new();
    let mut ledger = Ledger::at(directory.path().join("leases.db"), Arc::clone(&clock) as _);
    let mut most = 0;
    for n in 0..3000_u32 {
        // Fresh keys, never released: one every ten seconds, whose fence is remembered for ten
        // minutes.
        take(&mut ledger, &attempt(n.into(), &[&format!("job:{:08x}", n.wrapping_mul(2_654_435_761))], 1000))
            .unwrap();
        clock.pass(Duration::from_secs(10));
        if n % 50 == 0 {
            let written = ledger.dump().unwrap();
            assert!(written.locks.len() <= written.fences.len());
            most = most.max(written.fences.len());
        }
    }
    assert!((60..80).contains(&most), "{most} rows for 60 that live");
}

#[test]
fn marks_and_breaks_that_have_ended_do_not_pile_up() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ByHand::new();
    let mut ledger = Ledger::at(directory.path().join("leases.db"), Arc::clone(&clock) as _);
    for n in 0..5 {
        let ours = attempt(n, &[&format!("job:{n}")], 60_000);
        let fence = take(&mut ledger, &ours).unwrap();
        let (key, mark) = (ours.claim.first_key().clone(), Mark::new(Stamp::from_micros(1), fence, None));
        ledger.serve(Request::Mark { attempt: ours, mark, keep: Duration::from_secs(3600) }).unwrap();
        let lease = LeaseBreak::new(fence, BreakNote::default());
        let broken = ledger.serve(Request::Break { key, lease }).unwrap().answer;
        assert!(matches!(broken, Answer::Break(BreakAnswer::Broken { .. })), "{broken:?}");
        let written = ledger.dump().unwrap();
        assert_eq!((written.marks.len(), written.breaks.len()), (1, 1), "of {}", n + 1);
        // Longer than both are kept.
        clock.pass(Duration::from_secs(100 * 24 * 3600));
    }
}

/// Regression: it read the breaks of all keys that begin with this one, and failed with any of them.
#[test]
fn the_break_of_a_key_is_read_whatever_is_recorded_of_longer_keys() {
    let (_directory, file) = a_file();
    let mut ledger = Ledger::at(&file, ByHand::new());
    for (who, name) in [(1, "a"), (2, "ab")] {
        let fence = take(&mut ledger, &attempt(who, &[name], 60_000)).unwrap();
        let lease = LeaseBreak::new(fence, BreakNote::default());
        let broken = ledger.serve(Request::Break { key: key(name), lease }).unwrap().answer;
        assert!(matches!(broken, Answer::Break(BreakAnswer::Broken { .. })), "{broken:?}");
    }
    let other = rusqlite::Connection::open(&file).unwrap();
    assert_eq!(other.execute("UPDATE broken SET fence = -1 WHERE key = ?1", [b"ab"]), Ok(1));
    assert_eq!(ledger.last_break(&key("a")).unwrap().unwrap().key, key("a"));
    assert_eq!(ledger.last_break(&key("b")).unwrap(), None);
    assert!(ledger.last_break(&key("ab")).unwrap_err().reason.contains("the fence of a break is -1"));
}

/// As a member of a quorum. A new file may replace one that was deleted.
#[test]
fn a_file_that_is_new_or_of_another_boot_abstains() {
    let (_directory, file) = a_file();
    let clock = ByHand::new();
    let booted_as = |id| Ledger::at(&file, Arc::clone(&clock) as _).in_boot(BootId::new(id));
    let abstains_for_six_seconds = |ledger: &mut Ledger| {
        let one = attempt(1, &["a"], 1000);
        let max_ttl = Ttl::new(Duration::from_secs(5)).unwrap();
        let one = one.at_member(one.holder, Proposal { fence: Fence::new(7).unwrap(), max_ttl });
        let mut asks = || ledger.serve(a_try(&one)).unwrap().answer;
        assert_eq!(asks(), Answer::Quarantined { left: Duration::from_secs(6) });
        clock.pass(Duration::from_secs(6) - Duration::from_micros(1));
        assert_eq!(asks(), Answer::Quarantined { left: Duration::from_micros(1) });
        clock.pass(Duration::from_micros(1));
        assert!(matches!(asks(), Answer::Grant(GrantAnswer::Granted { .. })));
    };
    abstains_for_six_seconds(&mut booted_as("one"));
    clock.set_lease_clock(5_000_000);
    abstains_for_six_seconds(&mut booted_as("two"));
    std::fs::remove_file(&file).unwrap();
    abstains_for_six_seconds(&mut booted_as("two"));
}
