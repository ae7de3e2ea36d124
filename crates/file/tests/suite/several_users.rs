//! A store that the users of a group share, created by root. These tests need root.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_core::Request;
use leasehold_file::{Ledger, make_group_store};
use tempfile::TempDir;

use crate::child;
use crate::clocks::{ByHand, OfTheMachine};
use crate::queue::{Process, notes};
use crate::seeds::{attempt, take};

/// A group that probably nobody uses; users need no database entry to have files and locks.
const GROUP: u32 = 64_100;
const STRICT: &str = "umask 077; exec \"$0\" \"$@\"";
const ANNE: &[&str] = &["setpriv", "--reuid=64001", "--regid=64001", "--groups=64100", "sh", "-c", STRICT];
const BERT: &[&str] = &["setpriv", "--reuid=64002", "--regid=64002", "--groups=64100"];
const STRANGER: &[&str] = &["setpriv", "--reuid=64003", "--regid=64003", "--clear-groups"];

/// A store as `leasehold init` makes it; `None` where that is not permitted.
fn a_store() -> Option<(TempDir, PathBuf)> {
    if !child::can(ANNE) {
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
    let file = make_group_store(&directory.path().join("locks"), GROUP).unwrap();
    Ledger::at(&file, Arc::new(OfTheMachine)).open().unwrap();
    // The files that the tasks write, whichever task comes first.
    for kind in ["notes", "inside"] {
        let path = file.with_extension(kind);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    }
    Some((directory, file))
}

fn beside(file: &Path, suffix: &str) -> PathBuf {
    format!("{}{suffix}", file.display()).into()
}

/// Mode, owner and group.
fn access(path: &Path) -> (u32, u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.mode() & 0o7777, found.uid(), found.gid())
}

#[test]
fn files_that_stay_in_the_directory_belong_to_its_owner_and_group_whichever_user_made_them() {
    let Some((_directory, file)) = a_store() else { return };
    for user in [&[][..], ANNE, BERT] {
        assert_eq!(access(file.parent().unwrap()), (0o3770, 0, GROUP));
        for suffix in ["", "-wal", "-shm"] {
            assert_eq!(access(&beside(&file, suffix)), (0o660, 0, GROUP), "{suffix} before {user:?}");
        }
        assert_eq!(access(&beside(&file, "-peers")), (0o2770, 0, GROUP));
        // The last user closes the file.
        assert!(child::command(user, "open", &file).status().unwrap().success(), "{user:?}");
    }
    let again = make_group_store(file.parent().unwrap(), GROUP).unwrap();
    assert_eq!(again, file);
}

#[test]
fn users_of_a_group_exclude_each_other_and_a_killed_one_is_followed_at_once() {
    let Some((_directory, file)) = a_store() else { return };
    for (one, other) in [(ANNE, BERT), (BERT, &[]), (&[], ANNE)] {
        let mut holder = Process::start_by(one, "holder", &file);
        assert_eq!(child::tries(other, &file), "busy");
        let mut waiter = Process::start_by(other, "waiter", &file);
        waiter.says("queued");
        let killed = Instant::now();
        holder.kill();
        waiter.ends();
        // Its lease would last a minute.
        assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
    }
}

/// A releasing process may write to the socket of another user's process, so waiters need not poll.
#[test]
fn users_of_a_group_tell_each_other_of_their_turns() {
    let Some((_directory, file)) = a_store() else { return };
    for user in [ANNE, BERT] {
        let mut holder = Process::start_by(&[], "holder", &file);
        let mut waiter = Process::start_by(user, "waiter", &file);
        waiter.says("queued");
        let sockets = fs::read_dir(beside(&file, "-peers")).unwrap().map(|entry| entry.unwrap().path());
        let sockets: Vec<_> =
            sockets.filter(|path| path.extension().is_some_and(|kind| kind == "s")).collect();
        assert_eq!(sockets.len(), 2);
        for socket in sockets {
            let (mode, _, group) = access(&socket);
            assert_eq!((mode, group), (0o660, GROUP), "{socket:?}");
        }
        holder.kill();
        waiter.ends();
    }
    let mut all: Vec<_> =
        [ANNE, BERT, &[], ANNE, BERT].map(|user| Process::start_by(user, "round and round", &file)).into();
    while notes(&file).len() < 500 {
        std::thread::sleep(Duration::from_millis(5));
    }
    all.iter_mut().for_each(|process| _ = process.kill());
    assert!(!notes(&file).iter().any(|note| note.contains("at once")));
}

#[test]
fn a_user_outside_the_group_gets_an_error_that_says_so() {
    let Some((_directory, file)) = a_store() else { return };
    let said = child::tries(STRANGER, &file);
    assert!(said.contains("user 64003 is not in group 64100") && said.contains("log in again"), "{said}");
}

/// A file that a user creates instead of the owner could be replaced by that user.
#[test]
fn only_the_owner_creates_the_files_that_stay_in_the_directory() {
    let Some((_directory, file)) = a_store() else { return };
    for suffix in ["", "-wal", "-shm", "-peers"] {
        let path = beside(&file, suffix);
        let away = beside(&file, ".away");
        fs::rename(&path, &away).unwrap();
        let said = child::tries(ANNE, &file);
        assert!(said.contains("is not there") && said.contains("leasehold init"), "{suffix}: {said}");
        assert!(!path.exists());
        fs::rename(&away, &path).unwrap();
        std::os::unix::fs::chown(&path, Some(64_002), None).unwrap();
        let said = child::tries(ANNE, &file);
        assert!(said.contains("64002") || said.contains("belongs to another user"), "{suffix}: {said}");
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        assert_eq!(child::tries(ANNE, &file), "granted");
    }
}

/// Regression: a look by root, as by monitoring, made the directory of a store before its user's first
/// lock, and that user could not use it then.
#[test]
fn root_makes_no_directory_inside_one_of_another_user() {
    if !child::can(STRANGER) {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(home.path(), Some(64_003), None).unwrap();
    let file = home.path().join("state/locks/leases.db");
    for _ in 0..2 {
        let fault = Ledger::at(&file, ByHand::new()).open().unwrap_err();
        let says = format!("{} belongs to user 64003, who could not use", home.path().display());
        assert!(fault.reason.contains(&says) && fault.reason.contains("run this as that user"), "{fault}");
        assert!(fs::read_dir(home.path()).unwrap().next().is_none());
    }
    assert_eq!(child::tries(STRANGER, &file), "granted");
}

#[test]
fn a_directory_that_is_not_as_one_for_a_group_must_be_is_refused() {
    let Some((_directory, file)) = a_store() else { return };
    let directory = file.parent().unwrap();
    for mode in [0o2770, 0o3772, 0o3777] {
        fs::set_permissions(directory, Permissions::from_mode(mode)).unwrap();
        let fault = Ledger::at(&file, ByHand::new()).open().unwrap_err();
        assert!(fault.reason.contains("run chmod 3770 on it"), "{fault}");
    }
    fs::set_permissions(directory, Permissions::from_mode(0o3770)).unwrap();
    std::os::unix::fs::chown(directory, Some(64_001), None).unwrap();
    let fault = Ledger::at(&file, ByHand::new()).open().unwrap_err();
    assert!(fault.reason.contains("belongs to user 64001, who could replace"), "{fault}");
    let full = make_group_store(Path::new("/usr"), GROUP).unwrap_err();
    assert!(full.reason.contains("is not empty"), "{full}");
}

/// Each user of the group may write to the directory of the sessions.
#[test]
fn a_foreign_file_in_place_of_a_session_delays_nobody() {
    let Some((_directory, file)) = a_store() else { return };
    let mut ledger = Ledger::at(&file, Arc::new(OfTheMachine)).mortal();
    take(&mut ledger, &attempt(1, &["a"], 60_000)).unwrap();
    let sessions = beside(&file, "-peers");
    let own = fs::read_dir(&sessions).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(&own).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &own, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    fs::set_permissions(&own, Permissions::from_mode(0o666)).unwrap();
    for name in ["00000000000000aa", "00000000000000aa.s"] {
        std::os::unix::fs::symlink("/etc/passwd", sessions.join(name)).unwrap();
    }
    let said = child::tries(BERT, &file);
    assert!(["granted", "busy"].contains(&&*said), "{said}");
    ledger.serve(Request::Release(attempt(1, &["a"], 60_000))).unwrap();
    assert!(fs::symlink_metadata("/etc/passwd").unwrap().is_file());
}
