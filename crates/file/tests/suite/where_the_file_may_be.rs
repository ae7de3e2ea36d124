//! Paths and directories that are refused, and the permissions of those that are accepted.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use leasehold_core::{
    Answer, Attempt, BreakNote, Claim, Fault, FaultKind, HoldAnswer, Holder, Mark, Marked, Request, Stamp,
    Ttl, Wait,
};
use leasehold_file::Ledger;

use crate::clocks::ByHand;
use crate::queue::Process;
use crate::seeds::{a_file, attempt, key, take};

fn open(path: impl AsRef<Path>) -> Result<Ledger, Fault> {
    let mut ledger = Ledger::at(path, ByHand::new());
    ledger.open().map(|()| ledger)
}

/// Gives columns of the file the names that they had up to format 4.
fn with_older_names(file: &Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(file).unwrap();
    connection
        .execute_batch(
            "ALTER TABLE record RENAME COLUMN session TO life; ALTER TABLE record RENAME COLUMN queue_ends TO line_ends;
             ALTER TABLE waiter RENAME COLUMN session TO life; ALTER TABLE share RENAME COLUMN session TO life;",
        )
        .unwrap();
    connection
}

/// Opening fails permanently, with one line that contains the words.
fn refused(path: impl AsRef<Path>, words: &[&str]) {
    let fault = open(path).map(drop).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Lasting, "{fault}");
    assert!(words.iter().all(|word| fault.reason.contains(word)) && !fault.reason.contains('\n'), "{fault}");
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn chmod(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn directories_are_made_0700_and_files_0600_under_any_umask() {
    for umask in ["0", "0277"] {
        let (directory, _) = a_file();
        let file = directory.path().join("not/there/leases.db");
        let script = format!("umask {umask}; exec \"$0\" \"$@\"");
        if umask == "0277" {
            // Nobody but root could create a second directory in one without the right to write.
            DirBuilder::new().recursive(true).mode(0o700).create(file.parent().unwrap()).unwrap();
        }
        // The child is left without closing the file, so that -wal and -shm can be looked at.
        Process::start_by(&["sh", "-c", &script], "holder", &file).kill();
        for made in ["not", "not/there", "not/there/leases.db-peers"] {
            assert_eq!(mode(directory.path().join(made)), 0o700);
        }
        for made in ["leases.db", "leases.db-wal", "leases.db-shm"] {
            assert_eq!(
                mode(directory.path().join("not/there").join(made)),
                0o600,
                "{made} under umask {umask}"
            );
        }
    }
}

#[test]
fn a_directory_that_others_can_write_to_is_refused() {
    let closed = "run chmod 700 on it";
    for (bits, remedy) in [(0o770, closed), (0o702, closed), (0o777, closed), (0o1777, "such as one in it")] {
        let (directory, file) = a_file();
        chmod(&directory, bits);
        refused(&file, &["can be written by others", &format!("{bits:04o}"), remedy]);
        assert!(!file.exists());
        chmod(&directory, 0o755);
        open(&file).unwrap();
    }
}

#[test]
fn a_directory_of_somebody_else_is_refused() {
    if is_root() {
        let (directory, file) = a_file();
        chown(&directory, Some(65534), None).unwrap();
        refused(file, &["the directory", "belongs to user 65534", "your own"]);
    } else {
        refused("/leases.db", &["the directory", "belongs to user 0", "your own"]);
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_refused() {
    let (directory, file) = a_file();
    chmod(&directory, 0o500);
    refused(file, &["the directory", "read-only", "chmod 700"]);
    chmod(&directory, 0o700);
}

#[test]
fn a_directory_that_cannot_be_made_is_refused() {
    let (_directory, file) = a_file();
    fs::write(&file, "").unwrap();
    refused(file.join("below/leases.db"), &["cannot create the directory"]);
}

#[test]
fn a_file_of_somebody_else_is_refused() {
    let (_directory, file) = a_file();
    open(&file).unwrap();
    // Only root can give a file away.
    if is_root() {
        chown(&file, Some(65534), None).unwrap();
        refused(file, &["leases.db belongs to user 65534", "your own"]);
    }
}

#[test]
fn a_file_that_others_can_write_or_its_owner_cannot_is_refused() {
    for (bits, words) in
        [(0o620, "can be written by others"), (0o602, "can be written by others"), (0o400, "read-only")]
    {
        let (_directory, file) = a_file();
        open(&file).unwrap();
        chmod(&file, bits);
        refused(&file, &[words, &format!("{bits:04o}"), "chmod 600"]);
    }
}

#[test]
fn a_symbolic_link_is_refused_also_one_that_leads_nowhere() {
    let (directory, file) = a_file();
    let target = directory.path().join("target.db");
    symlink(&target, &file).unwrap();
    refused(&file, &["is a symbolic link"]);
    assert!(!target.exists());
    open(&target).unwrap();
    refused(&file, &["is a symbolic link", "the file itself"]);
}

#[test]
fn a_file_with_two_names_is_refused() {
    let (directory, file) = a_file();
    open(&file).unwrap();
    fs::hard_link(&file, directory.path().join("twin.db")).unwrap();
    refused(&file, &["another name", "remove one"]);
}

/// SQLite adds to the name, and knows no longer paths.
#[test]
fn a_path_that_is_too_long_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let named = |length| directory.path().join("x".repeat(length));
    let of_length = |length: usize| {
        let mut path = directory.path().to_owned();
        while path.as_os_str().len() < length - 200 {
            path.push("d".repeat(99));
        }
        path.join("x".repeat(length - 1 - path.as_os_str().len()))
    };
    for file in [named(247), of_length(504)] {
        open(file).unwrap();
    }
    refused(named(248), &["the name of the file has 248 bytes, and may have 247"]);
    refused(of_length(505), &["the path has 505 bytes, and may have 504"]);
    assert!(!named(248).exists() && !of_length(505).exists());
}

#[test]
fn a_path_that_is_not_a_file_is_refused() {
    let (directory, file) = a_file();
    fs::create_dir(&file).unwrap();
    refused(&file, &["not a regular file"]);
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    refused(fifo, &["not a regular file"]);
}

/// Regression: without a word, a store did without sessions. A killed holder's lock lasted until the
/// end of its lease, and waiters polled.
#[test]
fn a_directory_of_sessions_that_cannot_be_used_is_refused() {
    let (_directory, file) = a_file();
    take(&mut open(&file).unwrap().mortal(), &attempt(1, &["a"], 1000)).unwrap();
    let sessions = file.with_extension("db-peers");
    for bits in [0o777, 0o720, 0o500] {
        chmod(&sessions, bits);
        refused(&file, &["leases.db-peers has mode", &format!("{bits:04o}"), "run chmod 700 on it"]);
    }
    chmod(&sessions, 0o700);
    open(&file).unwrap();
    let away = file.with_extension("away");
    fs::rename(&sessions, &away).unwrap();
    symlink(&away, &sessions).unwrap();
    refused(&file, &["leases.db-peers is not a directory"]);
}

#[test]
fn a_refused_place_serves_as_soon_as_it_is_mended() {
    let (directory, file) = a_file();
    chmod(&directory, 0o777);
    let mut ledger = Ledger::at(&file, ByHand::new());
    ledger.open().unwrap_err();
    chmod(&directory, 0o700);
    assert!(take(&mut ledger, &attempt(1, &["a"], 1000)).is_some());
}

#[test]
fn a_foreign_file_is_refused_and_left_as_it_is() {
    let foreign_database = |file: &Path| {
        let other = rusqlite::Connection::open(file).unwrap();
        other
            .execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (x); INSERT INTO t VALUES (1)")
            .unwrap();
    };
    let makers: [&dyn Fn(&Path); 4] = [
        &|file| fs::write(file, "dear diary").unwrap(),
        &|file| fs::write(file, [0; 5000]).unwrap(),
        &|file| fs::write(file, "SQLite format 3\0").unwrap(),
        &foreign_database,
    ];
    for make in makers {
        let (directory, file) = a_file();
        make(&file);
        chmod(&file, 0o600);
        let (before, modified) = (fs::read(&file).unwrap(), fs::metadata(&file).unwrap().modified().unwrap());
        refused(&file, &["not Leasehold's", "another path"]);
        assert_eq!(
            (fs::read(&file).unwrap(), fs::metadata(&file).unwrap().modified().unwrap()),
            (before, modified)
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_file_of_a_later_version_is_refused_and_left_as_it_is() {
    let (_directory, file) = a_file();
    let mut ledger = open(&file).unwrap();
    take(&mut ledger, &attempt(1, &["a"], 1000)).unwrap();
    drop(ledger);
    rusqlite::Connection::open(&file).unwrap().pragma_update(None, "user_version", 6).unwrap();
    let before = fs::read(&file).unwrap();
    refused(&file, &["format 6", "knows format 5", "update"]);
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn a_file_from_before_there_were_queues_is_taken_over_with_its_locks_and_fences() {
    let (_directory, file) = a_file();
    let fence = take(&mut open(&file).unwrap(), &attempt(1, &["a"], 60_000)).unwrap();
    rusqlite::Connection::open(&file)
        .unwrap()
        .execute_batch(
            "CREATE TABLE lock (key BLOB PRIMARY KEY, holder BLOB, label TEXT, ends INTEGER) STRICT, WITHOUT ROWID;
             CREATE TABLE fence (key BLOB PRIMARY KEY, fence INTEGER, ends INTEGER) STRICT, WITHOUT ROWID;
             INSERT INTO lock SELECT key, holder, label, ends FROM record;
             INSERT INTO fence SELECT key, fence, fence_ends FROM record;
             DROP TABLE record; DROP TABLE waiter; DROP TABLE struck; DROP TABLE share; DROP TABLE mark;
             DROP TABLE broken;
             PRAGMA user_version = 1;",
        )
        .unwrap();
    let mut ledger = open(&file).unwrap();
    assert_eq!(take(&mut ledger, &attempt(2, &["a"], 60_000)), None);
    assert_eq!(ledger.dump().unwrap().fences[&key("a")].fence, fence);
}

/// A program of that version that has the file open would consider a shared key free. So it must
/// not find its table.
#[test]
fn a_file_from_before_there_were_shares_and_marks_is_taken_over_and_closed_to_programs_of_then() {
    let (_directory, file) = a_file();
    let one = attempt(1, &["a"], 60_000);
    let fence = take(&mut open(&file).unwrap(), &one).unwrap();
    let before = with_older_names(&file);
    before
        .execute_batch(
            "ALTER TABLE record DROP COLUMN marker; ALTER TABLE record DROP COLUMN shares; DROP TABLE share; DROP TABLE mark;
             DROP TABLE broken;
             ALTER TABLE record RENAME TO entry; PRAGMA user_version = 2;",
        )
        .unwrap();
    let mut of_then = before.prepare("SELECT holder FROM entry").unwrap();
    assert!(of_then.exists([]).unwrap());
    let mut ledger = open(&file).unwrap();
    assert_eq!(take(&mut ledger, &attempt(2, &["a"], 60_000)), None);
    assert_eq!(ledger.dump().unwrap().fences[&key("a")].fence, fence);
    let shared = Claim::shared([key("b")]).unwrap();
    for who in 3..5 {
        assert!(
            take(&mut ledger, &Attempt::new(shared.clone(), Holder::from_bits(who), None, Ttl::DEFAULT))
                .is_some()
        );
    }
    let mark = Mark::new(Stamp::from_micros(1), fence, None);
    let request = Request::Mark { attempt: one, mark: mark.clone(), keep: Mark::FOR_EVER };
    assert_eq!(ledger.serve(request).unwrap().answer, Answer::Mark(HoldAnswer::Done));
    let marked = ledger.serve(Request::Marked(key("a"))).unwrap().answer;
    assert!(
        matches!(&marked, Answer::Marked(Marked { mark: Some(found), .. }) if *found == mark),
        "{marked:?}"
    );
    assert!(of_then.exists([]).is_err());
}

#[test]
fn a_file_from_before_breaks_were_recorded_is_taken_over_with_its_marks() {
    let (_directory, file) = a_file();
    let (one, name) = (attempt(1, &["a"], 60_000), key("a"));
    let mut ledger = open(&file).unwrap();
    let fence = take(&mut ledger, &one).unwrap();
    let mark = Mark::new(Stamp::from_micros(1), fence, None);
    let request = Request::Mark { attempt: one, mark: mark.clone(), keep: Mark::FOR_EVER };
    ledger.serve(request).unwrap();
    drop(ledger);
    with_older_names(&file)
        .execute_batch("ALTER TABLE mark DROP COLUMN period; DROP TABLE broken; PRAGMA user_version = 3;")
        .unwrap();
    let mut ledger = open(&file).unwrap();
    let marks = ledger.list_marks(b"").unwrap();
    assert_eq!(
        marks.into_iter().map(|(key, marked)| (key, marked.mark)).collect::<Vec<_>>(),
        [(name.clone(), Some(mark))]
    );
    let note = BreakNote::default();
    ledger.serve(Request::Break { key: name.clone(), fence, note }).unwrap();
    assert_eq!(ledger.last_break(&name).unwrap().map(|broken| broken.fence), Some(fence));
}

#[test]
fn a_file_whose_columns_have_older_names_is_taken_over_with_its_shares_and_queue() {
    let (_directory, file) = a_file();
    let shared = Claim::shared([key("a")]).unwrap();
    let reader = Attempt::new(shared, Holder::from_bits(1), None, Ttl::new(Duration::from_secs(60)).unwrap());
    let mut ledger = open(&file).unwrap();
    take(&mut ledger, &reader).unwrap();
    let (waiter, wait) = (attempt(2, &["a"], 60_000), Some(Wait::default()));
    ledger.serve(Request::Grant { attempt: waiter, wait, not_after: None }).unwrap();
    let before = ledger.dump().unwrap();
    drop(ledger);
    with_older_names(&file).pragma_update(None, "user_version", 4).unwrap();
    let after = open(&file).unwrap().dump().unwrap();
    assert_eq!((&after.shares, &after.queues), (&before.shares, &before.queues));
}

#[test]
fn a_damaged_file_is_a_lasting_fault_that_names_the_remedy() {
    let (_directory, file) = a_file();
    let mut ledger = open(&file).unwrap();
    take(&mut ledger, &attempt(1, &["a"], 1000)).unwrap();
    drop(ledger);
    let mut bytes = fs::read(&file).unwrap();
    bytes[100..].fill(0x5a);
    fs::write(&file, bytes).unwrap();
    refused(&file, &["damaged", "stop all programs", "move it away"]);
}
