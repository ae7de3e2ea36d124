//! Processes in containers that share a file, with their own boot ids, boot clocks and mounts.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_core::{Answer, FaultKind, HoldAnswer, Request};
use leasehold_file::{BootId, Ledger};

use crate::child;
use crate::clocks::{ByHand, OfTheMachine};
use crate::queue::Process;
use crate::seeds::{a_file, a_try, attempt, key, take};

/// LXC, Incus and systemd-nspawn mount a random boot id into each container.
#[test]
fn a_process_with_another_boot_id_is_refused_next_to_a_live_one_and_voids_nothing() {
    let (_directory, file) = a_file();
    let clock = ByHand::new();
    let booted_as = |id| Ledger::at(&file, Arc::clone(&clock) as _).in_boot(BootId::new(id)).mortal();
    let mut first = booted_as("one");
    let held = attempt(1, &["a"], 60_000);
    take(&mut first, &held).unwrap();
    let grant = || a_try(&attempt(2, &["a"], 60_000));
    let fault = booted_as("two").serve(grant()).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Lasting, "{fault}");
    for words in [&format!("process {}", std::process::id()), "boot id one", "here it is two", "container"] {
        assert!(fault.reason.contains(words), "{fault}");
    }
    assert_eq!(take(&mut booted_as("one"), &attempt(3, &["a"], 60_000)), None);
    let renewed = first.serve(Request::Renew(held)).unwrap().answer;
    assert_eq!(renewed, Answer::Renew(HoldAnswer::Done));
    // Without live processes, it may as well have been a reboot.
    drop(first);
    assert!(take(&mut booted_as("two"), &attempt(2, &["a"], 60_000)).is_some());
}

#[test]
fn a_container_with_another_boot_id_is_refused_while_a_holder_lives() {
    let (directory, file) = a_file();
    let id = directory.path().join("boot_id");
    fs::write(&id, "6e7ac7f5-0000-4000-8000-15c2ba4ae5a2\n").unwrap();
    let script =
        format!("mount --bind {} /proc/sys/kernel/random/boot_id && exec \"$0\" \"$@\"", id.display());
    let container = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", &script];
    if !child::can(&container) {
        return;
    }
    let mut holder = Process::start_by(&[], "holder", &file);
    let said = child::tries(&container, &file);
    assert!(said.contains("boot id") && said.contains("the kernel is the same one"), "{said}");
    assert_eq!(child::tries(&[], &file), "busy");
    holder.kill();
    assert_eq!(child::tries(&container, &file), "granted");
}

/// Regression: the error did not say what to do.
#[test]
fn a_process_without_proc_is_told_to_mount_it() {
    let (_directory, file) = a_file();
    let hidden = "mount -t tmpfs none /proc && exec \"$0\" \"$@\"";
    let container = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", hidden];
    if child::can(&container) {
        let said = child::tries(&container, &file);
        assert!(said.ends_with("/proc/sys/kernel/random/boot_id is not there: mount /proc"), "{said}");
    }
}

/// In such a namespace the boot clock is a day ahead, when all leases of the others have ended.
#[test]
fn a_process_in_a_time_namespace_counts_leases_as_all_others_do() {
    let (_directory, file) = a_file();
    let tomorrow = ["unshare", "--user", "--map-root-user", "--time", "--boottime", "86400", "--fork"];
    if !child::can(&tomorrow) {
        return;
    }
    let mut ledger = Ledger::at(&file, Arc::new(OfTheMachine));
    let held = attempt(1, &["a"], 60_000);
    take(&mut ledger, &held).unwrap();
    assert_eq!(child::tries(&tomorrow, &file), "busy");
    ledger.serve(Request::Release(held)).unwrap();
    // Conversely, a lease of a process in the namespace ends for the others at its own end.
    let begun = Instant::now();
    assert!(child::command(&tomorrow, "hold", &file).status().unwrap().success());
    let Answer::Inspect(state) = ledger.serve(Request::Inspect(key("a"))).unwrap().answer else {
        panic!("another answer");
    };
    let left = state.holders[0].remaining.unwrap();
    let least = Duration::from_secs(59).saturating_sub(begun.elapsed());
    assert!((least..=Duration::from_secs(60)).contains(&left), "{left:?}");
}

/// As by `docker run -v leases.db:/y/leases.db`: the log next to it would be another one.
#[test]
fn a_file_that_is_mounted_without_its_directory_is_refused() {
    let (directory, file) = a_file();
    let elsewhere = directory.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let alone = elsewhere.join("leases.db");
    let mount = |what: &Path, to: &Path| {
        format!("mount --bind {} {} && exec \"$0\" \"$@\"", what.display(), to.display())
    };
    let apart = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"];
    let can_mount = mount(directory.path(), &elsewhere);
    if !child::can(&[&apart[..], &[&can_mount]].concat()) {
        return;
    }
    let mut ledger = Ledger::at(&file, Arc::new(OfTheMachine));
    take(&mut ledger, &attempt(1, &["a"], 60_000)).unwrap();
    fs::write(&alone, "").unwrap();
    fs::set_permissions(&elsewhere, Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(&alone, Permissions::from_mode(0o600)).unwrap();
    let said = child::tries(&[&apart[..], &[&mount(&file, &alone)]].concat(), &alone);
    assert!(said.contains("is mounted by itself") && said.contains("mount the whole directory"), "{said}");
    fs::remove_file(&alone).unwrap();
    let whole = child::tries(&[&apart[..], &[&can_mount]].concat(), &alone);
    assert_eq!(whole, "busy");
}
