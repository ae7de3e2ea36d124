//! A shell for the commands of README and guide: `leasehold` on the PATH, stand-ins for the user's
//! programs, and another holder of the lock.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::harness::{Done, OURS, Running, Site};

/// A shell's environment, with our program and the store.
pub(crate) fn in_shell(site: &Site, shell: &str, words: &[&str]) -> Command {
    let mut command = site.process(shell, words);
    command.env("LEASEHOLD_STORE", site.store()).env("PATH", path());
    command
}

/// What such a shell makes of a script.
#[track_caller]
pub(crate) fn sh(site: &Site, script: &str) -> Done {
    site.finish(in_shell(site, "sh", &["-c", script]))
}

/// `leasehold` is on it.
pub(crate) fn path() -> String {
    let ours = std::path::Path::new(OURS).parent().unwrap().display();
    format!("{ours}:/usr/local/bin:/usr/bin:/bin")
}

/// A program of the user's.
pub(crate) fn program(site: &Site, name: &str, script: &str) {
    fs::write(site.path(name), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(site.path(name), Permissions::from_mode(0o755)).unwrap();
}

/// Another holder of the lock, until the file `go` exists.
pub(crate) fn others(site: &Site, key: &str) -> Running {
    site.holder(&[key])
}
