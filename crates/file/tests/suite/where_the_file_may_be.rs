//! Paths and directories that are refused, and the permissions of those that are accepted.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::Command;

use leasehold_core::{Fault, FaultKind};
use leasehold_file::Ledger;

use crate::clocks::ByHand;
use crate::queue::Process;
use crate::seeds::{a_file, attempt, take};

fn open(path: impl AsRef<Path>) -> Result<Ledger, Fault> {
    let mut ledger = Ledger::at(path, ByHand::new());
    ledger.open().map(|()| ledger)
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

/// Regression: the outer one of two missing directories had what the umask left of its mode, so nothing
/// could be created in it, now or later.
#[test]
fn directories_are_made_0700_and_files_0600_under_any_umask() {
    for umask in ["0", "0277"] {
        let (directory, _) = a_file();
        let file = directory.path().join("not/there/leases.db");
        let script = format!("umask {umask}; exec \"$0\" \"$@\"");
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

/// Regression: a store did without sessions, so a killed holder's lock lasted, and waiters polled.
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
    if is_root() {
        chown(&sessions, Some(65534), None).unwrap();
        refused(&file, &["leases.db-peers belongs to user 65534", "remove it"]);
        chown(&sessions, Some(0), None).unwrap();
    }
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
fn a_file_of_another_version_is_refused_and_left_as_it_is() {
    let (_directory, file) = a_file();
    take(&mut open(&file).unwrap(), &attempt(1, &["a"], 1000)).unwrap();
    let with_version = |version: u32| {
        rusqlite::Connection::open(&file).unwrap().pragma_update(None, "user_version", version).unwrap();
        fs::read(&file).unwrap()
    };
    for (version, remedy) in [(0, "delete it"), (4, "delete it"), (6, "replace this program")] {
        let before = with_version(version);
        refused(&file, &[&format!("format {version}"), "knows format 5", remedy]);
        assert_eq!(fs::read(&file).unwrap(), before);
    }
    with_version(5);
    open(&file).unwrap();
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
